//! etcd does not answer, or cannot be reached at the start.

use super::{EtcdCluster, Node, token_of, wait_until};
use crate::serve::server::run_to_exit;

const DOOR: &str = r#""door": "1""#;

#[test]
fn locks_are_unavailable_and_other_limits_go_on() {
    let cluster = EtcdCluster::start(3);
    let node = Node::start(&cluster.url(), &["--lease-store-timeout", "2s"]);
    let (_, held) = node.post("/v1/acquire", DOOR, "");
    let token = format!(r#", "token": "{}""#, token_of(&held));
    let stopped = [0, 1];
    stopped.iter().for_each(|index| cluster.pause(*index));
    for attributes in [DOOR, r#""door": "2""#] {
        let (status, answer) = node.post("/v1/acquire", attributes, "");
        assert_eq!(
            (status, &answer["degraded"], &answer["lease"]),
            (503, &true.into(), &serde_json::Value::Null)
        );
    }
    assert_eq!(node.post("/v1/release", DOOR, &token).0, 503);
    assert_eq!(node.post("/v1/check", r#""user": "ann""#, "").0, 200, "a rate does not need etcd");
    let (status, open) = node.post("/v1/acquire", r#""open": "1""#, "");
    assert_eq!((status, &open["degraded"]), (200, &true.into()), "its rule allows it");
    // With a lock that cannot be decided, nothing is charged.
    assert_eq!(node.post("/v1/acquire", r#""door": "3", "user": "ann""#, "").0, 503);
    assert!(node.server.metric("tidegate_store_degraded_decisions_total{policy=\"deny\"}") >= 3);
    assert!(node.server.metric("tidegate_lease_store_failures_total{reason=\"timed_out\"}") >= 4);
    stopped.iter().for_each(|index| cluster.resume(*index));
    // The release that was not answered may have reached etcd, and was done when it continued.
    wait_until("etcd has a leader again", || [200, 409].contains(&node.post("/v1/release", DOOR, &token).0));
    assert_eq!(node.post("/v1/acquire", DOOR, "").0, 200);
    for _ in 0..4 {
        assert_eq!(node.post("/v1/check", r#""user": "ann""#, "").0, 200);
    }
    assert_eq!(
        node.post("/v1/check", r#""user": "ann""#, "").0,
        429,
        "the fifth request of the day was the last"
    );
}

#[test]
fn a_node_starts_without_etcd_and_uses_it_when_it_is_there() {
    let mut cluster = EtcdCluster::start(1);
    cluster.kill(0);
    let node = Node::start(&cluster.url(), &["--lease-store-timeout", "30s"]);
    node.server.wait_for_log("the node starts without it");
    assert_eq!(node.post("/v1/acquire", DOOR, "").0, 503);
    let health = node.server.health();
    assert_eq!(health["lease_store"]["failures"], 1, "{health}");
    cluster.restart(0);
    wait_until("etcd is there", || node.post("/v1/acquire", DOOR, "").0 == 200);
}

#[test]
fn settings_of_the_lease_store_are_checked() {
    let cases: [(&[&str], &str); 5] = [
        (&["--lease-store", "redis://10.0.0.1"], "lease_store: this is not the URL of an etcd (hint: "),
        (&["--lease-store", "etcd://u:hunter2@"], "lease_store: the URL names no member (hint: "),
        (&["--lease-store-ca", "ca.pem"], "lease_store_ca is set, but leases are where counters are (hint: "),
        (
            &["--lease-store", "etcds://10.0.0.1", "--lease-store-cert", "own.pem"],
            "only one of lease_store_cert and lease_store_key is set (hint: ",
        ),
        (
            &["--lease-store", "etcds://10.0.0.1", "--lease-store-ca", "/nonexistent.pem"],
            "lease_store: etcds://10.0.0.1:2379 cannot be used: /nonexistent.pem",
        ),
    ];
    for (args, message) in cases {
        let run = run_to_exit(args, &[]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.err.contains(message) && !run.err.contains("hunter2"), "{}", run.err);
    }
}
