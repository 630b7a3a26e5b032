//! Answers while too few replicas of Redis have the charges.

use std::num::NonZeroU32;
use std::time::Duration;

use super::client::{Resp, check, post};
use super::server::Options;
use crate::redis_fleet::{Redis, Server};

const RULES: &str = "
domain: api
rules:
  - { name: rate, match: { user: { exists: true } }, key: [user], limit: 1 per day }
  - { name: slots, match: { job: { exists: true } }, key: [job], limit: { limit: 1, algorithm: concurrency, ttl: 1h } }
";

/// Redis answers in this time, even on a busy machine. A quarter of it is the wait for replicas.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A Redis without replicas, and a server that waits for one.
#[test]
fn charges_and_leases_are_marked() {
    let redis = Redis::start(&[]);
    let server =
        Server::with(&redis, Options { wait_replicas: NonZeroU32::new(1), ..Options::new(RULES, TIMEOUT) });
    let answer = check(&server, "ann");
    assert!(answer.has_header("x-tidegate-unreplicated: true"), "{answer:?}");
    assert_eq!((answer.status, &answer.json()["unreplicated"]), (200, &true.into()), "{answer:?}");
    let acquire = |job: &str| {
        let body = format!(r#"{{"domain": "api", "attributes": {{"job": "{job}"}}}}"#);
        post(server.http, "/v1/acquire", &body)
    };
    let answer = acquire("one");
    assert!(answer.has_header("x-tidegate-unreplicated: true"), "{answer:?}");
    assert_eq!((answer.status, &answer.json()["unreplicated"]), (200, &true.into()), "{answer:?}");

    let mut resp = Resp::connect(&server);
    let answer = resp.command("TIDEGATE.CHECK api user bob");
    assert!(answer.starts_with("allowed 0 ") && answer.ends_with(" rate unreplicated"), "{answer}");
    let answer = resp.command("TIDEGATE.ACQUIRE api job two");
    let elements: Vec<&str> = answer.split(' ').collect();
    assert_eq!((elements.len(), elements[0], elements[9]), (10, "allowed", "unreplicated"), "{answer}");
    // A denied request charges nothing.
    let answer = resp.command("TIDEGATE.ACQUIRE api job one");
    assert!(answer.starts_with("denied ") && answer.ends_with(" slots nil nil nil"), "{answer}");
    let answer = acquire("two");
    assert_eq!(
        (answer.status, &answer.json()["unreplicated"]),
        (429, &serde_json::Value::Null),
        "{answer:?}"
    );
}
