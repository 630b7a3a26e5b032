//! Invalid settings: the error names the problem, the place and the fix, before any address is bound.

use crate::serve::{Directory, HTTP_ONLY, Server, run_to_exit};

/// The error for settings that must be rejected with this exit code, and nothing on standard output.
#[track_caller]
fn settings_error_with_code(code: i32, args: &[&str], env: &[(&str, &str)]) -> String {
    let run = run_to_exit(args, env);
    assert_eq!((run.code, &*run.out), (Some(code), ""), "{}", run.err);
    run.err
}

#[track_caller]
fn settings_error(args: &[&str]) -> String {
    settings_error_with_code(2, args, &[])
}

#[test]
fn values_of_flags() {
    let cases = [
        ("--http", "localhost", "`localhost` is not a listen address (hint: 127.0.0.1:8080"),
        ("--grpc", "unix:", "`unix:` is not a listen address"),
        ("--memory-max", "12", "12B is too small (hint: the minimum is 1MiB)"),
        ("--snapshot-every", "1ms", "`1ms` is too short (hint: the minimum is 100ms)"),
        ("--drain-timeout", "2 days", "`2 days` is too long (hint: the maximum is 24h)"),
        ("--reload-every", "soon", "(hint: "),
        ("--connections-max", "0", "`0` is not a number from 1 to 1000000 (hint: "),
        ("--queue-max", "1048577", "`1048577` is not a number from 1 to 1048576 (hint: "),
        ("--workers", "many", "`many` is not a number from 1 to 1024 (hint: "),
        ("--log-level", "loud", "[possible values: error, warn, info, debug, trace]"),
        ("--log-keys", "no", "[possible values: hashed, plain]"),
        ("--rls-details", "some", "[possible values: off, marked, all]"),
        ("--print-addresses", "xml", "[possible values: text, json]"),
        ("--http-hosts", "http://limits.internal", "`http://limits.internal` is not a host name (hint: "),
        ("--connections-per-ip-max", "0", "`0` is not a number from 1 to 1000000 (hint: "),
        ("--negative-hits", "yes", "[possible values: reject, refund]"),
        ("--log-denials", "-1", "invalid value '-1'"),
        ("--forward-auth-source", "apache", "[possible values: any, nginx, traefik, caddy, haproxy]"),
        ("--jwt-keys-url", "jwks.json", "`jwks.json` is not a URL of keys (hint: https://"),
        ("--jwt-algorithms", "none", "write one of RS256"),
        ("--jwt-leeway", "1h", "`1h` is too long"),
        ("--trusted-hops", "33", "33 is not in 0..=32"),
        ("--trusted-proxies", "10.0.0.1/8", "`10.0.0.1/8` is within a block"),
        ("--user-from", "cookie", "`claim:NAME`, `api-key:HEADER`, `header:HEADER` or `basic`"),
    ];
    for (flag, value, message) in cases {
        let error = settings_error(&[&format!("{flag}={value}")]);
        assert!(error.starts_with("error: ") && error.contains(flag) && error.contains(message), "{error}");
    }
    assert!(settings_error(&["--htp", "off"]).contains("a similar argument exists: '--http'"));
}

#[test]
fn values_in_the_environment_say_so() {
    let error = settings_error_with_code(2, &[], &[("TIDEGATE_HTTP", "nowhere")]);
    assert!(error.contains("`nowhere` is not a listen") && error.contains("TIDEGATE_HTTP"), "{error}");
    let error = settings_error_with_code(2, &[], &[("TIDEGATE_LOG_LEVEL", "loud")]);
    assert!(error.contains("TIDEGATE_LOG_LEVEL"), "{error}");
}

#[test]
fn misspelled_variables_warn() {
    let args = [&["--http", "127.0.0.1:0"], &HTTP_ONLY[..]].concat();
    let kubernetes = ("TIDEGATE_SERVICE_HOST", "10.0.0.1");
    let server = Server::start_with_env(&args, &[("TIDEGATE_DATADIR", "/data"), kubernetes]);
    let log = server.stop();
    assert!(log.contains("TIDEGATE_DATADIR") && log.contains("did you mean `TIDEGATE_DATA_DIR`?"), "{log}");
    assert!(!log.contains("SERVICE_HOST"), "{log}");
}

