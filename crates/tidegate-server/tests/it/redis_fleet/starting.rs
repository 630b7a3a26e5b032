//! `tidegate serve --store`, run as an operator runs it.

use std::io::{Read as _, Write as _};

use tidegate_testing::redis_server::RedisServer;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::redis_fleet::{Redis, wait_until};
use crate::serve::server::{Server, run_to_exit};
use crate::support::{Directory, tidegate};

/// The error for a store that cannot be used, with nothing on standard output.
#[track_caller]
fn startup_error(args: &[&str]) -> String {
    let args =
        [args, &["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off"]].concat();
    let run = run_to_exit(&args, &[]);
    assert_eq!((run.code, &*run.out), (Some(2), ""), "{}", run.err);
    assert!(run.err.contains("error: the store at ") && run.err.contains("(hint: "), "{}", run.err);
    assert_eq!(run.err.matches("error: ").count(), 1, "{}", run.err);
    run.err
}

#[test]
fn unusable_stores() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = startup_error(&["--store", &format!("redis://127.0.0.1:{port}"), "--store-required"]);
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");

    let redis = Redis::start(&["--requirepass", "right"]);
    let (right, port) = (format!("redis://:right@127.0.0.1:{}", redis.port), redis.port);
    let error = startup_error(&["--store", &right.replace("right", "hunter2")]);
    assert!(error.contains("password") && !error.contains("hunter2"), "{error}");
    let error = startup_error(&["--store", &redis.url()]);
    assert!(error.contains("password"), "{error}");
    let error = startup_error(&["--store", &right.replace("redis:", "redis-cluster:")]);
    assert!(error.contains("cluster") && !error.contains("right@"), "{error}");
    // A Redis without TLS waits for the end of the line, as if it were away.
    let url = format!("rediss://:right@127.0.0.1:{port}");
    let error = startup_error(&["--store", &url, "--store-required"]);
    assert!(!error.contains("right@"), "{error}");
}

/// The hints of forward auth at wrong settings come from the keys of decisions, also if the store makes them.
#[test]
fn forward_auth_over_redis_warns_about_keys() {
    let (redis, directory) = (RedisServer::start(&[]), Directory::new());
    let rules = "domain: web\nrules: [ { name: clients, key: [header.x-client], limit: 9 per hour } ]\n";
    let rules = directory.write("rules.yaml", rules);
    let forward_auth = ["--forward-auth-domain", "web", "--rules", &rules, "--store", &redis.url()];
    let server = Server::start(&forward_auth);
    let mut stream = std::net::TcpStream::connect(server.address("http")).unwrap();
    let request =
        "GET /v1/authorize HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-client: 2001:db8::1\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("r=8"), "{answer}");
    server.wait_for_log("raw-ipv6-key");
    server.stop();
}

/// A deployment during an outage must not shrink the fleet.
#[test]
fn a_node_starts_while_redis_is_away() {
    let mut redis = RedisServer::start(&[]);
    redis.kill();
    let server = Server::start(&["--store", &redis.url(), "--store-timeout", "1s"]);
    server
        .wait_for_log("the node starts without it: requests are decided by on_store_failure of their rules");
    assert_eq!(server.get("/readyz").status, 200);
    let check = r#"{"domain": "example", "attributes": {"user": "ann"}}"#;
    let is_degraded = || {
        let answer: serde_json::Value = server.post("/v1/check", check).body.parse().unwrap();
        answer["degraded"] == true
    };
    assert!(is_degraded());
    redis.restart();
    wait_until("the store decides", || !is_degraded());
    server.stop();
}

/// Overrides are on the same servers. A node that starts without them has them as soon as Redis answers.
#[test]
fn a_node_starts_while_the_overrides_are_away() {
    let mut redis = RedisServer::start(&[]);
    let directory = Directory::new();
    let rules = directory
        .write("rules.yaml", "domain: api\nrules: [ { name: per-user, key: [user], limit: 5 per day } ]\n");
    let url = redis.url();
    let start = || Server::start(&["--rules", &rules, "--store", &url, "--store-timeout", "1s"]);
    let other = start();
    let ban = |server: &Server, user: &str| {
        let admin = format!("http://{}", server.address("admin"));
        tidegate(&["ban", user, "--admin", &admin], "")
    };
    redis.kill();
    let server = start();
    server.wait_for_log("decisions use the overrides that are known");
    let failure = || server.health()["config_store"]["failure"].clone();
    assert!(failure()["at_ms"].is_u64(), "{}", failure());
    assert_eq!(server.get("/readyz").status, 200);
    let refused = ban(&server, "user=ann");
    assert!(refused.code == Some(2) && refused.err.contains("(hint: "), "{refused:?}");
    assert_eq!(server.check("ann"), 200);
    redis.restart();
    server.wait_for_log("the config store answers again");
    // It was not known at the start whether Redis keeps its data.
    server.wait_for_log("has no append-only file");
    wait_until("it is healthy", || failure().is_null());
    wait_until("the ban is taken", || ban(&other, "user=an*").code == Some(0));
    wait_until("the ban applies", || server.check("ann") == 429);
}

