//! A process that is killed at any moment leaves the last good snapshot.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tidegate::snapshot::RestoreStatus;
use tidegate_lab::snapshot_child::{Generations, Line, SNAPSHOT};

const ROUNDS: u64 = 40;
/// The most rounds until a process is killed in the middle of a write.
const ROUNDS_MAX: u64 = 1_000;

/// A directory that is removed when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let name = format!("snapshot-kill-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("the target directory can be written to");
        Self(path)
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

/// What a process printed before it was killed.
#[derive(Debug, Default)]
struct Seen {
    restored: u64,
    writing: u64,
    written: u64,
}

impl Seen {
    fn take_line(&mut self, text: &str) -> Line {
        let line = Line::parse(text).unwrap_or_else(|| panic!("unexpected line `{text}`"));
        match line {
            Line::Restored(generation) => self.restored = generation,
            Line::Writing(generation) => self.writing = generation,
            Line::Written(generation) => self.written = generation,
        }
        line
    }
}

/// Starts the process, lets it write `snapshots` and start another, spins, and kills it.
fn run_and_kill(directory: &Path, snapshots: u64, spins: u64) -> Seen {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate-lab"));
    child.arg("snapshot-child").arg(directory).stdout(Stdio::piped());
    let mut child = KilledOnDrop(child.spawn().expect("the program was built"));
    let mut lines = BufReader::new(child.0.stdout.take().expect("stdout is piped")).lines();
    let mut seen = Seen::default();
    let (mut begun, mut text) = (0, String::new());
    while begun <= snapshots {
        text = lines.next().expect("the process goes on").expect("its output is text");
        begun += u64::from(matches!(seen.take_line(&text), Line::Writing(_)));
    }
    assert!(text.starts_with("writing"));
    (0..spins).for_each(|spin| {
        std::hint::black_box(spin);
    });
    child.0.kill().expect("the process is running");
    let status = child.0.wait().expect("the process was started");
    assert!(!status.success(), "the process ended before it was killed");
    // The rest of its output. The last line may be incomplete.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    rest.iter().filter(|text| Line::parse(text).is_some()).for_each(|text| {
        seen.take_line(text);
    });
    seen
}

#[test]
fn a_process_killed_at_any_moment_leaves_the_last_good_snapshot() {
    let directory = Directory::new();
    let temporary = directory.0.join(format!(".{SNAPSHOT}.tmp"));
    let (mut before, mut cut_off, mut advanced) = (0, 0, 0);
    let mut rounds = 0;
    while rounds < ROUNDS || (cut_off == 0 && rounds < ROUNDS_MAX) {
        let round = rounds;
        rounds += 1;
        // From no wait to some milliseconds, in growing steps.
        let spins = 1_000 << (round % 14);
        let seen = run_and_kill(&directory.0, round % 3, spins);
        assert_eq!(seen.restored, before, "round {round}: it did not continue from the last snapshot");
        cut_off += u64::from(temporary.exists());

        let (generations, found) = Generations::restore(&directory.0);
        if seen.written == 0 && before == 0 && found == RestoreStatus::NoSnapshot {
            continue;
        }
        assert!(matches!(found, RestoreStatus::Restored { .. }), "round {round}: {found}");
        let generation = generations.generation();
        let generation =
            generation.unwrap_or_else(|| panic!("round {round}: keys have different generations"));
        let at_least = seen.written.max(before);
        assert!(
            (at_least..=seen.writing).contains(&generation),
            "round {round}: generation {generation} was found, {seen:?}"
        );
        advanced += u64::from(generation > before);
        before = generation;
    }
    println!("{rounds} kills: {cut_off} in the middle of a file, {advanced} after a new one");
    assert!(cut_off > 0, "no process was killed in the middle of a write");
    assert!(advanced > rounds / 3, "hardly any process finished a snapshot");
}
