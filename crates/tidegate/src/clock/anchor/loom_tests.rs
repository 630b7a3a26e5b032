//! Readers and anchors under a model checker.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p tidegate --lib clock`

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::model;

const SECOND: u64 = 1_000_000_000;

/// A machine whose time passes as it is looked at, by a third of an anchor's interval.
struct Fake {
    up_ns: AtomicU64,
    epoch_ns: AtomicU64,
}

struct Fixture {
    anchor: Anchor,
    pace: Pace,
    fake: Fake,
}

impl Source for Fake {
    fn count(&self) -> u64 {
        self.up_ns.fetch_add(ANCHOR_EVERY_NS / 3, Ordering::SeqCst)
    }

    fn wall_ns(&self) -> u64 {
        self.up_ns.load(Ordering::SeqCst) + self.epoch_ns.load(Ordering::SeqCst)
    }
}

impl Fixture {
    fn new() -> Arc<Self> {
        let fake = Fake { up_ns: AtomicU64::new(0), epoch_ns: AtomicU64::new(SECOND) };
        let fixture = Self { anchor: Anchor::new(), pace: Pace::new(1 << 32), fake };
        fixture.anchor.start(&fixture.fake, fixture.pace);
        Arc::new(fixture)
    }

    fn now(&self) -> u64 {
        self.anchor.now(&self.fake, self.pace)
    }

    /// What a thread sees that is told the time by another: nothing earlier.
    fn now_after(&self, told: &AtomicU64) -> u64 {
        let before = told.load(Ordering::Acquire);
        let now = self.now();
        assert!(now >= before, "{} ns back", before - now);
        now
    }
}

#[test]
fn no_thread_is_told_a_time_that_it_does_not_reach() {
    model(3, || {
        let (clock, told) = (Fixture::new(), Arc::new(AtomicU64::new(0)));
        let reader = thread::spawn({
            let (clock, told) = (clock.clone(), told.clone());
            move || {
                let first = clock.now_after(&told);
                assert!(clock.now_after(&told) >= first);
            }
        });
        for _ in 0..4 {
            told.store(clock.now(), Ordering::Release);
        }
        reader.join().unwrap();
        clock.now_after(&told);
    });
}

#[test]
fn a_step_is_counted_once_by_two_threads() {
    model(3, || {
        let clock = Fixture::new();
        clock.fake.epoch_ns.fetch_add(10 * SECOND, Ordering::SeqCst);
        clock.fake.up_ns.fetch_add(2 * ANCHOR_EVERY_NS, Ordering::SeqCst);
        let other = thread::spawn({
            let clock = clock.clone();
            move || clock.now()
        });
        let times = [clock.now(), other.join().unwrap()];
        assert!(times.iter().any(|now| *now >= 11 * SECOND), "one thread has followed it");
        let stats = clock.anchor.stats(&clock.fake, clock.pace);
        assert_eq!(stats.steps, 1);
    });
}
