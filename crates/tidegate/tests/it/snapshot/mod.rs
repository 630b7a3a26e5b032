//! Snapshots of the memory store.
//!
//! | file | what it holds them to |
//! |---|---|
//! | `round_trip` | a restored store decides as the one that was written |
//! | `refused` | whatever is wrong with a file, none of it is restored, and it is said what was wrong |
//! | `nonsense` | neither if every checksum is right |
//! | `concurrent` | decisions go on meanwhile, and no counter is lost or made up |
//! | `replacement` | the file before stays until the next is complete |
//! | `writer` | one from time to time, one at the end, and no end at an error |

mod concurrent;
mod malformed;
mod corrupt;
mod atomic_file;
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
const LEDGER: &str = "{algorithm: sliding_log, limit: 1000000, per: 1d}";

/// A directory of its own for each test, gone when it is dropped.
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

    /// The names of all files in it, in order.
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
    assert!(store.check_one(&charge, now).is_allowed(), "key {key}");
}

/// What a key of [`PACKED`] or [`LEDGER`] has used.
fn units_used(store: &MemoryStore, counter: &Counter, key: u64, now: Timestamp) -> u64 {
    let key = key.to_le_bytes();
    let mut plan = Plan::new();
    plan.add(Charge::new(&key, counter, 0)).unwrap();
    counter.limit().rate().limit() - store.peek(&plan, now)[0].remaining
}

/// The store of a snapshot that has to be a good one.
fn restored(path: &Path, now: Timestamp) -> MemoryStore {
    let restored = MemoryStore::restore(path, MEMORY_MAX, now);
    assert!(matches!(restored.status, RestoreStatus::Restored { .. }), "{}", restored.status);
    restored.store
}
