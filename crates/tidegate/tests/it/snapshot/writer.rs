//! Periodic snapshots, one at the end, and no stop after an error.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::snapshot::{SNAPSHOT_EVERY_MIN, SnapshotWriter};
use tidegate::store::Counter;
use tidegate::{Clock, ManualClock, MemoryStore, SystemClock, Timestamp};

use crate::snapshot::{MEMORY_MAX, NOW, PACKED, TestDirectory, charge, counter, restored, units_used};

/// As good as never.
const NEVER: Duration = Duration::from_secs(1_000_000);

struct WriterFixture {
    directory: TestDirectory,
    counter: Counter,
    store: Arc<MemoryStore>,
    clock: ManualClock,
}

impl WriterFixture {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::bounded(MEMORY_MAX));
        Self { directory: TestDirectory::new(), counter: counter(PACKED), store, clock: ManualClock::at(NOW) }
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
        units_used(&restored(&self.directory.file(), now), &self.counter, 1, now)
    }
}

/// Yields until the condition is true.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    const TIMEOUT_NS: u64 = 60_000_000_000;
    let clock = SystemClock::new();
    let start_ns = clock.now().as_nanos();
    while !condition() {
        assert!(clock.now().as_nanos() - start_ns < TIMEOUT_NS, "{what} did not happen");
        std::thread::yield_now();
    }
}

#[test]
fn a_snapshot_is_written_at_every_interval() {
    let fixture = WriterFixture::new();
    fixture.charge();
    // Shorter than allowed, so it is raised to the minimum.
    let writer = fixture.start(Duration::ZERO);
    assert!(SNAPSHOT_EVERY_MIN > Duration::ZERO);
    for round in 1..=3 {
        let now = fixture.clock.now();
        let is_from_now = || matches!(writer.last_result(), Some(Ok(report)) if report.written_at == now);
        wait_until("a snapshot", is_from_now);
        assert_eq!(fixture.used_in_snapshot(), round);
        assert!(writer.attempts().count >= round);
        fixture.charge();
        fixture.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(writer.stop().unwrap().written_at, fixture.clock.now());
}

#[test]
fn stop_writes_a_last_snapshot() {
    let fixture = WriterFixture::new();
    let writer = fixture.start(NEVER);
    assert_eq!((writer.last_result(), writer.path()), (None, fixture.directory.file().as_path()));
    fixture.charge();
    assert_eq!(writer.stop().unwrap().entries, 1);
    assert_eq!(fixture.used_in_snapshot(), 1);
}

/// A clock that shows a second more at each reading.
struct AdvancingClock(AtomicU64);

impl Clock for AdvancingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(NOW.as_nanos() + self.0.fetch_add(1_000_000_000, Ordering::Relaxed))
    }
}

#[test]
fn attempts_are_counted_and_timed() {
    let fixture = WriterFixture::new();
    let (path, clock) = (fixture.directory.file(), AdvancingClock(AtomicU64::new(0)));
    let writer = SnapshotWriter::start(Arc::clone(&fixture.store), clock, path, SNAPSHOT_EVERY_MIN).unwrap();
    wait_until("two attempts", || writer.attempts().count >= 2);
    assert_eq!(writer.attempts().last_duration, Duration::from_secs(1));
}

#[test]
fn drop_writes_a_last_snapshot() {
    let fixture = WriterFixture::new();
    let writer = fixture.start(NEVER);
    fixture.charge();
    drop(writer);
    assert_eq!(fixture.used_in_snapshot(), 1);
    assert_eq!(Arc::strong_count(&fixture.store), 1, "the thread has not ended");
}

#[test]
fn the_writer_continues_after_an_error() {
    let fixture = WriterFixture::new();
    let (path, away) = (fixture.directory.0.clone(), fixture.directory.0.with_extension("away"));
    fixture.charge();
    let writer = fixture.start(SNAPSHOT_EVERY_MIN);
    wait_until("a snapshot", || matches!(writer.last_result(), Some(Ok(_))));
    fs::rename(&path, &away).unwrap();
    wait_until("an error", || matches!(writer.last_result(), Some(Err(_))));
    fixture.charge();
    fs::rename(&away, &path).unwrap();
    wait_until("a snapshot", || matches!(writer.last_result(), Some(Ok(_))));
    wait_until("a new one", || fixture.used_in_snapshot() == 2);
    fs::rename(&path, &away).unwrap();
    let error = writer.stop().unwrap_err();
    fs::rename(&away, &path).unwrap();
    assert!(error.to_string().contains("its directory does not exist"), "{error}");
    assert_eq!(fixture.used_in_snapshot(), 2);
}

/// A clock that can be read only once.
struct PanickingClock(AtomicU64);

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 0, "this clock breaks down, as it is meant to");
        NOW
    }
}

#[test]
fn a_panicked_thread_is_reported_as_an_error() {
    let fixture = WriterFixture::new();
    let (store, clock) = (Arc::clone(&fixture.store), PanickingClock(AtomicU64::new(0)));
    let writer = SnapshotWriter::start(store, clock, fixture.directory.file(), SNAPSHOT_EVERY_MIN).unwrap();
    wait_until("a panic", || matches!(writer.last_result(), Some(Err(_))));
    let error = writer.last_result().unwrap().unwrap_err();
    assert!(error.to_string().contains("the thread that writes it panicked"), "{error}");
    assert_eq!(writer.stop().unwrap_err(), error);
    assert_eq!(fixture.directory.names(), ["limits.snapshot"]);
}
