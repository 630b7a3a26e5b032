//! Servers that share a Redis enforce one limit together, over all protocols.

use super::client::{OVER_LIMIT, Resp, check, get, post, request_body, rls};
use crate::redis_fleet::{Redis, Server, wait_until};

const RULES: &str = "
domain: api
rules:
  - { name: per-user, key: [user], limit: { limit: 6, per: day, algorithm: sliding_log } }
";

/// Two requests by each protocol, one at each server.
#[test]
fn a_limit_is_shared_by_nodes_and_protocols() {
    let redis = Redis::start(&[]);
    let servers =
        [Server::start_with_long_timeout(&redis, RULES), Server::start_with_long_timeout(&redis, RULES)];
    for (server, left) in servers.iter().zip([5, 2]) {
        let answer = check(server, "ann");
        assert_eq!((answer.status, answer.json()["remaining"].as_u64()), (200, Some(u64::from(left))));
        assert!(answer.json()["degraded"] == false && !answer.head.contains("x-tidegate-degraded"));
        assert_eq!(rls(server, "ann").statuses[0].limit_remaining, left - 1);
        let answer = Resp::connect(server).command("TIDEGATE.CHECK api user ann");
        assert!(answer.starts_with(&format!("allowed {} 0 ", left - 2)), "{answer}");
        assert!(answer.ends_with(" per-user"), "{answer}");
    }
    for server in &servers {
        assert_eq!(check(server, "ann").status, 429);
        assert_eq!(rls(server, "ann").overall_code, OVER_LIMIT);
        let answer = Resp::connect(server).command("TIDEGATE.CHECK api user ann");
        assert!(answer.starts_with("denied 0 "), "{answer}");
        assert_eq!(check(server, "bob").status, 200);
    }
    assert_eq!(check(&servers[0], "bob").json()["remaining"], 3);
}

#[test]
fn other_operations_are_shared() {
    let redis = Redis::start(&[]);
    let [here, there] =
        [Server::start_with_long_timeout(&redis, RULES), Server::start_with_long_timeout(&redis, RULES)];
    let body = request_body("ann");
    let costly = body.replace("}}", "}, \"cost\": 6}");
    assert_eq!(post(here.http, "/v1/check", &costly).status, 200);
    assert_eq!(post(there.http, "/v1/peek", &body).status, 429);
    let explained = post(there.http, "/v1/explain?format=text", &body);
    assert!(explained.body.contains("decision: denied by per-user limit 1"), "{explained:?}");
    assert!(Resp::connect(&there).command("TIDEGATE.PEEK api user ann").starts_with("denied 0 "));
    assert_eq!(post(there.admin, "/v1/refund", &body).json()["result"], "refunded");
    assert_eq!(post(here.http, "/v1/peek", &body).json()["remaining"], 0);
    assert_eq!(post(here.http, "/v1/check", &body).status, 200);
    assert_eq!(post(there.admin, "/v1/reset", &body).json()["result"], "reset");
    assert_eq!(check(&here, "ann").json()["remaining"], 5);
    let batch = format!(r#"{{"requests": [{body}, {body}]}}"#);
    let results = post(there.http, "/v1/peek", &batch).json();
    assert_eq!(results["results"][1]["remaining"], 4);
    let results = post(there.http, "/v1/check", &batch).json();
    assert_eq!(
        (&results["results"][0]["remaining"], &results["results"][1]["remaining"]),
        (&4.into(), &3.into())
    );
}

#[test]
fn a_lease_is_valid_on_every_node() {
    let rules = "
domain: api
rules:
  - { name: jobs, key: [user], limit: { algorithm: concurrency, limit: 1, ttl: 1h } }
";
    let redis = Redis::start(&[]);
    let [here, there] =
        [Server::start_with_long_timeout(&redis, rules), Server::start_with_long_timeout(&redis, rules)];
    let body = request_body("ann");
    let acquired = post(here.http, "/v1/acquire", &body).json();
    let token = acquired["lease"]["token"].as_str().expect("a lease");
    assert_eq!(post(there.http, "/v1/acquire", &body).status, 429);
    let with_token = body.replace("}}", &format!("}}, \"token\": \"{token}\"}}"));
    let renewed = post(there.http, "/v1/renew", &with_token);
    assert_eq!(renewed.json()["result"], "renewed", "{renewed:?}");
    let of_bob = with_token.replace("ann", "bob");
    assert_eq!(post(there.http, "/v1/release", &of_bob).json()["result"], "wrong_owner");
    assert_eq!(post(there.http, "/v1/release", &with_token).json()["result"], "released");
    assert_eq!(post(here.http, "/v1/release", &with_token).json()["result"], "already_released");
    let again = post(here.http, "/v1/acquire", &body).json();
    assert!(again["lease"]["fence"].as_u64() > acquired["lease"]["fence"].as_u64(), "{again}");
}

#[test]
fn throttle_and_request_limits_are_shared() {
    let redis = Redis::start(&[]);
    let [here, there] =
        [Server::start_with_long_timeout(&redis, RULES), Server::start_with_long_timeout(&redis, RULES)];
    let throttle = "CL.THROTTLE ann 1 1 86400";
    assert_eq!(Resp::connect(&here).command(throttle), "0 2 1 -1 86400");
    assert!(Resp::connect(&there).command(throttle).starts_with("0 2 0 -1 1"));
    assert!(Resp::connect(&here).command(throttle).starts_with("1 2 0 "));
    assert!(
        Resp::connect(&here)
            .command("CL.THROTTLE ann 1 0 60")
            .starts_with("-Cell error: Store error: Zero rates")
    );
    let decided = "tidegate_decisions_total{protocol=\"resp\",domain=\"\",rule=\"cl.throttle\",decision=";
    assert_eq!(here.sample(&format!("{decided}\"allowed\"}}")), 1);
    assert_eq!(here.sample(&format!("{decided}\"denied\"}}")), 1);
}

/// Negative hits refund the shared counter, after the other descriptors of the request are decided.
#[test]
fn refunded_hits_are_shared() {
    let redis = Redis::start(&[]);
    let [here, there] =
        [Server::start_with_long_timeout(&redis, RULES), Server::start_with_long_timeout(&redis, RULES)];
    let used = request_body("ann").replace("}}", "}, \"cost\": 5}");
    assert_eq!(post(here.http, "/v1/check", &used).status, 200);
    let hits = r#"{"domain": "api", "descriptors": [
        {"entries": [{"key": "user", "value": "bob"}]},
        {"entries": [{"key": "user", "value": "ann"}], "hitsAddend": 3, "isNegativeHits": true}]}"#;
    let answer = post(there.http, "/json", hits);
    assert_eq!(answer.status, 200, "{answer:?}");
    let statuses = &answer.json()["statuses"];
    assert_eq!(statuses[0]["limitRemaining"], 5, "{answer:?}");
    assert_eq!(statuses[1]["limitRemaining"], 4, "{answer:?}");
    assert_eq!(check(&here, "ann").json()["remaining"], 3);
}

