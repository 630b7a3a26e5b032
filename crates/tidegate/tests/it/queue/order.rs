//! First come, first served, at the release rate of the limit.

use proptest::prelude::*;
use tidegate::{Limiter, ManualClock};

use super::model::{KEY, LIMITS, Model, after_ms, later, limiter, remaining, start};
use crate::executor::Executor;
use crate::wait_result::{Refusal, WaitResult, wait_result};

#[test]
fn ten_thousand_wait_for_one_key_in_order_a_millisecond_apart() {
    const WAITERS: usize = 10_000;
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1000/s burst 1"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..WAITERS).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
    executor.run();
    assert_eq!(executor.completion_order(), tasks);
    for (number, task) in tasks.iter().enumerate() {
        let finished = executor.finished(*task).unwrap();
        let WaitResult::Admitted { waited, .. } = finished.output else { panic!("{number}: {finished:?}") };
        assert_eq!(finished.at, after_ms(number as u64), "{number}");
        assert_eq!(waited.get(), number as u128 * 1_000_000, "{number}");
        // Polled when it arrives, when it is the head, and when it is due.
        assert!(executor.polls(*task) <= 3, "{number} was polled {} times", executor.polls(*task));
    }
    assert!(executor.total_polls() <= 3 * WAITERS);
    assert_eq!(executor.sleepers_max, 1);
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn of_ten_thousand_with_a_max_wait_five_thousand_are_admitted() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1000/s burst 1"], &clock);
    let mut executor = Executor::new(&clock);
    let delay =
        |_| executor.spawn(wait_result(limiter.acquire_within(KEY, 1, std::time::Duration::from_secs(5))));
    let tasks: Vec<_> = (0..10_000).map(delay).collect();
    executor.run();
    for (number, task) in tasks.iter().enumerate() {
        let finished = executor.finished(*task).unwrap();
        if number <= 5_000 {
            assert!(finished.output.is_admitted(), "{number}");
            assert_eq!(finished.at, after_ms(number as u64), "{number}");
        } else {
            let wait = Some(tidegate::Nanos::new(5_001_000_000));
            assert_eq!(finished.output, WaitResult::Refused(Refusal::TooLong { wait }), "{number}");
            assert_eq!(finished.at, start(), "{number}");
        }
    }
    assert_eq!(executor.sleepers_max, 1);
}

/// Requests as they arrive: how long after the one before, in milliseconds and odd nanoseconds, and their cost.
fn requests() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap_ns = prop_oneof![Just(0), 0..1_000_000_u64, 0..600_000_000_u64, Just(2_500_000_000)];
    prop::collection::vec((gap_ns, 0_u64..5), 1..40)
}

/// One limit, or two together.
pub fn limits() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(0..LIMITS.len(), 1..3)
        .prop_map(|indexes| indexes.into_iter().map(|index| LIMITS[index]).collect())
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(100))]

    #[test]
    fn each_waiter_leaves_at_the_first_instant_after_its_predecessor(
        limits in limits(),
        requests in requests(),
    ) {
        let clock = ManualClock::at(start());
        let limiter = limiter(&limits, &clock);
        let mut executor = Executor::new(&clock);
        let mut model = Model::new(&limits);
        let mut expected = Vec::new();
        let mut now = start();
        for (gap_ns, cost) in requests {
            now = later(now, u128::from(gap_ns));
            executor.run_until(now);
            let task = executor.spawn(wait_result(limiter.acquire(KEY, cost)));
            executor.run_woken();
            expected.push((task, now, model.admit(now, cost)));
        }
        executor.run();
        for (task, arrived, leaves) in &expected {
            let finished = executor.finished(*task).unwrap();
            match (finished.output, leaves) {
                (WaitResult::Admitted { waited, .. }, Some(leaves)) => {
                    prop_assert_eq!(finished.at, *leaves);
                    prop_assert_eq!(later(*arrived, waited.get()), *leaves);
                }
                (WaitResult::Refused(refusal), None) => {
                    prop_assert_eq!(refusal, Refusal::Never);
                    prop_assert_eq!(finished.at, *arrived);
                }
                (output, leaves) => prop_assert!(false, "{output:?} instead of {leaves:?}"),
            }
        }
        let admitted = executor.completion_order().iter().filter(|task| executor.finished(**task).unwrap().output.is_admitted());
        let in_order: Vec<_> = expected.iter().filter(|(_, _, leaves)| leaves.is_some()).map(|(task, _, _)| task).collect();
        prop_assert_eq!(admitted.collect::<Vec<_>>(), in_order);
        // Polled when it arrives, when it is the head, when it is due, and when its delay is over.
        prop_assert!(executor.total_polls() <= 4 * expected.len());
        prop_assert!(executor.sleepers_max <= 1);
        prop_assert_eq!(clock.sleepers(), 0);
        let end = model.left.max(now);
        prop_assert_eq!(remaining(&limiter, end), model.remaining(end));
    }
}

#[test]
fn keys_have_separate_queues() {
    let clock = ManualClock::at(start());
    let limiter: Limiter<_> = limiter(&["1/s burst 1"], &clock);
    let mut executor = Executor::new(&clock);
    let (one, other) = ("one", "other");
    let of_one: Vec<_> = (0..5).map(|_| executor.spawn(wait_result(limiter.acquire(one, 1)))).collect();
    let of_other: Vec<_> = (0..2).map(|_| executor.spawn(wait_result(limiter.acquire(other, 1)))).collect();
    executor.run();
    for (tasks, name) in [(of_one, one), (of_other, other)] {
        for (number, task) in tasks.iter().enumerate() {
            assert_eq!(executor.finished(*task).unwrap().at, after_ms(1_000 * number as u64), "{name}");
        }
    }
    // One timer each.
    assert_eq!(executor.sleepers_max, 2);
}
