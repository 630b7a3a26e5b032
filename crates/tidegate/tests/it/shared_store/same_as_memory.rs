//! The same calls over memory and over a shared store, with the same results.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Admitted, Decision, Limiter, ManualClock, Refused, Release, Renewal};
use tidegate_testing::fake_store::FakeStore;

use super::{KEY, TestStore, expect_ready, limiter, start};

#[derive(Clone, Copy, Debug)]
enum Step {
    Check(u64),
    Peek(u64),
    Reset,
    Acquire(u64),
    Reserve(u64, bool),
    Renew(prop::sample::Index),
    Release(prop::sample::Index),
    Drop(prop::sample::Index),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    use Step::{Acquire, Advance, Check, Drop, Peek, Release, Renew, Reserve, Reset};
    prop_oneof![
        4 => (0_u64..4).prop_map(Check),
        2 => (0_u64..4).prop_map(Peek),
        1 => Just(Reset),
        4 => (0_u64..3).prop_map(Acquire),
        2 => (0_u64..3, any::<bool>()).prop_map(|(cost, commits)| Reserve(cost, commits)),
        1 => any::<prop::sample::Index>().prop_map(Renew),
        1 => any::<prop::sample::Index>().prop_map(Release),
        1 => any::<prop::sample::Index>().prop_map(Drop),
        4 => (0_u64..1_500).prop_map(Advance),
    ]
}

const LIMITS: [&[&str]; 6] = [
    &["5/s burst 3"],
    &["{algorithm: sliding_log, limit: 4, per: 1s}"],
    &["{algorithm: fixed_window, limit: 4, per: 1s}", "10 per minute"],
    &["{algorithm: sub_windows, limit: 4, per: 1s, sub_windows: 5}"],
    &["{algorithm: concurrency, limit: 3, ttl: 2s}"],
    &["{algorithm: concurrency, limit: 2, ttl: 2s}", "{algorithm: sliding_window, limit: 6, per: 3s}"],
];

type AdmittedPair<'a> = (Admitted<'a, ManualClock>, Admitted<'a, ManualClock, TestStore>);

fn assert_same(one: &Result<(), Refused>, other: &Result<(), Refused>) -> Result<(), TestCaseError> {
    prop_assert_eq!(one, other);
    Ok(())
}

fn renewal(renewal: Renewal) -> &'static str {
    renewal.as_str()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(200))]

    #[test]
    fn a_shared_limiter_decides_as_one_in_memory(
        limits in (0..LIMITS.len()).prop_map(|index| LIMITS[index]),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let clock = ManualClock::at(start());
        let remote = FakeStore::new(clock.clone());
        let shared = limiter(limits, &remote, &clock);
        let builder = Limiter::builder().clock(clock.clone());
        let memory = limits.iter().fold(builder, |builder, limit| builder.limit(*limit)).build().unwrap();
        let mut admitted_pairs: Vec<AdmittedPair<'_>> = Vec::new();
        for step in steps {
            match step {
                Step::Check(cost) => {
                    let decisions: [Decision; 2] = [memory.check(KEY, cost), expect_ready(shared.check(KEY, cost))];
                    prop_assert_eq!(decisions[0], decisions[1]);
                }
                Step::Peek(cost) => {
                    prop_assert_eq!(memory.peek(KEY, cost), expect_ready(shared.peek(KEY, cost)).unwrap());
                }
                Step::Reset => {
                    memory.reset(KEY);
                    expect_ready(shared.reset(KEY)).unwrap();
                }
                Step::Acquire(cost) => {
                    match (memory.try_acquire(KEY, cost), expect_ready(shared.try_acquire(KEY, cost))) {
                        (Ok(one), Ok(other)) => {
                            prop_assert_eq!(one.decision(), other.decision());
                            let ends = |lease: &tidegate::Lease| lease.expires;
                            prop_assert_eq!(one.lease().map(ends), other.lease().map(ends));
                            admitted_pairs.push((one, other));
                        }
                        (one, other) => { assert_same(&one.map(drop), &other.map(drop))?; }
                    }
                }
                Step::Reserve(cost, commits) => {
                    match (memory.reserve(KEY, cost), expect_ready(shared.reserve(KEY, cost))) {
                        (Ok(one), Ok(other)) if commits => {
                            prop_assert_eq!(one.decision(), other.decision());
                            one.commit();
                            other.commit();
                        }
                        (one, other) => { assert_same(&one.map(drop), &other.map(drop))?; }
                    }
                }
                Step::Renew(index) if !admitted_pairs.is_empty() => {
                    let index = index.index(admitted_pairs.len());
                    let (one, other) = &mut admitted_pairs[index];
                    prop_assert_eq!(renewal(one.renew()), renewal(expect_ready(other.renew()).unwrap()));
                }
                Step::Release(index) if !admitted_pairs.is_empty() => {
                    let (one, other) = admitted_pairs.swap_remove(index.index(admitted_pairs.len()));
                    let released: [Release; 2] = [one.release(), expect_ready(other.release()).unwrap()];
                    prop_assert_eq!(released[0], released[1]);
                }
                Step::Drop(index) if !admitted_pairs.is_empty() => drop(admitted_pairs.swap_remove(index.index(admitted_pairs.len()))),
                Step::Advance(ms) => clock.advance(Duration::from_millis(ms)),
                Step::Renew(_) | Step::Release(_) | Step::Drop(_) => {}
            }
        }
    }
}