#[test]
fn all_errors_of_a_file_are_reported() {
    let directory = Directory::new();
    let file = "http: 127.0.0.1:0\ngrcp: off\nsnapshot-every: 1s\ndrain_timeout: 5 parsecs\nlog_level: wran\n\
                memory_max: {}\nworkers: [1, 2]\nresp: ''\nconfig: other.yaml\n";
    let path = directory.write("tidegate.yaml", file);
    let error = settings_error(&["--config", &path]);
    let message = [
        (2, 1, "unknown setting `grcp`", "did you mean `grpc`?"),
        (3, 1, "unknown setting `snapshot-every`", "did you mean `snapshot_every`?"),
        (4, 16, "`drain_timeout`: unknown unit of time `parsecs`", "did you mean"),
        (5, 12, "`log_level` cannot be `wran`", "did you mean `warn`?"),
        (6, 13, "expected a value, found a mapping", "give `memory_max` a value"),
        (7, 14, "`workers` takes one value, but the file gives 2", "keep one of them"),
        (8, 7, "`` is not a listen address", "127.0.0.1:8080"),
        (9, 1, "unknown setting `config`", "= help: "),
    ];
    for (line, column, problem, hint) in message {
        for text in [&*format!("{path}:{line}:{column}\n"), problem, hint] {
            assert!(error.contains(text), "{text}: {error}");
        }
    }
    assert!(error.ends_with("8 errors, 0 warnings\n"), "{error}");
}

/// A value in the file must be valid even if a flag overrides it, because it applies as soon as the flag is removed.
#[test]
fn overridden_file_values_are_checked() {
    let directory = Directory::new();
    let path = directory.write("tidegate.yaml", "http: nowhere\n");
    assert!(
        settings_error(&["--config", &path, "--http", "127.0.0.1:0"]).contains("`nowhere` is not a listen")
    );
}

#[test]
fn invalid_settings_files() {
    let directory = Directory::new();
    let error = settings_error(&["--config", "no-such.yaml"]);
    assert!(
        error.contains("cannot read the settings file `no-such.yaml`") && error.contains("(hint: "),
        "{error}"
    );
    for (text, message) in
        [("- a\n- b\n", "expected a mapping, found a list"), ("http: [\n", "tidegate.yaml:")]
    {
        let error = settings_error(&["--config", &directory.write("tidegate.yaml", text)]);
        assert!(error.contains(message), "{error}");
    }
    let long = settings_error(&["--config", &directory.write("long.yaml", "#".repeat((1 << 20) + 1))]);
    assert!(long.contains("the file has more than 1048576 bytes"), "{long}");
    let endless = settings_error(&["--config", "/dev/zero"]);
    assert!(endless.contains("it is not a regular file"), "{endless}");
    let twice = settings_error(&["--config", &directory.write("twice.yaml", "grpc: off\ngrpc: off\n")]);
    assert!(twice.contains("twice.yaml:2:1"), "{twice}");
}

