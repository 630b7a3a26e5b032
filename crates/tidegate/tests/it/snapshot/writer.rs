//! One from time to time, one at the end, and no end at an error.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::snapshot::{SNAPSHOT_EVERY_MIN, SnapshotWriter};
use tidegate::store::Counter;
use tidegate::{Clock, ManualClock, MemoryStore, SystemClock, Timestamp};

use crate::snapshot::{Directory, MEMORY_MAX, NOW, PACKED, charge, counter, restored, used};

/// As good as never.
const NEVER: Duration = Duration::from_secs(1_000_000);

struct Setup {
    directory: Directory,
    counter: Counter,
    store: Arc<MemoryStore>,
    clock: ManualClock,
}

impl Setup {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::bounded(MEMORY_MAX));
        Self { directory: Directory::new(), counter: counter(PACKED), store, clock: ManualClock::at(NOW) }
    }

    fn start(&self, every: Duration) -> SnapshotWriter {
        let path = self.directory.file();
        SnapshotWriter::start(Arc::clone(&self.store), self.clock.clone(), path, every).unwrap()
    }

    fn charge(&self) {
        charge(&self.store, &self.counter, 1, self.clock.now());
    }

    fn used_in_snapshot(&self) -> u64 {
        let now = self.clock.now();
        used(&restored(&self.directory.file(), now), &self.counter, 1, now)
    }
}

/// Lets others run until it is so.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    const PATIENCE_NS: u64 = 60_000_000_000;
    let clock = SystemClock::new();
    let start_ns = clock.now().as_nanos();
    while !is_so() {
        assert!(clock.now().as_nanos() - start_ns < PATIENCE_NS, "{what} did not happen");
        std::thread::yield_now();
    }
}

#[test]
fn one_is_written_every_time() {
    let setup = Setup::new();
    setup.charge();
    // Shorter than it may be, which is taken for the least.
    let writer = setup.start(Duration::ZERO);
    assert!(SNAPSHOT_EVERY_MIN > Duration::ZERO);
    for round in 1..=3 {
        let now = setup.clock.now();
        let is_from_now = || matches!(writer.last(), Some(Ok(report)) if report.written_at == now);
        wait_until("a snapshot", is_from_now);
        assert_eq!(setup.used_in_snapshot(), round);
        assert!(writer.attempts().made >= round);
        setup.charge();
        setup.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(writer.stop().unwrap().written_at, setup.clock.now());
}

#[test]
fn a_last_one_is_written_at_the_end() {
    let setup = Setup::new();
    let writer = setup.start(NEVER);
    assert_eq!((writer.last(), writer.path()), (None, setup.directory.file().as_path()));
    setup.charge();
    assert_eq!(writer.stop().unwrap().entries, 1);
    assert_eq!(setup.used_in_snapshot(), 1);
}

/// It shows a second more whenever somebody looks at it.
struct Restless(AtomicU64);

impl Clock for Restless {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(NOW.as_nanos() + self.0.fetch_add(1_000_000_000, Ordering::Relaxed))
    }
}

#[test]
fn attempts_are_counted_and_timed() {
    let setup = Setup::new();
    let (path, clock) = (setup.directory.file(), Restless(AtomicU64::new(0)));
    let writer = SnapshotWriter::start(Arc::clone(&setup.store), clock, path, SNAPSHOT_EVERY_MIN).unwrap();
    wait_until("two attempts", || writer.attempts().made >= 2);
    assert_eq!(writer.attempts().last_took, Duration::from_secs(1));
}

#[test]
fn a_writer_that_is_dropped_writes_a_last_one_too() {
    let setup = Setup::new();
    let writer = setup.start(NEVER);
    setup.charge();
    drop(writer);
    assert_eq!(setup.used_in_snapshot(), 1);
    assert_eq!(Arc::strong_count(&setup.store), 1, "the thread has not ended");
}

#[test]
fn it_goes_on_after_an_error() {
    let setup = Setup::new();
    let (path, away) = (setup.directory.0.clone(), setup.directory.0.with_extension("away"));
    setup.charge();
    let writer = setup.start(SNAPSHOT_EVERY_MIN);
    wait_until("a snapshot", || matches!(writer.last(), Some(Ok(_))));
    fs::rename(&path, &away).unwrap();
    wait_until("an error", || matches!(writer.last(), Some(Err(_))));
    setup.charge();
    fs::rename(&away, &path).unwrap();
    wait_until("a snapshot", || matches!(writer.last(), Some(Ok(_))));
    wait_until("a new one", || setup.used_in_snapshot() == 2);
    fs::rename(&path, &away).unwrap();
    let error = writer.stop().unwrap_err();
    fs::rename(&away, &path).unwrap();
    assert!(error.to_string().contains("its directory does not exist"), "{error}");
    assert_eq!(setup.used_in_snapshot(), 2);
}

/// A clock of somebody else's that shows the time once.
struct BreaksDown(AtomicU64);

impl Clock for BreaksDown {
    fn now(&self) -> Timestamp {
        assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 0, "this clock breaks down, as it is meant to");
        NOW
    }
}

#[test]
fn a_thread_that_panicked_does_not_go_on_showing_its_last_success() {
    let setup = Setup::new();
    let (store, clock) = (Arc::clone(&setup.store), BreaksDown(AtomicU64::new(0)));
    let writer = SnapshotWriter::start(store, clock, setup.directory.file(), SNAPSHOT_EVERY_MIN).unwrap();
    wait_until("a panic", || matches!(writer.last(), Some(Err(_))));
    let error = writer.last().unwrap().unwrap_err();
    assert!(error.to_string().contains("the thread that writes it panicked"), "{error}");
    assert_eq!(writer.stop().unwrap_err(), error);
    assert_eq!(setup.directory.names(), ["limits.snapshot"]);
}
