//! Two server processes that share overrides in FerretDB.

use tidegate::{Clock as _, SystemClock};
use tidegate_testing::ferretdb_server::FerretDbServer;

use super::elapsed;
use crate::serve::server::Server;
use crate::support::{Directory, tidegate, wait_until};

const RULES: &str = "
domain: api
rules:
  - name: per-user
    key: [user]
    limit: 1000000 per day
";

fn start(directory: &Directory, url: &str) -> Server {
    let rules = directory.write("rules.yaml", RULES);
    Server::start(&["--rules", &rules, "--config-store", url])
}

fn must(server: &Server, args: &[&str]) {
    let admin = format!("http://{}", server.address("admin"));
    let run = tidegate(&[args, &["--admin", &admin]].concat(), "");
    assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
}

#[test]
fn an_override_of_one_node_is_applied_by_the_other() {
    let database = FerretDbServer::start();
    let (directory, url) = (Directory::new(), format!("{}/limits", database.url()));
    let (one, two) = (start(&directory, &url), start(&directory, &url));
    let clock = SystemClock::new();
    for server in [&one, &two] {
        assert_eq!(server.health()["config_store"]["kind"], "mongodb");
        wait_until("requests are allowed", || server.check("7") == 200);
    }
    for round in 0..3 {
        let begin = clock.now();
        must(&one, &["ban", "user=7", "--author", "ann"]);
        wait_until("the other node denies", || two.check("7") == 429);
        let took = elapsed(&clock, begin);
        println!("round {round}: the other node applied the ban {took:?} after the command began");
        // A decision waits a few milliseconds for the config store, which may be busy.
        wait_until("the first node denies", || one.check("7") == 429);
        must(&two, &["unban", "user=7"]);
        wait_until("the first node allows", || one.check("7") == 200);
    }
}

#[test]
fn nodes_go_on_while_the_database_is_away() {
    let mut database = FerretDbServer::start();
    let (directory, url) = (Directory::new(), format!("{}/limits", database.url()));
    database.kill();
    // The password is not in the log.
    let with_login = url.replace("mongodb://", "mongodb://ann:hunter2@");
    let refused = start(&directory, &with_login);
    let server = start(&directory, &url);
    assert_eq!(server.check("7"), 200);
    server.wait_for_log("the config store cannot be reached");
    database.start_again();
    server.wait_for_log("the config store answers again");
    must(&server, &["ban", "user=7", "--author", "ann"]);
    wait_until("the ban is applied", || server.check("7") == 429);
    database.kill();
    wait_until("the ban is known while the database is away", || server.check("7") == 429);
    drop(server);
    refused.wait_for_log("the config store cannot be reached");
    let log = refused.stop();
    assert!(!log.contains("hunter2"), "{log}");
    assert!(log.lines().count() < 60, "the driver fills the log: {log}");
}
