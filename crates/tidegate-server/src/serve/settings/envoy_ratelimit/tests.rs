use std::collections::BTreeSet;

use super::*;

/// What these variables become, with these settings from other sources.
fn found(variables: &[(&str, &str)], set: &[&str]) -> (Vec<String>, Vec<String>) {
    let environment =
        |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
    let found = read(EnvoyRatelimitEnv::Auto, environment, |setting| set.contains(&setting)).unwrap();
    (found.arguments.iter().map(|text| text.to_str().unwrap().to_owned()).collect(), found.warnings)
}

fn argument(variables: &[(&str, &str)], name: &str) -> Option<String> {
    let variables = [&[("RUNTIME_SUBDIRECTORY", "ratelimit")], variables].concat();
    let (arguments, _) = found(&variables, &[]);
    let prefix = format!("--{name}=");
    arguments.iter().find_map(|argument| argument.strip_prefix(&prefix).map(str::to_owned))
}

#[test]
fn nothing_is_read_without_a_marker() {
    let variables =
        [("HOST", "10.0.0.1"), ("PORT", "3000"), ("REDIS_URL", "redis:6379"), ("SHADOW_MODE", "true")];
    assert_eq!(found(&variables, &[]), (vec![], vec![]));
    let environment = |name: &str| (name == "PORT").then(|| "3000".to_owned());
    let on = read(EnvoyRatelimitEnv::On, environment, |_| false).unwrap();
    assert!(on.arguments.contains(&"--http=0.0.0.0:3000".into()), "{on:?}");
    let environment = |name: &str| (name == "RUNTIME_ROOT").then(|| "/x".to_owned());
    assert_eq!(read(EnvoyRatelimitEnv::Off, environment, |_| false), Ok(FromVariables::default()));
}

#[test]
fn a_usual_deployment() {
    let variables = [
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "redis:6379"),
        ("USE_STATSD", "false"),
        ("LOG_LEVEL", "WARN"),
        ("MERGE_DOMAIN_CONFIG", "1"),
    ];
    let (arguments, warnings) = found(&variables, &[]);
    let expected = [
        "--rules=/data/ratelimit/config",
        "--http=0.0.0.0:8080",
        "--grpc=0.0.0.0:8081",
        "--log-level=warn",
        "--ignore-dotfiles=true",
        "--merge-domain-config=true",
        "--store=redis://redis:6379",
    ];
    assert_eq!(arguments, expected);
    assert_eq!(warnings, [] as [&str; 0]);
    let (arguments, _) = found(&variables, &["rules", "http", "grpc", "store", "log_level"]);
    assert_eq!(
        arguments,
        ["--ignore-dotfiles=true", "--merge-domain-config=true"],
        "other sources have precedence"
    );
}

#[test]
fn addresses_and_tls() {
    assert_eq!(argument(&[("PORT", "80"), ("HOST", "::1")], "http").as_deref(), Some("[::1]:80"));
    assert_eq!(argument(&[("GRPC_UDS", "/run/rl.sock")], "grpc").as_deref(), Some("unix:/run/rl.sock"));
    let tls =
        [("GRPC_SERVER_USE_TLS", "true"), ("GRPC_SERVER_TLS_CERT", "/c"), ("GRPC_CLIENT_TLS_CACERT", "/ca")];
    assert_eq!(argument(&tls, "grpc").as_deref(), Some("tls:0.0.0.0:8081"));
    assert_eq!(argument(&tls, "tls-client-ca").as_deref(), Some("/ca"));
    assert_eq!(argument(&tls[1..], "tls-cert"), None, "without TLS there is no certificate");
}

#[test]
fn the_url_of_the_store() {
    let tcp = ("REDIS_SOCKET_TYPE", "tcp");
    for (variables, url) in [
        (&[("REDIS_URL", "redis:6379"), tcp, ("REDIS_AUTH", "p@ss")][..], "redis://:p%40ss@redis:6379"),
        (&[("REDIS_URL", "r:1"), tcp, ("REDIS_AUTH", "ann:x"), ("REDIS_TLS", "true")], "rediss://ann:x@r:1"),
        (&[("REDIS_URL", "a:1,b:2"), tcp, ("REDIS_TYPE", "CLUSTER")], "redis-cluster://a:1,b:2"),
        (
            &[("REDIS_URL", "main,a:1,b:2"), tcp, ("REDIS_TYPE", "SENTINEL"), ("REDIS_SENTINEL_AUTH", "s")],
            "redis+sentinel://a:1,b:2/main?sentinel_password=s",
        ),
        (&[("REDIS_URL", "rediss://r:6380/2")], "rediss://r:6380/2"),
    ] {
        assert_eq!(argument(variables, "store").as_deref(), Some(url));
        url.parse::<tidegate::redis::StoreUrl>().unwrap_or_else(|error| panic!("{url}: {error}"));
    }
    for variables in [
        &[("RUNTIME_ROOT", "/x")][..],
        &[("RUNTIME_ROOT", "/x"), ("REDIS_URL", "/var/run/redis.sock")],
        &[("RUNTIME_ROOT", "/x"), ("REDIS_URL", "redis.sock")],
        &[("RUNTIME_ROOT", "/x"), ("BACKEND_TYPE", "memcache")],
    ] {
        let (arguments, warnings) = found(variables, &[]);
        assert!(!arguments.iter().any(|argument| argument.starts_with("--store")), "{arguments:?}");
        assert!(warnings[0].contains("so counters are in memory"), "{warnings:?}");
        assert!(
            !found(variables, &["store"])
                .1
                .iter()
                .any(|warning| warning.contains("so counters are in memory"))
        );
    }
}