#[test]
fn conflicting_settings() {
    let cases: [(&[&str], &str, &str); 16] = [
        (
            &["--forward-auth-domain", "web", "--user-from", "claim:sub"],
            "there are no keys to verify tokens with",
            "--jwt-keys-file",
        ),
        (
            &["--forward-auth-domain", "web", "--jwt-keys-url", "http://127.0.0.1:1/jwks"],
            "no attribute is a claim",
            "--user-from claim:sub",
        ),
        (
            &["--forward-auth-domain", "web", "--user-from", "claim:sub", "--jwt-keys-file", "no-such.json"],
            "jwt_keys_file `no-such.json`: cannot read it",
            "check the path",
        ),
        (&["--trusted-hops", "1"], "trusted_hops is set, but forward auth is off", "--forward-auth-domain"),
        (
            &["--forward-auth-domain", "web", "--trusted-hops", "1", "--trusted-proxies", "10.0.0.0/8"],
            "trusted_hops and trusted_proxies are both set",
            "trust a number of proxies",
        ),
        (
            &["--http-proxy-protocol", "--http", "tls:127.0.0.1:0", "--tls-cert", "x", "--tls-key", "y"],
            "http_proxy_protocol cannot be used with a `tls:` address",
            "end TLS in the proxy",
        ),
        (
            &["--http", "off", "--grpc", "off", "--resp", "off", "--admin", "off"],
            "http, grpc, resp and admin are all off",
            "give at least one of them an address",
        ),
        (
            &["--http", "tls:127.0.0.1:0"],
            "http listens on tls:127.0.0.1:0, which needs a certificate",
            "--tls-cert",
        ),
        (
            &["--grpc", "tls:127.0.0.1:0", "--tls-cert", "x"],
            "which needs a certificate and its key",
            "--tls-key",
        ),
        (
            &["--tls-cert", "x", "--tls-key", "y"],
            "tls_cert is set, but no address uses TLS",
            "write `tls:` before",
        ),
        (&["--tls-client-ca", "x"], "tls_client_ca is set, but no address uses TLS", "write `tls:` before"),
        (&["--admin", "0.0.0.0:0"], "admin listens on 0.0.0.0:0, where other machines", "--admin-token-file"),
        (&["--admin", "[::]:0"], "admin listens on [::]:0, where other machines", "--admin-token-file"),
        (
            &["--resp", "0.0.0.0:0"],
            "resp listens on 0.0.0.0:0 without a password",
            "--resp-protected-mode off",
        ),
        (
            &["--http", "127.0.0.1:7", "--resp", "127.0.0.1:7"],
            "http and resp cannot both listen on 127.0.0.1:7",
            "--resp off",
        ),
        (
            &["--admin-token", "a", "--admin-token-file", "b"],
            "admin_token and admin_token_file are both set",
            "set only one",
        ),
    ];
    for (args, problem, hint) in cases {
        let error = settings_error(args);
        assert!(error.starts_with("error: ") && error.contains(problem), "{error}");
        assert!(error.contains("(hint: ") && error.contains(hint), "{error}");
    }
}

#[test]
fn all_conflicts_are_reported() {
    let error = settings_error(&["--http", "tls:127.0.0.1:0", "--admin", "0.0.0.0:0"]);
    assert_eq!(error.matches("error: ").count(), 2, "{error}");
}

