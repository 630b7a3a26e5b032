//! Others take units past the line, by `check`: those who cannot make it any more hear of it when it is known.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{LATE_NS_MAX, ManualClock};

use crate::executor::Executor;
use crate::wait_result::{Refusal, WaitResult, wait_result};
use crate::waiting::order::limits;
use crate::waiting::model::{KEY, after_ms, later, limiter, ms, start};

#[derive(Clone, Copy, Debug)]
enum Arrival {
    Waits {
        cost: u64,
        max_wait_ns: Option<u64>,
    },
    /// Takes what is there, before those who are due now are polled or after.
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

    /// Nobody is admitted too late, nobody is refused after its time is over, and those who are admitted are so in
    /// order and as the limits allow.
    #[test]
    fn no_request_waits_longer_than_its_max_wait(
        limits in limits(),
        comers in prop::collection::vec((gap_ns(), arrival()), 1..40),
    ) {
        let clock = ManualClock::at(start());
        let limiter = limiter(&limits, &clock);
        let mut executor = Executor::new(&clock);
        let mut now = start();
        let mut tasks = Vec::new();
        for (gap_ns, comer) in comers {
            executor.run_woken();
            // The instant at which the one in front is due is where a thief does most harm.
            let next = clock.next_wake().filter(|_| gap_ns == u64::MAX);
            now = next.unwrap_or_else(|| later(now, u128::from(gap_ns % 1_000_000_000)));
            executor.run_up_to(now);
            match comer {
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
    let front = executor.spawn(wait_result(limiter.acquire(KEY, 1)));
    let tight = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(2_500))));
    let patient = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(9_000))));
    executor.run_up_to(after_ms(1_000));
    assert!(limiter.check(KEY, 1).is_allowed());
    executor.run_woken();
    let refused = executor.finished(tight).expect("it is known now");
    assert_eq!(refused.at, after_ms(1_000));
    let WaitResult::Refused(Refusal::TooLong { wait: Some(wait) }) = refused.output else { panic!("{refused:?}") };
    assert_eq!(wait.get(), 3_000_000_000);
    executor.run();
    assert_eq!(executor.finished(front).unwrap().at, after_ms(2_000));
    assert_eq!(executor.finished(patient).unwrap().at, after_ms(3_000));
}

/// The one in front is itself refused because of the theft. The next in front waits longer than was thought, and so
/// does everybody behind it.
#[test]
fn waiters_behind_a_refused_head_are_refused_too() {
    let clock = ManualClock::default();
    let limiter = limiter(&["{algorithm: fixed_window, limit: 10, per: 1s}"], &clock);
    assert!(limiter.check(KEY, 10).is_allowed());
    let mut executor = Executor::new(&clock);
    let front = executor.spawn(wait_result(limiter.acquire_within(KEY, 5, ms(1_000))));
    let patient = executor.spawn(wait_result(limiter.acquire(KEY, 1)));
    let tight = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(1_200))));
    let second = tidegate::Timestamp::from_nanos(1_000_000_000);
    executor.run_up_to(second);
    assert!(limiter.check(KEY, 10).is_allowed());
    executor.run_woken();
    for task in [front, tight] {
        let refused = executor.finished(task).expect("it is known now");
        assert_eq!(refused.at, second);
        assert!(matches!(refused.output, WaitResult::Refused(Refusal::TooLong { wait: Some(_) })));
    }
    executor.run();
    assert_eq!(executor.finished(patient).unwrap().at.as_nanos(), 2_000_000_000);
}
