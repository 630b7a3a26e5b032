//! `tidegate rules` against server processes with `--rules store`.

use serde_json::Value;

use super::{Directory, Server, run_to_exit};
use crate::support::{Run, tidegate, wait_until};

/// A server with its rules in the store, and the command line of an operator.
struct Operator {
    server: Server,
    data_dir: String,
    directory: Directory,
}

impl Operator {
    fn start() -> Self {
        let directory = Directory::new();
        let data_dir = format!("{}/data", directory.path());
        let server = Server::start(&["--rules", "store", "--data-dir", &data_dir]);
        Self { server, data_dir, directory }
    }

    fn run(&self, args: &[&str]) -> Run {
        let admin = format!("http://{}", self.server.address("admin"));
        tidegate(&[&["rules"], args, &["--admin", &admin]].concat(), "")
    }

    #[track_caller]
    fn must(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
        run.out
    }

    #[track_caller]
    fn must_fail(&self, args: &[&str], code: i32) -> String {
        let run = self.run(args);
        assert_eq!(run.code, Some(code), "{args:?}: {run:?}");
        run.err
    }

    fn write(&self, name: &str, limit: &str) -> String {
        self.directory.write(name, rules("per-user", limit))
    }
}

fn rules(name: &str, limit: &str) -> String {
    format!("domain: api\nrules:\n  - {{ name: {name}, key: [user], limit: {limit} }}\n")
}

#[test]
fn a_push_is_active_at_once_and_can_be_taken_back() {
    let operator = Operator::start();
    let server = &operator.server;
    server.wait_for_log("the config store has no rules yet");
    assert_eq!((server.check("7"), server.check("7")), (200, 200));
    let (one, deny) = (operator.write("one.yaml", "1 per day"), operator.write("deny.yaml", "0 per day"));
    let shown = operator.must(&["diff", &one]);
    assert_eq!(shown, "+ domain api\n+ api/per-user\n2 changes (nothing was changed)\n");
    assert_eq!(server.check("7"), 200, "a diff changes nothing");
    let pushed = operator.must(&["push", &one, "--note", "first", "--author", "ann"]);
    assert_eq!(pushed, "+ domain api\n+ api/per-user\nrevision 1: 2 changes\n");
    assert_eq!((server.check("7"), server.check("7")), (200, 429));
    let pushed = operator.must(&["push", &deny, "--if-revision", "1", "--author", "bob"]);
    assert!(
        pushed.contains("~ api/per-user\n    limits[1].spec: ") && pushed.ends_with("revision 2: 1 change\n"),
        "{pushed}"
    );
    assert_eq!(server.check("8"), 429);
    let back = operator.must(&["rollback", "--author", "ann"]);
    assert!(back.ends_with("revision 3: 1 change\n"), "{back}");
    // No counter is reset.
    assert_eq!((server.check("7"), server.check("8"), server.check("8")), (429, 200, 429));
    let history = operator.must(&["history"]);
    let lines: Vec<&str> = history.lines().collect();
    assert!(lines[0].starts_with("3  ") && lines[0].ends_with("rollback to 1  by ann  active"), "{history}");
    assert!(lines[1].starts_with("2  ") && lines[1].ends_with("push  by bob"), "{history}");
    assert!(lines[2].starts_with("1  ") && lines[2].ends_with("push  by ann  \"first\""), "{history}");
    let json = operator.must(&["history", "--json"]);
    let newest: Value = json.lines().next().unwrap().parse().unwrap();
    assert_eq!((&newest["revision"], &newest["active"]), (&Value::from(3), &Value::from(true)));
    let shown = operator.must(&["show", "2"]);
    assert!(shown.ends_with(&rules("per-user", "0 per day")) && shown.starts_with("# "), "{shown}");
    server.wait_for_log("action=\"push rules\" author=\"bob\" revision=2 revision_before=1 changes=1");
    server.wait_for_log(
        "action=\"roll back rules\" author=\"ann\" revision=3 revision_before=2 rolled_back_to=1 changes=1",
    );
}

