//! Overrides of a fleet, edited at several nodes.

use std::thread;

use serde_json::Value;
use tidegate_testing::redis_server::RedisServer;

use crate::serve::server::Server;
use crate::support::{Directory, Run, tidegate, wait_until};

const RULES: &str = "domain: api\nrules: [ { name: per-user, key: [user], limit: 5 per day } ]\n";

/// The version of the override that a decision of this node used.
fn applied_version(node: &Server) -> Option<u64> {
    let body = r#"{"domain": "api", "attributes": {"user": "ann"}}"#;
    let answer: Value = node.post("/v1/peek?override=true", body).body.parse().unwrap();
    answer["limits"][0]["override"]["version"].as_u64()
}

#[test]
fn two_nodes_that_edit_a_key_do_not_overwrite_each_other() {
    let (redis, directory) = (RedisServer::start(&[]), Directory::new());
    let rules = directory.write("rules.yaml", RULES);
    let start = || Server::start(&["--rules", &rules, "--store", &redis.url(), "--store-timeout", "10s"]);
    let nodes = [start(), start()];
    let admins = nodes.each_ref().map(|node| format!("http://{}", node.address("admin")));
    let set = |admin: &str, version: u64, limit: usize| -> Run {
        let version = version.to_string();
        let place = ["override", "set", "--domain", "api", "--rule", "per-user", "--key", "user=ann"];
        let change = ["--limit", &limit.to_string(), "--if-version", &version, "--admin", admin];
        tidegate(&[&place[..], &change].concat(), "")
    };
    let mut version = 0;
    for round in 0..5 {
        let runs: Vec<Run> = thread::scope(|scope| {
            let edits = admins.iter().zip([10, 20]);
            let edits = edits.map(|(admin, limit)| scope.spawn(move || set(admin, version, limit + round)));
            edits.collect::<Vec<_>>().into_iter().map(|edit| edit.join().unwrap()).collect()
        });
        let done = runs.iter().filter(|run| run.code == Some(0)).count();
        let refused =
            runs.iter().filter(|run| run.code == Some(1) && run.err.contains("has version")).count();
        assert_eq!((done, refused), (1, 1), "{runs:?}");
        wait_until("both nodes apply the same edit", || {
            let applied = nodes.each_ref().map(applied_version);
            applied[0] == applied[1] && applied[0].is_some_and(|applied| applied > version)
        });
        version = applied_version(&nodes[0]).unwrap();
    }
}
