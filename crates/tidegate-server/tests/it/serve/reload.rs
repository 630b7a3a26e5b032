//! Rules that change while the server runs.

use crate::serve::server::{connect, http_request, write_by_rename, write_in_place};
use crate::serve::{Directory, RULES, Server, wait_until};

const BROKEN: &str = "domain: api\nrules: [ { name: all, limit: 5 per sekond } ]\n";

struct Setup {
    server: Server,
    path: String,
    _directory: Directory,
}

fn setup(reload_every: &str) -> Setup {
    let directory = Directory::new();
    let path = directory.write("rules.yaml", RULES);
    let server = Server::start(&["--rules", &path, "--reload-every", reload_every]);
    Setup { server, path, _directory: directory }
}

/// `RULES` with another limit per user.
fn rules(limit: u32) -> String {
    RULES.replace("limit: 3", &format!("limit: {limit}"))
}

#[test]
fn tests_beside_rules_do_not_keep_the_server_from_starting() {
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    directory.write("tests.yaml", "tests: [ { name: t, steps: [ { request: {}, expect: allowed } ] } ]\n");
    let server = Server::start(&["--rules", directory.path()]);
    assert_eq!(server.check("ann"), 200);
    server.wait_for_log("it has tests of rules, which `tidegate check --tests` runs");
    server.stop();
}

#[test]
fn an_edit_keeps_counters() {
    let Setup { server, path, _directory } = setup("10ms");
    for (write, limit) in [(write_in_place as fn(&str, &str), 5), (write_by_rename, 7), (write_in_place, 9)] {
        let replaced = server.health()["rules"]["replaced"].as_u64().unwrap();
        write(&path, &rules(limit));
        wait_until("the edit is active", || {
            server.health()["rules"]["replaced"].as_u64().unwrap() > replaced
        });
    }
    let passed = (0..12).filter(|_| server.check("ann") == 200).count();
    assert_eq!(passed, 9);
    write_in_place(&path, &rules(10));
    wait_until("one more passes, and no more", || server.check("ann") == 200);
    assert_eq!(server.check("ann"), 429);
}

#[test]
fn files_are_polled_every_second() {
    let directory = Directory::new();
    let path = directory.write("rules.yaml", RULES);
    let server = Server::start(&["--rules", &path]);
    write_in_place(&path, &rules(0));
    wait_until("the edit is active", || server.check("ann") == 429);
}

#[test]
fn sighup_takes_effect_at_once() {
    let Setup { server, path, _directory } = setup("1h");
    write_in_place(&path, &rules(0));
    server.signal("HUP");
    wait_until("the edit is active", || server.check("ann") == 429);
    server.wait_for_log("SIGHUP");
}

#[test]
fn the_reload_endpoint_reports_the_result() {
    let Setup { server, path, _directory } = setup("1h");
    let reload = || {
        let answer = http_request(connect(server.address("admin")), "POST", "/v1/reload", "");
        (answer.status, answer.body)
    };
    assert_eq!(reload().0, 200);
    write_in_place(&path, &rules(0));
    assert_eq!(reload().0, 200);
    assert_eq!(server.check("ann"), 429, "the rules are active before the reload is answered");
    write_in_place(&path, BROKEN);
    for _ in 0..2 {
        let (status, body) = reload();
        assert!(status >= 400 && body.contains("sekond"), "{status} {body}");
    }
    assert_eq!(server.health()["rules"]["refused"].as_u64(), Some(1), "the rejection is counted once");
    assert_eq!(server.check("ann"), 429);
}

#[test]
fn an_invalid_file_is_reported_and_ignored() {
    let Setup { server, path, _directory } = setup("10ms");
    assert!(server.health()["rules"]["failure"].is_null());
    for _ in 0..3 {
        assert_eq!(server.check("ann"), 200);
    }
    // Atomically, because a half-written file would be reported first.
    write_by_rename(&path, BROKEN);
    wait_until("the error is reported", || !server.health()["rules"]["failure"].is_null());
    let health = server.health();
    let diagnostic = &health["rules"]["failure"]["report"]["diagnostics"][0];
    assert_eq!(
        (diagnostic["line"].as_u64(), diagnostic["file"].as_str()),
        (Some(2), Some(&*path)),
        "{health}"
    );
    assert_eq!((health["rules"]["refused"].as_u64(), health["ready"].as_bool()), (Some(1), Some(true)));
    assert_eq!((server.check("ann"), server.check("bob")), (429, 200));
    server.wait_for_log("did you mean `second`?");

    write_in_place(&path, RULES);
    wait_until("the error is gone", || server.health()["rules"]["failure"].is_null());
    assert_eq!((server.check("ann"), server.check("bob")), (429, 200));
    let log = server.stop();
    assert_eq!(log.matches("did you mean `second`?").count(), 1, "the error is logged once: {log}");
}

#[test]
fn files_are_added_and_removed() {
    let directory = Directory::new();
    directory.write("rules/a.yaml", RULES);
    let rules = format!("{}/rules", directory.path());
    let server = Server::start(&["--rules", &rules, "--reload-every", "10ms"]);
    directory.write("rules/b.yaml", "domain: other\nrules: [ { name: all, limit: 1 per day } ]\n");
    wait_until("there are two domains", || {
        server.health()["rules"]["domains"] == serde_json::json!(["api", "other"])
    });
    std::fs::remove_file(format!("{rules}/a.yaml")).unwrap();
    wait_until("there is one domain", || server.health()["rules"]["domains"] == serde_json::json!(["other"]));
}

#[test]
fn the_built_in_example_is_not_reloaded() {
    let server = Server::start(&["--reload-every", "10ms"]);
    server.signal("HUP");
    server.wait_for_log("SIGHUP");
    let health = server.health();
    assert_eq!((health["rules"]["replaced"].as_u64(), health["rules"]["rules"].as_u64()), (Some(0), Some(1)));
}
