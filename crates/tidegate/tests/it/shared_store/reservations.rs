//! Reservations that are committed, dropped, and dropped late, over memory and over a shared store.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::store::NodeStore;
use tidegate::{Clock as _, Limiter, ManualClock, MemoryStore, Refused, Reservation, StoreError, Timestamp};
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

use super::{KEY, TestStore, expect_ready, limiter, start};

/// What a reservation was charged, and when.
#[derive(Clone, Copy, Debug)]
struct ReservedCharge {
    at: Timestamp,
    cost: u64,
    kept: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve(u64),
    Commit(prop::sample::Index),
    Drop(prop::sample::Index),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1_u64..4).prop_map(Step::Reserve),
        1 => any::<prop::sample::Index>().prop_map(Step::Commit),
        2 => any::<prop::sample::Index>().prop_map(Step::Drop),
        4 => prop_oneof![0_u64..300, 0_u64..1_500].prop_map(Step::Advance),
    ]
}

/// Limits without a bucket: committed charges are counted again by a limiter that never saw the refunded ones.
const WINDOWS: [&[&str]; 5] = [
    &["{algorithm: fixed_window, limit: 4, per: 1s}"],
    &["{algorithm: sliding_log, limit: 4, per: 1s}"],
    &["{algorithm: sliding_window, limit: 5, per: 1s}"],
    &["{algorithm: sub_windows, limit: 5, per: 1s, sub_windows: 4}"],
    &["{algorithm: sliding_log, limit: 3, per: 1s}", "{algorithm: fixed_window, limit: 5, per: 3s}"],
];

/// A bucket: at most B + L * tau / W in any span tau.
const BUCKETS: [(&[&str], u64, u64); 2] =
    [(&["5/s burst 3"], 3, 5), (&["{algorithm: token_bucket, limit: 2, per: 1s, burst: 4}"], 4, 2)];

/// A limiter in memory or over a store, and its open reservations.
enum TestLimiter<'a> {
    Memory(&'a Limiter<ManualClock>, Vec<(usize, Reservation<'a, ManualClock>)>),
    Shared(&'a Limiter<ManualClock, TestStore>, Vec<(usize, Reservation<'a, ManualClock, TestStore>)>),
}

impl TestLimiter<'_> {
    fn reserve(&mut self, cost: u64, number: usize) -> bool {
        let reserved = match self {
            Self::Memory(limiter, open) => {
                limiter.reserve(KEY, cost).map(|reservation| open.push((number, reservation)))
            }
            Self::Shared(limiter, open) => {
                expect_ready(limiter.reserve(KEY, cost)).map(|reservation| open.push((number, reservation)))
            }
        };
        assert!(matches!(reserved, Ok(()) | Err(Refused::OverLimit(_))), "{reserved:?}");
        reserved.is_ok()
    }

    fn open(&self) -> usize {
        match self {
            Self::Memory(_, open) => open.len(),
            Self::Shared(_, open) => open.len(),
        }
    }

    fn commit(&mut self, index: usize) {
        match self {
            Self::Memory(_, open) => open.swap_remove(index).1.commit(),
            Self::Shared(_, open) => open.swap_remove(index).1.commit(),
        }
    }

    fn drop_reservation(&mut self, index: usize) -> usize {
        match self {
            Self::Memory(_, open) => open.swap_remove(index).0,
            Self::Shared(_, open) => open.swap_remove(index).0,
        }
    }
}

/// Runs the steps, and checks all kept charges whenever one is admitted.
fn run_steps(
    limiter: &mut TestLimiter<'_>,
    clock: &ManualClock,
    steps: &[Step],
    mut check: impl FnMut(&[ReservedCharge]) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut all: Vec<ReservedCharge> = Vec::new();
    for step in steps {
        match *step {
            Step::Reserve(cost) => {
                if limiter.reserve(cost, all.len()) {
                    all.push(ReservedCharge { at: clock.now(), cost, kept: true });
                    let charges: Vec<ReservedCharge> =
                        all.iter().filter(|charge| charge.kept).copied().collect();
                    check(&charges)?;
                }
            }
            Step::Commit(index) if limiter.open() > 0 => limiter.commit(index.index(limiter.open())),
            Step::Drop(index) if limiter.open() > 0 => {
                let number = limiter.drop_reservation(index.index(limiter.open()));
                all[number].kept = false;
            }
            Step::Advance(ms) => clock.advance(Duration::from_millis(ms)),
            Step::Commit(_) | Step::Drop(_) => {}
        }
    }
    Ok(())
}