#[test]
fn a_node_may_wait_for_redis_before_it_is_ready() {
    let mut redis = RedisServer::start(&[]);
    redis.kill();
    let server = Server::start(&["--store", &redis.url(), "--store-before-ready", "--store-timeout", "1s"]);
    let not_ready = server.get("/readyz");
    assert_eq!(not_ready.status, 503);
    assert!(not_ready.body.contains("the shared store was not reached yet"), "{}", not_ready.body);
    assert_eq!((server.get("/healthz").status, server.health()["ready"].as_bool()), (200, Some(false)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut health = runtime.block_on(watch_health(server.address("grpc")));
    let mut next_status = || runtime.block_on(health.message()).unwrap().expect("a status").status();
    assert_eq!(next_status(), ServingStatus::NotServing);
    redis.restart();
    assert_eq!(next_status(), ServingStatus::Serving);
    assert_eq!(server.get("/readyz").status, 200);
    // A later outage does not make it unready: it was ready once, and it still answers.
    redis.kill();
    assert_eq!(server.get("/readyz").status, 200);
    server.stop();
}

async fn watch_health(address: &str) -> tonic::Streaming<HealthCheckResponse> {
    let channel =
        tonic::transport::Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap();
    let request = HealthCheckRequest { service: String::new() };
    HealthClient::new(channel).watch(request).await.unwrap().into_inner()
}

#[test]
fn the_line_ready_names_the_store_and_no_snapshots_are_written() {
    let redis = Redis::start(&["--requirepass", "hunter2"]);
    let data = std::env::temp_dir().join(format!("tidegate-fleet-data-{}", std::process::id()));
    let url = format!("redis://:hunter2@127.0.0.1:{}", redis.port);
    let args = [
        "--store",
        &url,
        "--store-timeout",
        "30s",
        "--data-dir",
        data.to_str().unwrap(),
        "--log-level",
        "trace",
    ];
    let server = Server::start(&args);
    let check = r#"{"domain": "example", "attributes": {"user": "ann"}}"#;
    assert_eq!(server.post("/v1/check", check).status, 200);
    let health = server.health();
    assert_eq!(health["fleet"]["url"], redis.url(), "{health}");
    assert_eq!(health["snapshots"], serde_json::Value::Null, "{health}");
    let log = server.stop();
    assert!(log.contains(&format!("store=\"{}\"", redis.url())) && log.contains("ready"), "{log}");
    assert!(
        log.contains("no snapshots are written, because counters are in the store at redis://127.0.0.1:"),
        "{log}"
    );
    assert!(!log.contains("hunter2"), "{log}");
    assert!(!data.exists(), "the data directory is not created");
    // The counters are in the store instead.
    let again = Server::start(&args);
    let answer: serde_json::Value = again.post("/v1/check", check).body.parse().unwrap();
    assert_eq!(answer["remaining"], 1, "{answer}");
}

/// One line when it begins and one when it ends, for any number of decisions. Health reports it in between.
#[test]
fn store_failures_are_logged_and_in_health() {
    let redis = Redis::start(&[]);
    let server = Server::start(&["--store", &redis.url(), "--store-timeout", "50ms"]);
    let check = r#"{"domain": "example", "attributes": {"user": "ann"}}"#;
    redis.pause();
    let began = "requests are decided without the shared store, by on_store_failure of their rules";
    wait_until("log and health report it", || {
        server.post("/v1/check", check);
        server.log().contains(began) && server.health()["fleet"]["servers_away"] == 1
    });
    let health = server.health();
    assert_eq!((&health["fleet"]["degraded"], &health["ready"]), (&true.into(), &true.into()), "{health}");
    assert!(health["fleet"]["degraded_since_ms"].is_u64(), "{health}");
    assert_eq!((server.get("/healthz").status, server.get("/readyz").status), (200, 200));
    server.wait_for_log("is down: ");
    let ended = "the shared store decides requests again";
    // Failed peeks must not end the degraded state, even over several seconds, which are several checks.
    let mut peeks = 0;
    wait_until("many peeks were sent", || {
        assert_eq!(server.post("/v1/peek", check).status, 503);
        peeks += 1;
        peeks == 1_000
    });
    assert!(!server.log().contains(ended), "{}", server.log());
    assert_eq!(server.health()["fleet"]["degraded"], true);
    redis.resume();
    wait_until("the log reports the end", || {
        server.post("/v1/check", check);
        server.log().contains(ended)
    });
    server.wait_for_log("is back");
    assert_eq!(server.health()["fleet"]["degraded"], false);
    let log = server.stop();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert!(lines(began) - lines(ended) <= 1 && lines(began) <= 5, "{log}");
}
