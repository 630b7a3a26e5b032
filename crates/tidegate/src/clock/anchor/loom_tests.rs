//! Readers and anchors under loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p tidegate --features rules --lib --target-dir target/loom -- loom_tests`

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::check_interleavings;

const SECOND: u64 = 1_000_000_000;

/// A machine on which each reading takes a third of an anchor's interval.
struct LoomMachine {
    up_ns: AtomicU64,
    epoch_ns: AtomicU64,
}

struct LoomClock {
    anchor: Anchor,
    pace: CounterRate,
    fake: LoomMachine,
}

impl ClockSource for LoomMachine {
    fn count(&self) -> u64 {
        self.up_ns.fetch_add(ANCHOR_EVERY_NS / 3, Ordering::SeqCst)
    }

    fn wall_ns(&self) -> u64 {
        self.up_ns.load(Ordering::SeqCst) + self.epoch_ns.load(Ordering::SeqCst)
    }
}

impl LoomClock {
    fn new() -> Arc<Self> {
        let fake = LoomMachine { up_ns: AtomicU64::new(0), epoch_ns: AtomicU64::new(SECOND) };
        let fixture = Self { anchor: Anchor::new(), pace: CounterRate::new(1 << 32), fake };
        fixture.anchor.start(&fixture.fake, &fixture.pace);
        Arc::new(fixture)
    }

    fn now(&self) -> u64 {
        self.anchor.now(&self.fake, &self.pace)
    }

    /// Reads the clock. Checks that it is not earlier than a time that another thread has shared.
    fn now_after(&self, shared_ns: &AtomicU64) -> u64 {
        let before = shared_ns.load(Ordering::Acquire);
        let now = self.now();
        assert!(now >= before, "{} ns back", before - now);
        now
    }
}

#[test]
fn times_passed_between_threads_never_go_back() {
    check_interleavings(3, || {
        let (clock, shared_ns) = (LoomClock::new(), Arc::new(AtomicU64::new(0)));
        let reader = thread::spawn({
            let (clock, shared_ns) = (clock.clone(), shared_ns.clone());
            move || {
                let first = clock.now_after(&shared_ns);
                assert!(clock.now_after(&shared_ns) >= first);
            }
        });
        for _ in 0..4 {
            shared_ns.store(clock.now(), Ordering::Release);
        }
        reader.join().unwrap();
        clock.now_after(&shared_ns);
    });
}

#[test]
fn a_step_is_counted_once_by_two_threads() {
    check_interleavings(3, || {
        let clock = LoomClock::new();
        clock.fake.epoch_ns.fetch_add(10 * SECOND, Ordering::SeqCst);
        clock.fake.up_ns.fetch_add(2 * ANCHOR_EVERY_NS, Ordering::SeqCst);
        let other = thread::spawn({
            let clock = clock.clone();
            move || clock.now()
        });
        let times = [clock.now(), other.join().unwrap()];
        assert!(times.iter().any(|now| *now >= 11 * SECOND), "one thread has followed it");
        let stats = clock.anchor.stats(&clock.fake, &clock.pace);
        assert_eq!(stats.steps, 1);
    });
}
