//! Counters survive a restart and, up to the last snapshot, a kill.

use std::fs;

use crate::serve::{Directory, HTTP_ONLY, RULES, Server, run_to_exit, wait_until};
use crate::support::Run;

struct Setup {
    directory: Directory,
    rules: String,
    data: String,
}

impl Setup {
    fn new() -> Self {
        let directory = Directory::new();
        let rules = directory.write("rules.yaml", RULES);
        let data = format!("{}/not/there/yet", directory.path());
        Self { directory, rules, data }
    }

    fn start(&self, every: &str) -> Server {
        Server::start(&["--rules", &self.rules, "--data-dir", &self.data, "--snapshot-every", every])
    }

    fn snapshot(&self) -> Vec<u8> {
        fs::read(format!("{}/counters.snapshot", self.data)).unwrap_or_default()
    }
}

#[test]
fn a_restart_keeps_every_counter() {
    let setup = Setup::new();
    let server = setup.start("1h");
    assert_eq!([server.check("ann"), server.check("ann"), server.check("bob")], [200, 200, 200]);
    let log = server.stop();
    assert!(log.contains("wrote the last snapshot"), "{log}");

    let server = setup.start("1h");
    assert_eq!([server.check("ann"), server.check("ann")], [200, 429]);
    assert_eq!([server.check("bob"), server.check("bob"), server.check("bob")], [200, 200, 429]);
    let restored = server.health()["snapshots"]["found"]["restored"]["counters"].as_u64();
    assert_eq!(restored, Some(2));
}

#[test]
fn a_kill_keeps_the_last_snapshot() {
    let setup = Setup::new();
    let server = setup.start("100ms");
    assert_eq!([server.check("ann"), server.check("ann"), server.check("ann")], [200, 200, 200]);
    // The second snapshot from now starts after the requests, so it contains them.
    for _ in 0..2 {
        let before = server.health()["snapshots"]["written"].as_u64();
        wait_until("a snapshot is written", || server.health()["snapshots"]["written"].as_u64() > before);
    }
    server.kill();
    assert!(!setup.snapshot().is_empty());
    assert_eq!(setup.start("1h").check("ann"), 429);
}

#[test]
fn a_kill_before_the_first_snapshot_loses_counters() {
    let setup = Setup::new();
    let server = setup.start("1h");
    for _ in 0..3 {
        assert_eq!(server.check("ann"), 200);
    }
    server.kill();
    assert_eq!(setup.start("1h").check("ann"), 200);
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let setup = Setup::new();
    let first = setup.start("1h");
    let args = ["--data-dir", &setup.data, "--http", "127.0.0.1:0"];
    let Run { code, err: error, .. } = run_to_exit(&[&args, &HTTP_ONLY[..]].concat(), &[]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains(&format!("data_dir `{}` is in use by another server, process ", setup.data)),
        "{error}"
    );
    assert!(error.contains("--data-dir"), "{error}");
    // A killed server holds no lock.
    first.kill();
    setup.start("1h").stop();
}

#[test]
fn a_damaged_snapshot_is_moved_aside() {
    let setup = Setup::new();
    let server = setup.start("1h");
    assert_eq!(server.check("ann"), 200);
    server.stop();
    let mut bytes = setup.snapshot();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    setup.directory.write("not/there/yet/counters.snapshot", &bytes);

    let server = setup.start("1h");
    server.wait_for_log("is refused");
    let refused = server.health()["snapshots"]["found"]["refused"].to_string();
    assert!(refused.contains("damaged"), "{refused}");
    assert_eq!(fs::read(format!("{}/counters.snapshot.refused", setup.data)).unwrap(), bytes);
}

#[test]
fn snapshot_write_failures_are_reported() {
    let setup = Setup::new();
    let server = setup.start("100ms");
    wait_until("a snapshot is written", || !setup.snapshot().is_empty());
    // A file cannot replace a directory. Retry, because the next snapshot may be written before the directory exists.
    let path = format!("{}/counters.snapshot", setup.data);
    wait_until("a directory takes the path of the snapshot", || {
        let _ = fs::remove_file(&path);
        fs::create_dir(&path).is_ok()
    });
    wait_until("health reports the failure", || !server.health()["snapshots"]["failure"].is_null());
    server.wait_for_log("was not written");
    // The start time of the failure does not change with each attempt.
    let snapshots = || server.health()["snapshots"].clone();
    let (since, failed) = (snapshots()["failure"]["at_ms"].as_u64(), snapshots()["failed"].as_u64());
    wait_until("it fails again", || snapshots()["failed"].as_u64() > failed.map(|failed| failed + 2));
    assert_eq!(snapshots()["failure"]["at_ms"].as_u64(), since);
    assert_eq!(server.log().matches("was not written").count(), 1, "the same error is logged once");
    assert_eq!(server.check("ann"), 200);
    fs::remove_dir_all(&path).unwrap();
    wait_until("snapshots are written again", || server.health()["snapshots"]["failure"].is_null());
    server.wait_for_log("written again");
    server.stop();
}