#[test]
fn different_key_prefixes_are_different_namespaces() {
    let namespace = |prefix| {
        let redis = [("REDIS_URL", "r:1"), ("REDIS_SOCKET_TYPE", "tcp"), ("CACHE_KEY_PREFIX", prefix)];
        argument(&redis, "store-namespace").unwrap()
    };
    assert_eq!(namespace("prod:"), "prod:");
    let all: BTreeSet<String> =
        ["a b", "a-b", "a/b", "a very long prefix of keys 1", "a very long prefix of keys 2"]
            .map(namespace)
            .into();
    assert_eq!(all.len(), 5, "{all:?}");
    assert!(all.iter().all(|namespace| crate::serve::settings::values::store_namespace(namespace).is_ok()));
}

/// Every variable without a setting is named in a warning, with what to use instead.
#[test]
fn no_variable_is_ignored_silently() {
    let names: BTreeSet<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
    assert_eq!(names.len(), VARIABLES.len(), "no name occurs twice");
    let settings: BTreeSet<String> = {
        use clap::CommandFactory as _;
        crate::serve::settings::ServeArgs::command()
            .get_arguments()
            .map(|arg| arg.get_id().to_string())
            .collect()
    };
    for variable in VARIABLES {
        match variable.used {
            Use::NotNeeded(_) => {}
            Use::Setting(setting) => assert!(settings.contains(setting), "{}: {setting}", variable.name),
            Use::Warned { unless, instead } => {
                let (_, warnings) =
                    found(&[("RUNTIME_ROOT", "/x"), (variable.name, "something")], &["store"]);
                let has_name =
                    |warning: &&String| warning.contains(variable.name) && warning.contains(instead);
                assert_eq!(warnings.iter().filter(has_name).count(), 1, "{}: {warnings:?}", variable.name);
                let (_, warnings) = found(&[("RUNTIME_ROOT", "/x"), (variable.name, unless)], &["store"]);
                assert!(unless.is_empty() || warnings.is_empty(), "{}: {warnings:?}", variable.name);
            }
        }
    }
}

/// envoyproxy/ratelimit does not start with such a value. Taken as false, it would turn TLS off.
#[test]
fn a_value_that_is_not_accepted_is_an_error() {
    let problems = |name: &str, value: &str, set: &[&str]| {
        let environment = |asked: &str| match asked {
            "RUNTIME_ROOT" => Some("/x".to_owned()),
            _ => (asked == name).then(|| value.to_owned()),
        };
        read(EnvoyRatelimitEnv::Auto, environment, |setting| set.contains(&setting)).err().unwrap_or_default()
    };
    for (name, value, accepted) in [
        ("GRPC_SERVER_USE_TLS", "yes", "true or false"),
        ("REDIS_TLS", "on", "true or false"),
        ("SHADOW_MODE", "maybe", "true or false"),
        ("MERGE_DOMAIN_CONFIG", "tRUE", "true or false"),
        ("RUNTIME_IGNOREDOTFILES", "2", "true or false"),
        ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", " true", "true or false"),
        ("REDIS_TYPE", "weird", "single, cluster or sentinel"),
        ("REDIS_TYPE", "or", "single, cluster or sentinel"),
        ("REDIS_SOCKET_TYPE", "udp", "tcp or unix"),
        ("PORT", "http", "a port"),
        ("GRPC_PORT", "70000", "a port"),
        ("NEAR_LIMIT_RATIO", "most", "a number"),
        ("LOG_LEVEL", "loud", "warning"),
    ] {
        let problems = problems(name, value, &[]);
        assert_eq!(problems.len(), 1, "{name}={value}: {problems:?}");
        let has = |text: &str| problems[0].contains(text);
        assert!(has(name) && has(&format!("`{value}`")) && has(accepted), "{problems:?}");
    }
    for value in ["1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False"] {
        assert_eq!(problems("REDIS_TLS", value, &[]), [] as [&str; 0]);
    }
    assert_eq!(problems("REDIS_TYPE", "CLUSTER", &[]), [] as [&str; 0]);
    assert_eq!(problems("PORT", "http", &["http"]), [] as [&str; 0], "other sources have precedence");
}

#[test]
fn variables_that_are_not_read_are_named() {
    let unread_of = |variables: &[(&str, &str)], store| {
        let environment = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        unread(EnvoyRatelimitEnv::Auto, &environment, &store).unwrap_or_default()
    };
    let redis = [("REDIS_URL", "redis:6379"), ("USE_STATSD", "false"), ("PORT", "80")];
    let warning = unread_of(&redis, StoreLocation::Memory);
    assert!(warning.contains("not read: USE_STATSD, REDIS_URL ("), "{warning}");
    assert!(unread_of(&redis[..1], StoreLocation::Memory).contains("REDIS_URL"));
    assert!(unread_of(&redis, StoreLocation::Url("redis://r".into())).contains("not read: USE_STATSD ("));
    assert_eq!(unread_of(&redis[..1], StoreLocation::Url("redis://r".into())), "", "a common name");
    assert_eq!(unread_of(&[("PORT", "80")], StoreLocation::Memory), "");
    assert_eq!(unread_of(&[("RUNTIME_ROOT", "/x"), ("USE_STATSD", "false")], StoreLocation::Memory), "");
}
