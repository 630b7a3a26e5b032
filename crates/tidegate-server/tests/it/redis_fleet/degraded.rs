//! Answers while Redis does not answer.

use std::time::Duration;

use super::client::{OVER_LIMIT, Resp, check, post, request_body, rls};
use crate::redis_fleet::{Redis, Server, wait_until};

const RULES: &str = "
domain: api
rules:
  - { name: shared, match: { user: ann }, key: [user], limit: { limit: 6, per: day, algorithm: sliding_log } }
  - { name: open, match: { user: bob }, key: [user], limit: { limit: 1, per: day, algorithm: sliding_log },
      on_store_failure: allow }
  - { name: closed, match: { user: eve }, key: [user], limit: { limit: 9, per: day, algorithm: sliding_log },
      on_store_failure: deny }
  - { name: small, match: { user: eve, job: { exists: true } }, key: [user],
      limit: { limit: 2, per: day, algorithm: sliding_log } }
  - { name: slots, match: { user: joe }, key: [user], limit: { limit: 2, algorithm: concurrency, ttl: 1h },
      on_store_failure: local }
";

/// Redis usually answers in this time, even on a busy machine. The tests do not depend on it.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Two servers that see each other, and a Redis that was just suspended.
fn start_and_stop_redis() -> (Redis, [Server; 2]) {
    let redis = Redis::start(&[]);
    let servers = [RULES; 2].map(|rules| Server::start(&redis, rules, TIMEOUT));
    for server in &servers {
        wait_until("both nodes are live", || server.sample("tidegate_store_live_nodes") == 2);
    }
    redis.pause();
    (redis, servers)
}

#[test]
fn each_server_enforces_its_share_and_marks_its_answers() {
    let (redis, servers) = start_and_stop_redis();
    for server in &servers {
        let answer = check(server, "ann");
        assert_eq!((answer.status, &answer.json()["decision"]), (200, &"allowed".into()), "{answer:?}");
        assert!(answer.has_header("x-tidegate-degraded: true"), "{answer:?}");
        assert_eq!(answer.json()["degraded"], true, "{answer:?}");
        let answer = rls(server, "ann");
        let degraded_headers = |headers: &[envoy_types::pb::envoy::config::core::v3::HeaderValue]| {
            headers
                .iter()
                .filter(|header| header.key == "x-tidegate-degraded" && header.value == "true")
                .count()
        };
        assert_eq!(degraded_headers(&answer.response_headers_to_add), 1, "{answer:?}");
        assert_eq!(degraded_headers(&answer.request_headers_to_add), 1, "{answer:?}");
        let metadata = format!("{:?}", answer.dynamic_metadata.as_ref().unwrap().fields["degraded"]);
        assert!(metadata.contains("BoolValue(true)"), "{metadata}");
        let answer = Resp::connect(server).command("TIDEGATE.CHECK api user ann");
        assert!(answer.starts_with("allowed 0 ") && answer.ends_with(" shared degraded"), "{answer}");
        // Its share is three of six.
        let answer = check(server, "ann");
        assert_eq!((answer.status, &answer.json()["degraded"]), (429, &true.into()), "{answer:?}");
        assert_eq!(server.sample("tidegate_store_degraded_decisions_total{policy=\"local\"}"), 4);
    }
    redis.resume();
    wait_until("the store decides again", || !check(&servers[0], "ann").head.contains("x-tidegate-degraded"));
}

#[test]
fn on_store_failure_of_a_rule() {
    let (_redis, [server, _other]) = start_and_stop_redis();
    for _ in 0..3 {
        let answer = check(&server, "bob");
        assert_eq!((answer.status, &answer.json()["degraded"]), (200, &true.into()), "{answer:?}");
    }
    let answer = check(&server, "eve");
    assert_eq!((answer.status, &answer.json()["decision"]), (503, &"unavailable".into()), "{answer:?}");
    assert!(answer.has_header("content-type: application/problem+json"), "{answer:?}");
    assert!(
        answer.has_header("retry-after: 1") && answer.has_header("x-tidegate-degraded: true"),
        "{answer:?}"
    );
    let detail = answer.json()["detail"].to_string();
    assert!(detail.contains("closed/1 denies its requests"), "{answer:?}");
    let answer = rls(&server, "eve");
    assert_eq!((answer.overall_code, answer.statuses[0].code), (OVER_LIMIT, OVER_LIMIT), "{answer:?}");
    let decision = answer.response_headers_to_add.iter().find(|header| header.key == "x-tidegate-decision");
    assert_eq!(decision.map(|header| &*header.value), Some("unavailable"), "{answer:?}");
    let answer = Resp::connect(&server).command("TIDEGATE.CHECK api user eve");
    assert_eq!(answer, "unavailable 0 1000 0 0 closed degraded");
    let decided =
        |policy| server.sample(&format!("tidegate_store_degraded_decisions_total{{policy=\"{policy}\"}}"));
    assert_eq!([decided("local"), decided("allow"), decided("deny")], [0, 3, 3]);
    let unavailable =
        "tidegate_decisions_total{protocol=\"http\",domain=\"api\",rule=\"closed\",decision=\"unavailable\"}";
    assert_eq!(server.sample(unavailable), 1);
    // Only the first few requests wait for Redis. Then the breaker opens.
    let breaker = format!("tidegate_store_breaker_open{{server=\"127.0.0.1:{}\"}}", _redis.port);
    wait_until("the breaker is open", || {
        check(&server, "bob");
        server.sample(&breaker) == 1
    });
    check(&server, "bob");
    assert!(server.sample("tidegate_store_failures_total{reason=\"away\"}") > 0);
    assert!(server.sample("tidegate_store_failures_total{reason=\"timed_out\"}") > 0);
}

