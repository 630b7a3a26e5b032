//! Snapshots of the memory store.
//!
//! | file | what it checks |
//! |---|---|
//! | `round_trip` | a restored store decides as the one that was written |
//! | `corrupt` | a file with an error is not restored at all, and the error says what was wrong |
//! | `malformed` | the same if every checksum is right |
//! | `concurrent` | decisions continue meanwhile, and no counter is lost or made up |
//! | `atomic_file` | the last file stays until the next is complete |
//! | `clock_ahead` | a snapshot from the future denies no request for longer than its limit could |
//! | `flood` | a restored store knows which limit a state belongs to |
//! | `writer` | periodic snapshots, one at the end, and no stop after an error |

mod atomic_file;
mod clock_ahead;
mod concurrent;
mod corrupt;
mod flood;
mod malformed;
mod round_trip;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::snapshot::RestoreStatus;
use tidegate::store::{Charge, Counter, Plan};
use tidegate::{MemoryStore, Timestamp};

const MEMORY_MAX: u64 = 64 << 20;
const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

const PACKED: &str = "{algorithm: fixed_window, limit: 1000000, per: 1d}";
const USAGE_LOG: &str = "{algorithm: sliding_log, limit: 1000000, per: 1d}";

/// A directory for one test, removed when it is dropped.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("snapshot-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("limits.snapshot")
    }

    /// The names of all files in it, sorted.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn counter(limit: &str) -> Counter {
    Counter::new("snapshot", 0, limit.parse().unwrap())
}

fn charge(store: &MemoryStore, counter: &Counter, key: u64, now: Timestamp) {
    let bytes = key.to_le_bytes();
    let charge = Charge::new(&bytes, counter, 1);
    assert!(store.check_charge(&charge, now).is_allowed(), "key {key}");
}

/// What a key of [`PACKED`] or [`USAGE_LOG`] has used.
fn units_used(store: &MemoryStore, counter: &Counter, key: u64, now: Timestamp) -> u64 {
    let key = key.to_le_bytes();
    let mut plan = Plan::new();
    plan.add(Charge::new(&key, counter, 0)).unwrap();
    counter.limit().rate().limit() - store.peek(&plan, now)[0].remaining
}

/// The store of a snapshot that must be valid.
fn restored(path: &Path, now: Timestamp) -> MemoryStore {
    let restored = MemoryStore::restore(path, MEMORY_MAX, now);
    assert!(matches!(restored.status, RestoreStatus::Restored { .. }), "{}", restored.status);
    restored.store
}