#[test]
fn what_cannot_work_is_refused_with_a_hint() {
    let operator = Operator::start();
    let good = operator.write("good.yaml", "5 per day");
    let bad = operator.write("bad.yaml", "5 per sekond");
    let error = operator.must_fail(&["push", &bad], 1);
    assert!(error.contains("did you mean `second`?") && error.contains("bad.yaml:3"), "{error}");
    assert!(operator.must_fail(&["diff", &bad], 1).contains("did you mean"));
    assert!(operator.must_fail(&["rollback"], 1).contains("no earlier revision"));
    assert!(operator.must_fail(&["end", "1"], 1).contains("no emergency rules"));
    assert!(operator.must_fail(&["show", "1"], 1).contains("no revision 1"));
    assert!(operator.must_fail(&["push", "no-such-file.yaml"], 2).contains("no-such-file.yaml"));
    operator.must(&["push", &good, "--if-revision", "0"]);
    let error = operator.must_fail(&["push", &good, "--if-revision", "0"], 1);
    assert!(error.contains("the last revision is 1"), "{error}");
    assert!(operator.must_fail(&["push", &good, "--expires", "soon"], 1).contains("(hint: "));
}

#[test]
fn warnings_are_shown_as_by_check() {
    let operator = Operator::start();
    let file = operator.write("zero.yaml", "0 per day");
    for command in ["diff", "push"] {
        let run = operator.run(&[command, &file]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let warning = "warning[limit-zero]: a limit of 0 denies every request";
        assert!(run.err.contains(warning) && run.err.contains("zero.yaml:3"), "{run:?}");
    }
}

#[test]
fn emergency_rules_come_on_top_until_they_end() {
    let operator = Operator::start();
    let server = &operator.server;
    operator.must(&["push", &operator.write("rules.yaml", "5 per day")]);
    let block = operator.directory.write("block.yaml", rules("block", "deny"));
    let pushed = operator.must(&["push", &block, "--expires", "1h"]);
    assert_eq!(pushed, "+ api/block\nrevision 2: 1 change\n");
    assert_eq!(server.check("7"), 429);
    let history = operator.must(&["history"]);
    assert!(history.lines().next().unwrap().contains("emergency  until "), "{history}");
    let other = operator.directory.write("other.yaml", rules("other", "deny"));
    operator.must(&["push", &other, "--expires", "1h"]);
    assert_eq!(operator.must(&["end", "3"]), "- api/other\nrevision 3: 1 change\n");
    operator.must(&["push", &operator.write("rules.yaml", "5 per day")]);
    // Not the last one.
    assert_eq!(operator.must(&["end", "2"]), "- api/block\nrevision 2: 1 change\n");
    server.wait_for_log("action=\"end emergency rules\" revision=2 revision_before=4 changes=1");
    assert_eq!(server.check("7"), 200);
    // They end on their own, too.
    operator.must(&["push", &block, "--expires", "1s"]);
    wait_until("the emergency rules expire", || server.check("8") == 200);
}

#[test]
fn rules_survive_a_restart() {
    let operator = Operator::start();
    operator.must(&["push", &operator.write("rules.yaml", "deny")]);
    let Operator { server, data_dir, directory: _directory } = operator;
    drop(server);
    let server = Server::start(&["--rules", "store", "--data-dir", &data_dir]);
    assert_eq!(server.check("7"), 429);
}

#[test]
fn a_server_with_files_says_that_it_does_not_use_a_push() {
    let directory = Directory::new();
    let file = directory.write("rules.yaml", rules("per-user", "5 per day"));
    let server = Server::start(&["--rules", &file]);
    let admin = format!("http://{}", server.address("admin"));
    let deny = directory.write("deny.yaml", rules("per-user", "deny"));
    let run = tidegate(&["rules", "push", &deny, "--admin", &admin], "");
    assert!(run.code == Some(0) && run.err.contains("(hint: start it with --rules store)"), "{run:?}");
    assert_eq!(server.check("7"), 200);
}

#[test]
fn files_and_the_store_are_not_mixed() {
    let run = run_to_exit(&["--rules", "store", "--rules", "rules.yaml"], &[]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("both in the config store and in files"), "{run:?}");
    // Relative paths in a settings file resolve against its directory, but this is no path.
    let directory = Directory::new();
    let config = directory.write("settings.yaml", "rules: store\n");
    let server = Server::start(&["--config", &config]);
    server.wait_for_log("has no rules yet");
}