/// `/json`, as users of envoyproxy/ratelimit call it.
#[test]
fn rls_json_marks_degraded_answers() {
    let (_redis, [server, _other]) = start_and_stop_redis();
    let check = |user: &str| {
        let entries = format!(r#"[{{"entries": [{{"key": "user", "value": "{user}"}}]}}]"#);
        post(server.http, "/json", &format!(r#"{{"domain": "api", "descriptors": {entries}}}"#))
    };
    let answer = check("eve");
    assert_eq!((answer.status, &answer.json()["overallCode"]), (503, &"OVER_LIMIT".into()), "{answer:?}");
    assert!(
        answer.has_header("retry-after: 1") && answer.has_header("x-tidegate-degraded: true"),
        "{answer:?}"
    );
    for (user, status) in [("ann", 200), ("ann", 200), ("ann", 200), ("ann", 429), ("bob", 200)] {
        let answer = check(user);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.has_header("x-tidegate-degraded: true"), "{answer:?}");
        assert!(!answer.head.contains("retry-after"), "{answer:?}");
    }
    assert!(!check("nobody").head.contains("x-tidegate-degraded"), "no limit matches");
}

/// Even if another limit would never admit the request.
#[test]
fn denied_requests_have_a_retry_after() {
    let (_redis, [server, _other]) = start_and_stop_redis();
    let body = r#"{"domain": "api", "attributes": {"user": "eve", "job": "1"}, "cost": 5}"#;
    let answer = post(server.http, "/v1/check", body);
    assert_eq!((answer.status, &answer.json()["decision"]), (503, &"unavailable".into()), "{answer:?}");
    assert_eq!(answer.json()["retry_after_ms"], serde_json::Value::Null, "{answer:?}");
    assert!(answer.has_header("retry-after: 1"), "{answer:?}");
}

/// Another server never accepts its token, not even after Redis is back.
#[test]
fn a_local_lease_is_valid_on_one_node() {
    let (redis, [server, other]) = start_and_stop_redis();
    let body = request_body("joe");
    let answer = post(server.http, "/v1/acquire", &body);
    assert_eq!((answer.status, &answer.json()["degraded"]), (200, &true.into()), "{answer:?}");
    let with_token = body.replace("}}", &format!("}}, \"token\": {}}}", answer.json()["lease"]["token"]));
    redis.resume();
    wait_until("the store decides again", || !check(&other, "ann").head.contains("x-tidegate-degraded"));
    for path in ["/v1/renew", "/v1/release"] {
        let answer = post(other.http, path, &with_token);
        assert_eq!((answer.status, &answer.json()["result"]), (409, &"wrong_owner".into()), "{answer:?}");
    }
    let answer = post(server.http, "/v1/release", &with_token);
    assert_eq!((answer.status, &answer.json()["result"]), (200, &"released".into()), "{answer:?}");
}

/// Operations other than decisions fail without the store.
#[test]
fn other_operations_fail() {
    let (_redis, [server, _other]) = start_and_stop_redis();
    let body = request_body("ann");
    for path in ["/v1/peek", "/v1/explain"] {
        let answer = post(server.http, path, &body);
        assert_eq!(answer.status, 503, "{path}: {answer:?}");
        assert!(answer.has_header("retry-after: 1"), "{answer:?}");
        assert!(answer.json()["detail"].to_string().contains("the shared store"), "{answer:?}");
    }
    for path in ["/v1/refund", "/v1/reset"] {
        assert_eq!(post(server.admin, path, &body).status, 503, "{path}");
    }
    let mut client = Resp::connect(&server);
    let answer = client.command("TIDEGATE.PEEK api user ann");
    assert!(answer.starts_with("-ERR the shared store"), "{answer}");
    // The share of each server is 2 of 4.
    let answers: Vec<String> = (0..3).map(|_| client.command("CL.THROTTLE ann 3 4 86400")).collect();
    assert!(answers[1].starts_with("0 4 0 ") && answers[2].starts_with("1 4 0 "), "{answers:?}");
    let is_counted = |operation: &str| {
        let name = format!("tidegate_operations_total{{operation=\"{operation}\",result=");
        ["timed_out", "away"].iter().any(|why| {
            let line = format!("{name}\"{why}\"}} 1");
            server.app.metrics_page().lines().any(|sample| sample == line)
        })
    };
    for operation in ["explain", "refund", "reset"] {
        assert!(is_counted(operation), "{operation}");
    }
}
