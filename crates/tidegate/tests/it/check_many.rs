//! `Limiter::check_many`: the same decisions as one `check` after the other.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate::{Clock, Limiter, ManualClock, Timestamp};

const START_NS: u64 = 1_750_000_000_123_456_789;

const LIMITS: [&[&str]; 8] = [
    &["{algorithm: gcra, limit: 7, per: 1s, burst: 12}"],
    &["{algorithm: token_bucket, limit: 3, per: 1s}"],
    &["{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 5}"],
    &["{algorithm: fixed_window, limit: 9, per: 1s}"],
    &["{algorithm: sliding_window, limit: 9, per: 1s}"],
    &["{algorithm: sliding_log, limit: 8, per: 1s}"],
    &["{algorithm: concurrency, limit: 9, ttl: 300ms}"],
    &["{algorithm: gcra, limit: 7, per: 1s}", "{algorithm: fixed_window, limit: 20, per: 10s}"],
];

fn limiter(limits: &[&str]) -> Limiter<ManualClock> {
    let builder = Limiter::builder().clock(ManualClock::at(Timestamp::from_nanos(START_NS)));
    limits.iter().fold(builder, |builder, limit| builder.limit(*limit)).build().unwrap()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(400))]

    /// With new and known keys, keys that repeat within a batch, batches of any length, and time that steps back.
    #[test]
    fn it_decides_as_one_check_after_the_other(
        limits in select(LIMITS.to_vec()),
        batches in vec((-100_000_000..900_000_000_i64, vec(0..12_u8, 0..50), select(vec![0_u64, 1, 1, 1, 3])), 1..12),
    ) {
        let (many, one_by_one) = (limiter(limits), limiter(limits));
        let mut now_ns = START_NS;
        // A store may drop logs and leases when they are over. After a step back they would still count in a store that has
        // not dropped them, and which one has depends on its random seed.
        let is_dropped_early = limits.iter().any(|limit| limit.contains("log") || limit.contains("concurrency"));
        let step_ns_min = if is_dropped_early { 0 } else { i64::MIN };
        for (step_ns, keys, cost) in batches {
            now_ns = now_ns.saturating_add_signed(step_ns.max(step_ns_min));
            let now = Timestamp::from_nanos(now_ns);
            let decisions = many.check_many_at(&keys, cost, now);
            let expected: Vec<_> = keys.iter().map(|key| one_by_one.check_at(key, cost, now)).collect();
            prop_assert_eq!(decisions, expected);
        }
    }
}

/// A limit that changed is enforced beside its successor.
#[test]
fn it_enforces_superseded_limits() {
    let before = limiter(&["{algorithm: fixed_window, limit: 3, per: 1h}"]);
    let allowed = |limiter: &Limiter<ManualClock>| {
        limiter.check_many(&["a"; 5], 1).iter().filter(|decision| decision.is_allowed()).count()
    };
    assert_eq!(allowed(&before), 3);
    let after = before.with_limits(["{algorithm: gcra, limit: 100, per: 1h}"]).unwrap();
    assert_eq!(allowed(&after), 0);
}

/// A clock that moves by a second whenever it is read.
struct MovingClock(AtomicU64);

impl Clock for MovingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(START_NS + self.0.fetch_add(1, Ordering::Relaxed) * 1_000_000_000)
    }
}

#[test]
fn it_reads_the_clock_once() {
    let clock = MovingClock(AtomicU64::new(0));
    let limiter =
        Limiter::builder().clock(clock).limit("{algorithm: gcra, limit: 1, per: 1s}").build().unwrap();
    let decisions = limiter.check_many(&["a"; 20], 1);
    assert_eq!(decisions.iter().filter(|decision| decision.is_allowed()).count(), 1);
}
