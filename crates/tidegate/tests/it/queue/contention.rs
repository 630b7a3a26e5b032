//! Other requests take units by `check` although requests wait: waiters that are too late are refused as soon as that
//! is known.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{LATE_NS_MAX, ManualClock};

use super::model::{KEY, after_ms, later, limiter, ms, start};
use super::order::limits;
use crate::executor::Executor;
use crate::wait_result::{Refusal, WaitResult, wait_result};

#[derive(Clone, Copy, Debug)]
enum Arrival {
    Waits {
        cost: u64,
        max_wait_ns: Option<u64>,
    },
    /// Takes the available units, before or after the due waiters are polled.
    Checks {
        cost: u64,
        before_polls: bool,
    },
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let max_wait_ns = prop::option::weighted(0.7, 0..4_000_000_000_u64);
    prop_oneof![
        2 => (0_u64..5, max_wait_ns).prop_map(|(cost, max_wait_ns)| Arrival::Waits { cost, max_wait_ns }),
        1 => (1_u64..5, any::<bool>()).prop_map(|(cost, before_polls)| Arrival::Checks { cost, before_polls }),
    ]
}

fn gap_ns() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 1 => 0..400_000_000_u64, 1 => Just(u64::MAX)]
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(150))]

    /// No request is admitted too late, none is refused after its deadline, and admissions are in order and within the
    /// limits.
    #[test]
    fn no_request_waits_longer_than_its_max_wait(
        limits in limits(),
        arrivals in prop::collection::vec((gap_ns(), arrival()), 1..40),
    ) {
        let clock = ManualClock::at(start());
        let limiter = limiter(&limits, &clock);
        let mut executor = Executor::new(&clock);
        let mut now = start();
        let mut tasks = Vec::new();
        for (gap_ns, arrival) in arrivals {
            executor.run_woken();
            // Taking units does most harm at the instant at which the head is due.
            let next = clock.next_wake().filter(|_| gap_ns == u64::MAX);
            now = next.unwrap_or_else(|| later(now, u128::from(gap_ns % 1_000_000_000)));
            executor.run_up_to(now);
            match arrival {
                Arrival::Checks { cost, before_polls } => {
                    if !before_polls {
                        executor.run_woken();
                    }
                    let _ = limiter.check(KEY, cost);
                }
                Arrival::Waits { cost, max_wait_ns } => {
                    executor.run_woken();
                    let task = match max_wait_ns {
                        Some(max_wait_ns) => executor.spawn(wait_result(limiter.acquire_within(KEY, cost, Duration::from_nanos(max_wait_ns)))),
                        None => executor.spawn(wait_result(limiter.acquire(KEY, cost))),
                    };
                    tasks.push((now, max_wait_ns, task));
                }
            }
            executor.run_woken();
        }
        executor.run();
        let mut left = start();
        for (arrived, max_wait_ns, task) in tasks {
            let finished = executor.finished(task).unwrap();
            let deadline = max_wait_ns.map(|max_wait_ns| later(arrived, u128::from(max_wait_ns)));
            prop_assert!(deadline.is_none_or(|deadline| finished.at <= deadline), "{finished:?} after {deadline:?}");
            match finished.output {
                WaitResult::Admitted { waited, .. } => {
                    let due = later(arrived, waited.get());
                    prop_assert!(due <= finished.at && finished.at <= later(due, u128::from(LATE_NS_MAX)));
                    prop_assert!(left <= finished.at);
                    left = finished.at;
                }
                WaitResult::Refused(Refusal::TooLong { wait: Some(wait) }) => {
                    prop_assert!(wait.get() > u128::from(max_wait_ns.unwrap()));
                }
                WaitResult::Refused(refusal) => prop_assert_eq!(refusal, Refusal::Never),
            }
        }
        prop_assert_eq!(clock.sleepers(), 0);
    }
}

#[test]
fn waiters_are_refused_when_they_become_too_late() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1"], &clock);
    assert!(limiter.check(KEY, 1).is_allowed());
    let mut executor = Executor::new(&clock);
    let head = executor.spawn(wait_result(limiter.acquire(KEY, 1)));
    let short_wait = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(2_500))));
    let long_wait = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(9_000))));
    executor.run_up_to(after_ms(1_000));
    assert!(limiter.check(KEY, 1).is_allowed());
    executor.run_woken();
    let refused = executor.finished(short_wait).expect("it is known now");
    assert_eq!(refused.at, after_ms(1_000));
    let WaitResult::Refused(Refusal::TooLong { wait: Some(wait) }) = refused.output else {
        panic!("{refused:?}")
    };
    assert_eq!(wait.get(), 3_000_000_000);
    executor.run();
    assert_eq!(executor.finished(head).unwrap().at, after_ms(2_000));
    assert_eq!(executor.finished(long_wait).unwrap().at, after_ms(3_000));
}

/// The head itself is refused because its units were taken. The next head waits longer than forecast, and so do all
/// behind it.
#[test]
fn waiters_behind_a_refused_head_are_refused_too() {
    let clock = ManualClock::default();
    let limiter = limiter(&["{algorithm: fixed_window, limit: 10, per: 1s}"], &clock);
    assert!(limiter.check(KEY, 10).is_allowed());
    let mut executor = Executor::new(&clock);
    let head = executor.spawn(wait_result(limiter.acquire_within(KEY, 5, ms(1_000))));
    let long_wait = executor.spawn(wait_result(limiter.acquire(KEY, 1)));
    let short_wait = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(1_200))));
    let second = tidegate::Timestamp::from_nanos(1_000_000_000);
    executor.run_up_to(second);
    assert!(limiter.check(KEY, 10).is_allowed());
    executor.run_woken();
    for task in [head, short_wait] {
        let refused = executor.finished(task).expect("it is known now");
        assert_eq!(refused.at, second);
        assert!(matches!(refused.output, WaitResult::Refused(Refusal::TooLong { wait: Some(_) })));
    }
    executor.run();
    assert_eq!(executor.finished(long_wait).unwrap().at.as_nanos(), 2_000_000_000);
}
