//! The modes `leased` and `eventual` in real nodes.

use serde_json::Value;
use tidegate_testing::redis_server::RedisServer;

use crate::serve::server::{Server, write_in_place};
use crate::support::{Directory, tidegate, wait_until};

const LIMIT: u64 = 100_000;

/// A rule of each mode. Their limits are counted in Redis as those of the mode strict are.
fn rules(leased: &str, eventual: &str) -> String {
    let limit = format!("limit: {{ limit: {LIMIT}, per: 365d, algorithm: fixed_window }}");
    format!(
        "domain: api\nrules:\n\
         - {{ name: debited, match: {{ kind: leased }}, key: [user], {limit}, {leased} }}\n\
         - {{ name: copied, match: {{ kind: eventual }}, key: [user], {limit}, {eventual} }}\n"
    )
}

/// Leases and intervals that do not end during a test.
fn lasting_rules() -> String {
    rules("mode: leased, lease_time: 1m", "mode: eventual, sync_interval: 10s")
}

fn strict_rules() -> String {
    rules("mode: strict", "mode: strict")
}

fn start(redis: &RedisServer, rules: &str) -> Server {
    Server::start(&["--rules", rules, "--store", &redis.url(), "--store-timeout", "10s"])
}

fn body(kind: &str) -> String {
    format!(r#"{{"domain": "api", "attributes": {{"kind": "{kind}", "user": "ann"}}}}"#)
}

fn allowed(node: &Server, kind: &str, requests: usize) -> usize {
    (0..requests).filter(|_| node.post("/v1/check", &body(kind)).status == 200).count()
}

/// What a node that asks Redis says is used.
fn used(strict: &Server, kind: &str) -> u64 {
    let answer: Value = strict.post("/v1/peek", &body(kind)).body.parse().unwrap();
    // As after this request.
    LIMIT - 1 - answer["remaining"].as_u64().unwrap()
}

/// A node that has used units and holds more.
fn node_with_units(redis: &RedisServer, rules: &str) -> Server {
    let node = start(redis, rules);
    assert_eq!((allowed(&node, "leased", 20), allowed(&node, "eventual", 20)), (20, 20));
    wait_until("the first count is pushed", || node.metric("tidegate_mode_pushed_units_total") > 0);
    assert_eq!(allowed(&node, "eventual", 5), 5);
    assert!(node.metric("tidegate_mode_leased_units_held") > 0);
    node
}

#[test]
fn a_stop_gives_back_what_a_node_holds() {
    let (redis, directory) = (RedisServer::start(&[]), Directory::new());
    let (rules, strict) =
        (directory.write("rules.yaml", lasting_rules()), directory.write("strict.yaml", strict_rules()));
    let (node, strict) = (node_with_units(&redis, &rules), start(&redis, &strict));
    assert!(used(&strict, "leased") > 20);
    node.stop();
    assert_eq!((used(&strict, "leased"), used(&strict, "eventual")), (20, 25));
}

#[test]
fn a_reload_gives_back_what_a_node_holds() {
    let (redis, directory) = (RedisServer::start(&[]), Directory::new());
    let (rules, strict) =
        (directory.write("rules.yaml", lasting_rules()), directory.write("strict.yaml", strict_rules()));
    let (node, strict) = (node_with_units(&redis, &rules), start(&redis, &strict));
    write_in_place(&rules, &format!("{}- {{ name: new, key: [host], limit: 1 per day }}\n", lasting_rules()));
    node.signal("HUP");
    wait_until("the leases are back", || used(&strict, "leased") == 20);
    wait_until("the counts are pushed", || used(&strict, "eventual") == 25);
    assert_eq!(node.metric("tidegate_mode_leased_units_held"), 0);
    assert_eq!(node.metric("tidegate_mode_leased_units_stranded_total"), 0);
}

/// Several nodes with leases of a key together admit what its override says, and no unit more.
#[test]
fn an_override_applies_to_keys_with_leases() {
    let (redis, directory) = (RedisServer::start(&[]), Directory::new());
    let rules = rules("mode: leased, lease_time: 2s", "mode: eventual").replace(&LIMIT.to_string(), "1000");
    let rules = directory.write("rules.yaml", &rules);
    let nodes = [start(&redis, &rules), start(&redis, &rules)];
    let both = |requests: usize| -> usize {
        (0..requests).map(|number| allowed(&nodes[number % 2], "leased", 1)).sum()
    };
    let mut admitted = both(100);
    assert_eq!(admitted, 100);
    let admin = format!("http://{}", nodes[0].address("admin"));
    let set = |limit: &str| {
        let place = ["--domain", "api", "--rule", "debited", "--key", "user=ann"];
        let change = ["--limit", limit, "--admin", &admin];
        let run = tidegate(&[&["override", "set"], &place[..], &change].concat(), "");
        assert_eq!(run.code, Some(0), "{run:?}");
    };
    let mut version = 0;
    let mut wait_until_applied = || {
        let applied = |node: &Server| -> Option<u64> {
            let answer: Value = node.post("/v1/peek?override=true", &body("leased")).body.parse().unwrap();
            answer["limits"][0]["override"]["version"].as_u64().filter(|applied| *applied > version)
        };
        wait_until("both nodes apply the override", || nodes.iter().all(|node| applied(node).is_some()));
        version = applied(&nodes[0]).unwrap();
    };
    set("150");
    wait_until_applied();
    admitted += both(200);
    assert_eq!(admitted, 150);
    set("400");
    wait_until_applied();
    // A denial that Redis made under the lower limit is remembered for a second at most.
    wait_until("the higher limit admits", || {
        admitted += both(2);
        admitted > 150
    });
    admitted += both(600);
    assert!((390..=400).contains(&admitted), "{admitted}");
}

#[test]
fn metrics_say_how_much_of_a_limit_is_used() {
    let (redis, directory) = (RedisServer::start(&[]), Directory::new());
    let rules = rules("mode: leased", "mode: eventual").replace(&LIMIT.to_string(), "100");
    let node = start(&redis, &directory.write("rules.yaml", &rules));
    assert_eq!((allowed(&node, "leased", 150), allowed(&node, "eventual", 150)), (100, 100));
    for rule in ["debited", "copied"] {
        let name = format!(r#"tidegate_mode_usage_ratio{{domain="api",rule="{rule}",limit="1"}} 1.0000"#);
        wait_until(&name, || node.metrics().contains(&name));
    }
    assert_eq!(node.metric("tidegate_mode_debt_units"), 0);
    assert_eq!(node.metric("tidegate_mode_push_failures_total"), 0);
    assert!(node.metric("tidegate_mode_lease_refills_total") > 0);
    assert!(node.metric("tidegate_mode_leased_decisions_total") > 0);
    assert!(node.metric("tidegate_mode_eventual_decisions_total") >= 100);
    assert_eq!(node.metric("tidegate_mode_strict_for_room_total"), 0);
}
