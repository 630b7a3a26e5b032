//! A full memory of leases, seen by clients of every protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;

use crate::grpc::server::{OVER_LIMIT, descriptor, request, send};
use crate::serve::server::{connect, http_request};
use crate::serve::{Directory, Server};

const RULES: &str = "
domain: api
rules:
  - { name: jobs, key: [job], limit: { algorithm: concurrency, limit: 1, ttl: 1h } }
";

/// The keys of a spray: several times the leases that fit into 1 MiB.
const KEYS: usize = 20_000;
/// Commands per write.
const PIPELINE: usize = 100;

/// Takes a lease of many keys. Returns how many were refused.
fn spray(server: &Server) -> usize {
    let mut stream = TcpStream::connect(server.address("resp")).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut refused = 0;
    for first in (0..KEYS).step_by(PIPELINE) {
        let commands: String =
            (first..first + PIPELINE).map(|key| format!("TIDEGATE.CHECK api job {key}\n")).collect();
        stream.write_all(commands.as_bytes()).unwrap();
        for _ in 0..PIPELINE {
            let reply: Vec<String> = replies.by_ref().take(9).map(Result::unwrap).collect();
            assert_eq!(reply[0], "*6", "it is not marked as degraded");
            refused += usize::from(reply[2] == "unavailable");
        }
    }
    refused
}

#[test]
fn a_held_lock_survives_a_spray_and_new_leases_are_refused() {
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", RULES);
    let server = Server::start(&["--rules", &rules, "--memory-max", "1MiB"]);
    let acquire = |job: &str| {
        server.post("/v1/acquire", &format!(r#"{{"domain": "api", "attributes": {{"job": "{job}"}}}}"#))
    };
    assert_eq!(acquire("invoice").status, 200);
    let refused = spray(&server);
    assert!(refused > KEYS / 10, "{refused}");
    assert_eq!(acquire("invoice").status, 429, "it is held");

    let answer = acquire("another");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.contains("there is no memory for another lease of jobs/1"), "{answer:?}");
    assert!(answer.body.contains(r#""decision":"unavailable""#), "{answer:?}");
    assert!(answer.body.contains(r#""degraded":false"#), "{answer:?}");

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let address = format!("http://{}", server.address("grpc"));
        let mut client = RateLimitServiceClient::connect(address).await.unwrap();
        send(&mut client, request([descriptor(&[("job", "another")])])).await
    });
    assert_eq!(answer.overall_code, OVER_LIMIT);
    let header = |name: &str| {
        let mut headers = answer.response_headers_to_add.iter();
        headers.find(|header| header.key == name).map(|header| header.value.as_str())
    };
    assert_eq!(header("x-tidegate-decision"), Some("unavailable"), "{answer:?}");
    assert_eq!(header("x-tidegate-degraded"), None);
    assert_eq!(header("retry-after"), Some("1"));

    let metrics = http_request(connect(server.address("admin")), "GET", "/metrics", "").body;
    let refusals = metrics.lines().find_map(|line| line.strip_prefix("tidegate_lease_refusals_total "));
    assert_eq!(refusals, Some(&*(refused + 2).to_string()));
    assert!(metrics.contains("\ntidegate_evictions_total 0\n"), "{metrics}");
}