#[test]
fn an_address_in_use() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let listeners = ["--http", "--grpc", "--resp", "--admin"];
    for flag in listeners {
        let at = |one: &str| if one == flag { &*address } else { "127.0.0.1:0" };
        let args: Vec<&str> = listeners.iter().flat_map(|one| [*one, at(one)]).collect();
        let error = settings_error(&args);
        let protocol = &flag["--".len()..];
        assert!(error.contains(&format!("{protocol}: cannot listen on {address}: it is in use")), "{error}");
        assert!(error.contains(&format!("{flag} 127.0.0.1:0")), "{error}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let directory = Directory::new();
    let file = "admin_token: hunter2\nadmin_token: hunter2\nresp_password: [hunter2, hunter2]\n";
    let error = settings_error(&["--config", &directory.write("tidegate.yaml", file)]);
    assert!(error.contains("tidegate.yaml:2:1") && !error.contains("hunter2"), "{error}");

    let empty = directory.write("empty", "\n");
    let error = settings_error(&["--admin-token-file", &empty, "--resp-password-file", "no-such-file"]);
    assert!(error.contains("admin_token_file") && error.contains("it is empty"), "{error}");
    assert!(error.contains("cannot read resp_password_file `no-such-file`"), "{error}");

    let help = run_to_exit(&["--help"], &[("TIDEGATE_ADMIN_TOKEN", "hunter2")]);
    assert!(help.code == Some(0) && !help.out.contains("hunter2"), "{}", help.out);

    let server =
        Server::start(&["--admin-token", "hunter2", "--resp-password", "hunter2", "--log-level", "trace"]);
    let health = server.get("/healthz?verbose").body;
    assert!(!health.contains("hunter2"), "{health}");
    let log = server.stop();
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn invalid_stores() {
    let cases = [
        ("http://10.0.0.7", "store: unknown URL scheme `http` (hint: redis://HOST"),
        ("redis://", "store: the URL names no server (hint: "),
        ("redis://10.0.0.7,10.0.0.8", "store: redis:// takes one server (hint: "),
        ("redis+sentinel://10.0.0.7", "store: the URL does not name a master (hint: "),
    ];
    for (url, message) in cases {
        let error = settings_error(&["--store", url]);
        assert!(error.contains(message), "{url}: {error}");
    }
    let set = ["--store-ca", "ca.pem", "--store-cert", "cert.pem", "--store-wait-replicas", "1"];
    let error = settings_error(&set);
    for name in ["store_ca", "store_cert", "store_wait_replicas"] {
        let message = format!("{name} is set, but counters are in memory (hint: set the store");
        assert!(error.contains(&message), "{error}");
    }
    assert!(error.contains("only one of store_cert and store_key is set (hint: "), "{error}");
    let values = [
        ("--store-timeout", "1us", "`1us` is too short (hint: the minimum is 1ms)"),
        ("--store-timeout", "2m", "`2m` is too long (hint: the maximum is 60s)"),
        ("--store-namespace", "a{b}", "`a{b}` is not a valid namespace (hint: "),
        ("--store-wait-replicas", "0", "`0` is not a number from 1 to 100 (hint: "),
    ];
    for (flag, value, message) in values {
        let error = settings_error(&[flag, value]);
        assert!(error.contains(message), "{flag} {value}: {error}");
    }
}

/// From any source, even if the URL is invalid.
#[test]
fn the_password_of_a_store_is_not_shown() {
    let directory = Directory::new();
    let wrong = "redis://ann:hunter2@10.0.0.7:port";
    let by_flag = settings_error(&["--store", wrong]);
    let by_env = settings_error_with_code(2, &[], &[("TIDEGATE_STORE", wrong)]);
    let file = directory.write("tidegate.yaml", format!("store: {wrong}\n"));
    let by_file = settings_error(&["--config", &file]);
    for error in [by_flag, by_env, by_file] {
        assert!(error.contains("store: the port of") && !error.contains("hunter2"), "{error}");
    }
    let twice = directory.write("twice.yaml", format!("store: {wrong}\nstore: {wrong}\n"));
    let error = settings_error(&["--config", &twice]);
    assert!(error.contains("twice.yaml:2:1") && !error.contains("hunter2"), "{error}");
    let help = run_to_exit(&["--help"], &[("TIDEGATE_STORE", "redis://:hunter2@10.0.0.7")]);
    assert!(help.code == Some(0) && !help.out.contains("hunter2"), "{}", help.out);
}

#[test]
fn invalid_rules_are_reported_as_by_check() {
    let directory = Directory::new();
    let path = directory.write("rules.yaml", "domain: api\nrules: [ { name: all, limit: 5 per sekond } ]\n");
    let error = settings_error_with_code(1, &["--rules", &path], &[]);
    let check = crate::support::tidegate(&["check", &path], "");
    assert_eq!((check.code, error), (Some(1), check.err));
    let error = settings_error_with_code(2, &["--rules", "no-such.yaml"], &[]);
    assert!(error.contains("there is no such file or directory"), "{error}");
}

#[test]
fn invalid_data_dir() {
    let directory = Directory::new();
    let file = directory.write("file", "");
    let error = settings_error(&["--data-dir", &file]);
    assert!(error.contains("data_dir") && error.contains(&file) && error.contains("(hint: "), "{error}");
}
