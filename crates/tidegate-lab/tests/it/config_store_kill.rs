//! A process that is killed at any moment loses no acknowledged write of its config store, and neither does one whose disk is
//! full.
//!
//! For the full disk, the process limits the size of its files. A small disk would need the right to mount one, and such a test would
//! have to be skipped for most users. The limit gives EFBIG in place of ENOSPC, from the same calls; `config_store/tests.rs` of the
//! server has ENOSPC, from a simulated disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tidegate::config::ConfigVersion;
use tidegate_lab::config_store_child::{ChildLine, child_key, child_value};
use tidegate_server::config_store::{CONFIG_FILE, EmbeddedConfigStore};

const ROUNDS: u64 = 25;
const CACHE_BYTES: usize = 4 << 20;
/// Room for the file of a new store and some thousand writes.
const FILE_BYTES_MAX: u64 = 6 << 20;

/// A directory that is removed when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("config-store-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("the target directory can be written to");
        Self(path)
    }

    fn child(&self, arguments: &[&str]) -> KilledOnDrop {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate-lab"));
        child.arg("config-store-child").arg(&self.0).args(arguments).stdout(Stdio::piped());
        KilledOnDrop(child.spawn().expect("the program was built"))
    }

    fn open(&self) -> EmbeddedConfigStore {
        EmbeddedConfigStore::open(&self.0.join(CONFIG_FILE), CACHE_BYTES)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Killed when this is dropped, so that a failed test leaves no process.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The acknowledged writes: numbers of keys to versions.
type Written = BTreeMap<u64, u64>;

#[track_caller]
fn check_all(store: &EmbeddedConfigStore, written: &Written) {
    for (number, version) in written {
        let entry = store.get_blocking(&child_key(*number)).expect("the store is readable");
        let entry = entry.unwrap_or_else(|| panic!("the acknowledged write of {number} is lost"));
        assert_eq!(*entry.value, child_value(*number)[..]);
        assert_eq!(entry.version, ConfigVersion::new(*version));
    }
}

#[test]
fn a_killed_process_loses_no_acknowledged_write() {
    let directory = Directory::new("kill");
    let mut written = Written::new();
    let mut last_version = 0;
    for round in 0..ROUNDS {
        let from = written.last_key_value().map_or(0, |(number, _)| number + 1_000_000);
        let mut child = directory.child(&["--from", &from.to_string()]);
        let mut lines = BufReader::new(child.0.stdout.take().expect("stdout is piped")).lines();
        // Another number of writes and of spins each time, so that it is killed in all parts of a commit.
        for _ in 0..1 + round * 97 % 1_500 {
            let line = lines.next().expect("the process goes on").expect("its output is text");
            take_line(&line, &mut written, &mut last_version);
        }
        (0..round * 2_654_435 % 4_000_000).for_each(|spin| {
            std::hint::black_box(spin);
        });
        child.0.kill().expect("the process is running");
        assert!(!child.0.wait().expect("the process was started").success());
        // What it printed before it was killed. The last line may be incomplete.
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        for line in rest.iter().rev().skip(1).rev() {
            take_line(line, &mut written, &mut last_version);
        }
        let store = directory.open();
        check_all(&store, &written);
        let next = store.write_blocking(vec![after(round)]).expect("it is written");
        let tidegate::config::WriteResult::Written(version) = next[0] else { panic!("{next:?}") };
        assert!(version.get() > last_version, "{version} after {last_version}");
        last_version = version.get();
    }
}

fn after(round: u64) -> tidegate::config::ConfigWrite {
    let condition = tidegate::config::WriteCondition::Always;
    let (key, value) = (format!("after/{round}").into(), Some(Vec::new().into()));
    tidegate::config::ConfigWrite { key, value, condition }
}

fn take_line(line: &str, written: &mut Written, last_version: &mut u64) {
    match ChildLine::parse(line) {
        Some(ChildLine::Written { number, version }) => {
            assert!(written.insert(number, version).is_none());
            *last_version = version.max(*last_version);
        }
        other => panic!("unexpected line `{line}`: {other:?}"),
    }
}

#[test]
fn a_process_whose_file_may_not_grow_reads_on_and_recovers() {
    let directory = Directory::new("full");
    let mut child = directory.child(&["--file-bytes-max", &FILE_BYTES_MAX.to_string()]);
    let lines = BufReader::new(child.0.stdout.take().expect("stdout is piped")).lines();
    let (mut written, mut last_version, mut others) = (Written::new(), 0, Vec::new());
    for line in lines {
        let line = line.expect("its output is text");
        match ChildLine::parse(&line) {
            Some(ChildLine::Written { .. }) => take_line(&line, &mut written, &mut last_version),
            Some(other) => others.push(other),
            None => panic!("unexpected line `{line}`"),
        }
    }
    assert!(child.0.wait().expect("the process was started").success());
    let [failures @ .., ChildLine::StillReadable, ChildLine::WrittenAfterwards] = &others[..] else {
        panic!("{others:?}")
    };
    assert!(!failures.is_empty());
    assert!(failures.iter().all(|failure| *failure == ChildLine::Failed("full".to_owned())), "{failures:?}");
    assert!(written.len() > 1_000, "{}", written.len());
    check_all(&directory.open(), &written);
}
