//! Others take units past the line, by `check`: those who cannot make it any more hear of it when it is known.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{LATE_NS_MAX, ManualClock};

use crate::executor::Executor;
use crate::turn::{Refusal, Turn, turn};
use crate::waiting::line::limits;
use crate::waiting::model::{KEY, after_ms, later, limiter, ms, start};

#[derive(Clone, Copy, Debug)]
enum Comer {
    Waits {
        cost: u64,
        max_wait_ns: Option<u64>,
    },
    /// Takes what is there, before those who are due now are polled or after.
    Steals {
        cost: u64,
        before_polls: bool,
    },
}

fn comer() -> impl Strategy<Value = Comer> {
    let max_wait_ns = prop::option::weighted(0.7, 0..4_000_000_000_u64);
    prop_oneof![
        2 => (0_u64..5, max_wait_ns).prop_map(|(cost, max_wait_ns)| Comer::Waits { cost, max_wait_ns }),
        1 => (1_u64..5, any::<bool>()).prop_map(|(cost, before_polls)| Comer::Steals { cost, before_polls }),
    ]
}

fn gap_ns() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 1 => 0..400_000_000_u64, 1 => Just(u64::MAX)]
}

proptest! {
    #![proptest_config(tidegate_testing::cases(150))]

    /// Nobody is admitted too late, nobody is refused after its time is over, and those who are admitted are so in
    /// order and as the limits allow.
    #[test]
    fn nobody_is_held_past_its_max_wait(
        limits in limits(),
        comers in prop::collection::vec((gap_ns(), comer()), 1..40),
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
                Comer::Steals { cost, before_polls } => {
                    if !before_polls {
                        executor.run_woken();
                    }
                    let _ = limiter.check(KEY, cost);
                }
                Comer::Waits { cost, max_wait_ns } => {
                    executor.run_woken();
                    let task = match max_wait_ns {
                        Some(max_wait_ns) => executor.spawn(turn(limiter.acquire_within(KEY, cost, Duration::from_nanos(max_wait_ns)))),
                        None => executor.spawn(turn(limiter.acquire(KEY, cost))),
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
                Turn::Admitted { waited, .. } => {
                    let due = later(arrived, waited.get());
                    prop_assert!(due <= finished.at && finished.at <= later(due, u128::from(LATE_NS_MAX)));
                    prop_assert!(left <= finished.at);
                    left = finished.at;
                }
                Turn::Refused(Refusal::TooLong { wait: Some(wait) }) => {
                    prop_assert!(wait.get() > u128::from(max_wait_ns.unwrap()));
                }
                Turn::Refused(refusal) => prop_assert_eq!(refusal, Refusal::Never),
            }
        }
        prop_assert_eq!(clock.sleepers(), 0);
    }
}

#[test]
fn those_who_cannot_make_it_any_more_are_refused_when_it_is_known() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1"], &clock);
    assert!(limiter.check(KEY, 1).is_allowed());
    let mut executor = Executor::new(&clock);
    let front = executor.spawn(turn(limiter.acquire(KEY, 1)));
    let tight = executor.spawn(turn(limiter.acquire_within(KEY, 1, ms(2_500))));
    let patient = executor.spawn(turn(limiter.acquire_within(KEY, 1, ms(9_000))));
    executor.run_up_to(after_ms(1_000));
    assert!(limiter.check(KEY, 1).is_allowed());
    executor.run_woken();
    let refused = executor.finished(tight).expect("it is known now");
    assert_eq!(refused.at, after_ms(1_000));
    let Turn::Refused(Refusal::TooLong { wait: Some(wait) }) = refused.output else { panic!("{refused:?}") };
    assert_eq!(wait.get(), 3_000_000_000);
    executor.run();
    assert_eq!(executor.finished(front).unwrap().at, after_ms(2_000));
    assert_eq!(executor.finished(patient).unwrap().at, after_ms(3_000));
}

/// The one in front is itself refused because of the theft. The next in front waits longer than was thought, and so
/// does everybody behind it.
#[test]
fn those_behind_one_that_is_refused_in_front_hear_of_it_too() {
    let clock = ManualClock::default();
    let limiter = limiter(&["{algorithm: fixed_window, limit: 10, per: 1s}"], &clock);
    assert!(limiter.check(KEY, 10).is_allowed());
    let mut executor = Executor::new(&clock);
    let front = executor.spawn(turn(limiter.acquire_within(KEY, 5, ms(1_000))));
    let patient = executor.spawn(turn(limiter.acquire(KEY, 1)));
    let tight = executor.spawn(turn(limiter.acquire_within(KEY, 1, ms(1_200))));
    let second = tidegate::Timestamp::from_nanos(1_000_000_000);
    executor.run_up_to(second);
    assert!(limiter.check(KEY, 10).is_allowed());
    executor.run_woken();
    for task in [front, tight] {
        let refused = executor.finished(task).expect("it is known now");
        assert_eq!(refused.at, second);
        assert!(matches!(refused.output, Turn::Refused(Refusal::TooLong { wait: Some(_) })));
    }
    executor.run();
    assert_eq!(executor.finished(patient).unwrap().at.as_nanos(), 2_000_000_000);
}