#[test]
fn metrics_and_health_of_the_store() {
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, RULES);
    let mut requests = 0;
    // The deny cache keeps a denial for a second, which may pass on a busy machine.
    wait_until("a denial from memory", || {
        check(&server, "ann");
        requests += 1;
        server.sample("tidegate_store_deny_cache_hits_total") > 0
    });
    let plans = server.sample("tidegate_store_plans_total");
    assert_eq!(plans + server.sample("tidegate_store_deny_cache_hits_total"), requests);
    assert!(plans >= 7, "the store admits six and makes the first denial");
    assert!((1..=plans).contains(&server.sample("tidegate_store_calls_total")));
    assert_eq!(server.sample("tidegate_store_coalesced_total"), 0);
    assert_eq!(server.sample("tidegate_store_failures_total{reason=\"timed_out\"}"), 0);
    assert_eq!(server.sample("tidegate_store_degraded_decisions_total{policy=\"local\"}"), 0);
    assert_eq!(server.sample("tidegate_store_degraded"), 0);
    let breaker = format!("tidegate_store_breaker_open{{server=\"127.0.0.1:{}\"}}", redis.port);
    assert_eq!(server.sample(&breaker), 0);
    assert!(server.sample("tidegate_store_live_nodes") >= 1);
    for counter in ["redirects", "reconnects", "ring_moved", "replicas_short", "splits"] {
        assert_eq!(server.sample(&format!("tidegate_store_{counter}_total")), 0);
    }
    let health = get(server.http, "/healthz?verbose").json();
    let fleet = &health["fleet"];
    assert_eq!((&fleet["degraded"], &fleet["servers_away"]), (&false.into(), &0.into()), "{health}");
    assert!(fleet.get("url").is_none(), "{health}");
    let health = get(server.admin, "/healthz?verbose").json();
    assert_eq!(health["fleet"]["url"], redis.url(), "{health}");
}