/// The same steps in memory and over a store.
fn run_steps_on_both(
    limits: &[&str],
    steps: &[Step],
    mut check: impl FnMut(&[ReservedCharge]) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let clock = ManualClock::at(start());
    let builder = Limiter::builder().clock(clock.clone());
    let memory = limits.iter().fold(builder, |builder, limit| builder.limit(*limit)).build().unwrap();
    run_steps(&mut TestLimiter::Memory(&memory, Vec::new()), &clock, steps, &mut check)?;
    let clock = ManualClock::at(start());
    let remote = FakeStore::new(clock.clone());
    let shared = limiter(limits, &remote, &clock);
    run_steps(&mut TestLimiter::Shared(&shared, Vec::new()), &clock, steps, &mut check)
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(200))]

    #[test]
    fn dropped_reservations_never_add_capacity(
        limits in (0..WINDOWS.len()).prop_map(|index| WINDOWS[index]),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        run_steps_on_both(limits, &steps, |charges| {
            let builder = Limiter::builder().clock(ManualClock::at(start()));
            let plain = limits.iter().fold(builder, |builder, limit| builder.limit(*limit)).build().unwrap();
            for charge in charges {
                prop_assert!(plain.check_at(KEY, charge.cost, charge.at).is_allowed(), "{charge:?} of {charges:?}");
            }
            Ok(())
        })?;
    }

    /// A window that a dropped reservation began stays where it is, so the bound is what two windows in a row admit.
    #[test]
    fn request_aligned_windows_admit_at_most_two_limits(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        run_steps_on_both(&["{algorithm: fixed_window, limit: 4, per: 1s, align: first_hit}"], &steps, |charges| {
            for to in charges {
                let within = |charge: &&ReservedCharge| charge.at <= to.at && to.at.as_nanos() - charge.at.as_nanos() < 1_000_000_000;
                prop_assert!(charges.iter().filter(within).map(|charge| charge.cost).sum::<u64>() <= 8, "{charges:?}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_bucket_never_admits_more_than_its_burst_and_its_rate(
        bucket in (0..BUCKETS.len()).prop_map(|index| BUCKETS[index]),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (limits, burst, per_second) = bucket;
        run_steps_on_both(limits, &steps, |charges| {
            for (first, from) in charges.iter().enumerate() {
                let mut units = 0;
                for to in &charges[first..] {
                    units += u128::from(to.cost);
                    let span_ns = u128::from(to.at.as_nanos() - from.at.as_nanos());
                    let most = u128::from(burst) * 1_000_000_000 + u128::from(per_second) * span_ns;
                    prop_assert!(units * 1_000_000_000 <= most, "{units} in {span_ns} ns: {charges:?}");
                }
            }
            Ok(())
        })?;
    }
}

#[test]
fn a_late_drop_refunds_nothing_to_a_later_window() {
    for limit in
        ["{algorithm: fixed_window, limit: 2, per: 1s}", "{algorithm: sliding_log, limit: 2, per: 1s}"]
    {
        let clock = ManualClock::at(start());
        let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap();
        let late = limiter.reserve(KEY, 1).unwrap();
        clock.advance(Duration::from_secs(5));
        assert!(limiter.check(KEY, 2).is_allowed());
        drop(late);
        assert!(!limiter.check(KEY, 1).is_allowed(), "a third unit in {limit}");
    }
}

#[test]
fn a_dropped_reservation_releases_its_lease_and_a_commit_keeps_it() {
    let clock = ManualClock::at(start());
    let remote = FakeStore::new(clock.clone());
    let limiter = limiter(&["{algorithm: concurrency, limit: 1, ttl: 1m}", "10 per hour"], &remote, &clock);
    drop(expect_ready(limiter.reserve(KEY, 1)).unwrap());
    assert_eq!(expect_ready(limiter.peek(KEY, 0)).unwrap().remaining, 1);
    let reservation = expect_ready(limiter.reserve(KEY, 1)).unwrap();
    assert_eq!(reservation.decision().remaining, 0);
    reservation.commit();
    assert!(expect_ready(limiter.reserve(KEY, 1)).is_err());
    clock.advance(Duration::from_secs(60));
    assert!(expect_ready(limiter.reserve(KEY, 1)).is_ok());
}

#[test]
fn charges_made_without_the_store_are_not_refunded_to_it() {
    let clock = ManualClock::at(start());
    let remote = FakeStore::new(clock.clone());
    let limiter = limiter(&["{algorithm: sliding_log, limit: 2, per: 1h}"], &remote, &clock);
    assert!(expect_ready(limiter.check(KEY, 2)).is_allowed());
    remote.set_behavior(StoreBehavior::Fail(StoreError::BreakerOpen));
    let degraded = expect_ready(limiter.reserve(KEY, 1)).unwrap();
    assert!(degraded.decision().degraded);
    remote.set_behavior(StoreBehavior::Reply);
    drop(degraded);
    assert!(!expect_ready(limiter.check(KEY, 1)).is_allowed());
}

#[test]
fn a_call_dropped_before_its_first_poll_is_undone() {
    let clock = ManualClock::at(start());
    let node = || NodeStore::Local(Arc::new(MemoryStore::bounded(1 << 20)));
    let slots = Limiter::builder().store(node()).clock(clock.clone());
    let slots = slots.limit("{algorithm: concurrency, limit: 1, ttl: 1m}").build().unwrap();
    drop(slots.try_acquire(KEY, 1));
    assert!(expect_ready(slots.try_acquire(KEY, 1)).is_ok());
    let rate = Limiter::builder().store(node()).clock(clock).limit("1/m burst 1").build().unwrap();
    drop(rate.reserve(KEY, 1));
    assert!(expect_ready(rate.reserve(KEY, 1)).is_ok());
}
