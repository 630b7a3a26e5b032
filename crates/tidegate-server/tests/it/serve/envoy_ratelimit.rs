//! A server with the files and the environment of envoyproxy/ratelimit.

use crate::serve::{Directory, HTTP_ONLY, Server, run_to_exit};

const FILE: &str = "\
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1 }
";

/// The status of a request for a user, over `/json`.
fn status(server: &Server) -> u16 {
    let body = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}"#;
    server.post("/json", body).status
}

#[test]
fn the_files_and_addresses_of_the_environment_are_used() {
    let directory = Directory::new();
    directory.write(
        "ratelimit/config/team/edge.json",
        r#"{"domain": "edge", "descriptors": [{"key": "user",
        "rate_limit": {"unit": "hour", "requests_per_unit": 1}}]}"#,
    );
    directory.write("ratelimit/config/README", "not rules");
    let variables = [
        ("RUNTIME_ROOT", directory.path()),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("HOST", "127.0.0.1"),
        ("PORT", "0"),
        ("GRPC_HOST", "127.0.0.1"),
        ("GRPC_PORT", "0"),
        ("GRPC_MAX_CONNECTION_AGE", "1h"),
        ("USE_STATSD", "false"),
    ];
    let server = Server::start_with_env(&["--resp", "off", "--admin", "off"], &variables);
    assert_eq!(status(&server), 200);
    assert_eq!(status(&server), 429);
    for text in
        ["GRPC_MAX_CONNECTION_AGE", "REDIS_URL is not set, so counters are in memory", "config/README"]
    {
        server.wait_for_log(text);
    }
    assert!(!server.log().contains("USE_STATSD"), "{}", server.log());
    server.stop();
}

#[test]
fn shadow_mode_lets_everything_pass() {
    let directory = Directory::new();
    let rules = directory.write("edge.yaml", FILE);
    let args = [&HTTP_ONLY[..], &["--http", "127.0.0.1:0", "--rules", &rules]].concat();
    for variables in [
        &[("TIDEGATE_ENVOY_RATELIMIT_ENV", "on"), ("SHADOW_MODE", "true"), ("HOST", "127.0.0.1")][..],
        &[("TIDEGATE_GLOBAL_SHADOW", "true")],
    ] {
        let server = Server::start_with_env(&args, variables);
        for _ in 0..3 {
            assert_eq!(status(&server), 200, "{variables:?}");
        }
        server.wait_for_log("no request is denied or delayed");
        server.stop();
    }
}

#[test]
fn a_server_without_a_marker_ignores_common_names_and_warns_about_others() {
    let directory = Directory::new();
    let rules = directory.write("edge.yaml", FILE);
    let args = [&HTTP_ONLY[..], &["--http", "127.0.0.1:0", "--rules", &rules]].concat();
    let variables = [("PORT", "1"), ("REDIS_URL", "nowhere:1"), ("SHADOW_MODE", "true")];
    let server = Server::start_with_env(&args, &variables);
    server.wait_for_log("are set but not read: REDIS_URL, SHADOW_MODE (hint: ");
    server.stop();
    let native = directory.write("native.yaml", crate::serve::RULES);
    let args = [&HTTP_ONLY[..], &["--http", "127.0.0.1:0", "--rules", &native]].concat();
    let server = Server::start_with_env(&args, &variables);
    server.wait_for_log("ready");
    assert!(!server.log().contains("SHADOW_MODE"), "{}", server.log());
    server.stop();
}

#[test]
fn a_value_that_is_not_accepted_stops_the_start() {
    let directory = Directory::new();
    let rules = directory.write("edge.yaml", FILE);
    let variables = [("TIDEGATE_ENVOY_RATELIMIT_ENV", "on"), ("GRPC_SERVER_USE_TLS", "yes")];
    let run = run_to_exit(&["--http", "127.0.0.1:0", "--rules", &rules], &variables);
    assert_eq!((run.code, &*run.out), (Some(2), ""), "{}", run.err);
    assert!(run.err.contains("GRPC_SERVER_USE_TLS of envoyproxy/ratelimit is `yes`"), "{}", run.err);
}
