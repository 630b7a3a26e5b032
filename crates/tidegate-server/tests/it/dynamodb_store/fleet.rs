//! Server processes that share a table.

use tidegate::{Clock as _, SystemClock};

use super::local::DynamoLocal;
use super::{ACCESS_KEY_ID, SECRET_ACCESS_KEY, new_table};
use crate::serve::server::Server;
use crate::support::{Directory, tidegate, wait_until};

const RULES: &str = "
domain: api
rules:
  - name: per-user
    key: [user]
    limit: { limit: 1000, per: day, algorithm: sliding_log }
";

const FREE_PORTS: [&str; 8] =
    ["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "127.0.0.1:0"];

fn start(rules: &str, url: &str) -> Server {
    let env = [("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID), ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)];
    Server::start_with_env(&[&["--rules", rules, "--config-store", url][..], &FREE_PORTS].concat(), &env)
}

#[track_caller]
fn must(server: &Server, args: &[&str]) {
    let admin = format!("http://{}", server.address("admin"));
    let run = tidegate(&[args, &["--admin", &admin]].concat(), "");
    assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
}

#[test]
fn an_override_set_on_one_node_is_applied_by_all() {
    const ROUNDS: usize = 5;
    let (directory, server) = (Directory::new(), DynamoLocal::shared());
    let rules = directory.write("rules.yaml", RULES);
    let url = server.url(&new_table());
    let (one, two) = (start(&rules, &url), start(&rules, &url));
    assert_eq!(one.health()["config_store"]["kind"], "dynamodb");
    let clock = SystemClock::new();
    for round in 0..ROUNDS {
        let user = format!("user={round}");
        assert_eq!(two.check(&round.to_string()), 200);
        must(&one, &["ban", &user, "--for", "15m"]);
        let confirmed = clock.now();
        // A decision waits 5 ms for the store, so the first ones may be without the override.
        wait_until("the node that took it applies the ban", || one.check(&round.to_string()) == 429);
        wait_until("the other node applies the ban", || two.check(&round.to_string()) == 429);
        let passed_ms = (clock.now().as_nanos() - confirmed.as_nanos()) / 1_000_000;
        println!("the other node applied the ban {passed_ms} ms after it was confirmed");
    }
    // A wildcard, and a node that starts later.
    must(
        &two,
        &["override", "set", "--domain", "api", "--rule", "per-user", "--key", "user=x*", "--blocked"],
    );
    wait_until("the other node applies the wildcard", || one.check("x7") == 429);
    let three = start(&rules, &url);
    wait_until("a new node has all overrides", || three.check("x8") == 429 && three.check("0") == 429);
    must(&three, &["unban", "user=0"]);
    wait_until("all nodes lift the ban", || one.check("0") == 200 && two.check("0") == 200);
    for server in [one, two, three] {
        server.stop();
    }
}

#[test]
fn a_server_starts_and_decides_without_its_config_store() {
    let (directory, port) = (Directory::new(), tidegate_testing::redis_server::free_port());
    let rules = directory.write("rules.yaml", RULES);
    let url = format!(
        "dynamodb://{}?region=eu-central-1&endpoint=http://127.0.0.1:{port}&create=true",
        new_table()
    );
    let server = start(&rules, &url);
    assert_eq!(server.check("1"), 200);
    server.wait_for_log("decisions use the overrides that are known");
    let _dynamodb = DynamoLocal::start_on(port).expect("its port is free");
    server.wait_for_log("the config store answers again");
    must(&server, &["ban", "user=1"]);
    wait_until("the ban is applied", || server.check("1") == 429);
    server.stop();
}

#[test]
fn a_missing_table_is_in_the_log() {
    let (directory, server) = (Directory::new(), DynamoLocal::shared());
    let rules = directory.write("rules.yaml", RULES);
    let url = server.url(&new_table()).replace("&create=true", "");
    let node = start(&rules, &url);
    node.wait_for_log("aws dynamodb create-table --region eu-central-1 --table-name");
    node.stop();
}