#[test]
fn limits_can_change_over_a_shared_store() {
    let clock = ManualClock::at(start());
    let remote = FakeStore::new(clock.clone());
    let old = limiter(&["{algorithm: sliding_log, limit: 5, per: 1m}"], &remote, &clock);
    assert!(expect_ready(old.check(KEY, 5)).is_allowed());
    let new = old.with_limits(["100/s"]).unwrap();
    assert!(!expect_ready(new.check(KEY, 1)).is_allowed(), "the old limit is enforced beside the new one");
    clock.advance(Duration::from_secs(60));
    assert!(expect_ready(new.check(KEY, 50)).is_allowed());
}

#[test]
fn a_wait_over_a_shared_store_ends_when_units_are_there() {
    let clock = ManualClock::at(start());
    let remote = FakeStore::new(clock.clone());
    let limiter = limiter(&["1/s burst 1"], &remote, &clock);
    assert!(expect_ready(limiter.acquire(KEY, 1)).unwrap().waited().is_zero());
    let refused = expect_ready(limiter.acquire_within(KEY, 1, Duration::from_millis(500))).unwrap_err();
    assert_eq!(refused, Refused::TooLong { wait: Some(Duration::from_secs(1).into()) });
    assert_eq!(expect_ready(limiter.acquire(KEY, 2)).unwrap_err(), Refused::Never);

    let mut executor = crate::executor::Executor::new(&clock);
    let task = executor.spawn(limiter.acquire(KEY, 1));
    executor.run();
    let admitted = executor.take(task).unwrap().unwrap();
    assert_eq!(admitted.waited(), Duration::from_secs(1));
}

/// The head is admitted and waits only for its delay, so the shortest wait of a request behind it is known.
#[test]
fn a_short_wait_behind_a_delayed_request_is_refused_immediately() {
    let clock = ManualClock::at(start());
    let remote = FakeStore::new(clock.clone());
    let limiter = limiter(&["{algorithm: leaky_bucket, limit: 1, per: 10s, queue: 9}"], &remote, &clock);
    assert!(expect_ready(limiter.check(KEY, 1)).is_allowed());
    let mut executor = crate::executor::Executor::new(&clock);
    let delayed = executor.spawn(limiter.acquire(KEY, 1));
    executor.run_woken();
    assert!(executor.finished(delayed).is_none());
    let behind = executor.spawn(limiter.acquire_within(KEY, 1, Duration::from_secs(1)));
    executor.run_woken();
    let refused = executor.take(behind).expect("it is known immediately").unwrap_err();
    assert!(matches!(refused, Refused::TooLong { .. }), "{refused}");
}
