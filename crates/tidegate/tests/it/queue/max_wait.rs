//! Requests with a maximum wait.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{ManualClock, Nanos, Timestamp};

use super::model::{KEY, Model, after_ms, later, limiter, ms, start};
use super::order::limits;
use crate::executor::{Executor, Task, TaskOutput};
use crate::wait_result::{Refusal, WaitResult, wait_result};

/// A request: how long after the one before, its cost, and its maximum wait.
#[derive(Clone, Copy, Debug)]
struct PlannedRequest {
    gap_ns: u64,
    cost: u64,
    max_wait_ns: Option<u64>,
}

fn planned(max_wait: impl Strategy<Value = Option<u64>>) -> impl Strategy<Value = PlannedRequest> {
    let gap_ns = prop_oneof![2 => Just(0), 1 => 0..1_000_000_u64, 2 => 0..400_000_000_u64];
    (gap_ns, 0_u64..5, max_wait).prop_map(|(gap_ns, cost, max_wait_ns)| PlannedRequest {
        gap_ns,
        cost,
        max_wait_ns,
    })
}

fn some_max_wait() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..3_000_000_000_u64, (0..5_u64).prop_map(|seconds| seconds * 1_000_000_000)]
}

/// How each request ended, and when it arrived.
fn run_requests(limits: &[&str], planned: &[PlannedRequest]) -> Vec<(Timestamp, TaskOutput<WaitResult>)> {
    let clock = ManualClock::at(start());
    let limiter = limiter(limits, &clock);
    let mut executor = Executor::new(&clock);
    let mut now = start();
    let mut arrived_tasks: Vec<(Timestamp, Task)> = Vec::new();
    for one in planned {
        now = later(now, u128::from(one.gap_ns));
        executor.run_until(now);
        let task = match one.max_wait_ns {
            Some(max_wait_ns) => executor.spawn(wait_result(limiter.acquire_within(
                KEY,
                one.cost,
                Duration::from_nanos(max_wait_ns),
            ))),
            None => executor.spawn(wait_result(limiter.acquire(KEY, one.cost))),
        };
        executor.run_woken();
        arrived_tasks.push((now, task));
    }
    executor.run();
    assert!(executor.sleepers_max <= 1);
    arrived_tasks.into_iter().map(|(arrived, task)| (arrived, *executor.finished(task).unwrap())).collect()
}

fn waited(result: WaitResult) -> Option<u64> {
    match result {
        WaitResult::Admitted { waited, .. } => Some(u64::try_from(waited.get()).unwrap()),
        WaitResult::Refused(_) => None,
    }
}

fn too_long(wait_ns: u64) -> WaitResult {
    WaitResult::Refused(Refusal::TooLong { wait: Some(Nanos::new(u128::from(wait_ns))) })
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(100))]

    /// Two sequences that differ in one request.
    #[test]
    fn the_forecast_wait_equals_the_real_wait(
        limits in limits(),
        planned in prop::collection::vec(planned(Just(None)), 1..20),
        which in any::<prop::sample::Index>(),
        max_wait_ns in some_max_wait(),
        exactly in any::<bool>(),
    ) {
        let which = which.index(planned.len());
        let waiting = run_requests(&limits, &planned);
        let (arrived, expected) = waiting[which];
        let Some(wait_ns) = waited(expected.output) else { return Ok(()) };
        let max_wait_ns = if exactly { wait_ns } else { max_wait_ns };
        let mut delayed = planned.clone();
        delayed[which].max_wait_ns = Some(max_wait_ns);
        let with_max_wait = run_requests(&limits, &delayed);
        if wait_ns <= max_wait_ns {
            prop_assert_eq!(with_max_wait, waiting);
            return Ok(());
        }
        prop_assert_eq!(with_max_wait[which].1, TaskOutput { at: arrived, output: too_long(wait_ns) });
        // All other requests end as if it had never arrived. Its gap belongs to the next.
        let mut without = planned.clone();
        let gap_ns = without.remove(which).gap_ns;
        if let Some(next) = without.get_mut(which) {
            next.gap_ns += gap_ns;
        }
        let mut others = with_max_wait;
        others.remove(which);
        prop_assert_eq!(others, run_requests(&limits, &without));
    }

    /// With or without a max_wait, each request is refused or admitted as in the simplest queue.
    #[test]
    fn an_accepted_request_is_admitted_in_time(
        limits in limits(),
        planned in prop::collection::vec(planned(prop::option::of(some_max_wait())), 1..30),
    ) {
        let mut model = Model::new(&limits);
        for (one, (arrived, finished)) in planned.iter().zip(run_requests(&limits, &planned)) {
            let leaves = model.leaves_at(arrived, one.cost);
            let wait_ns = leaves.map(|leaves| leaves.as_nanos() - arrived.as_nanos());
            match wait_ns {
                None => prop_assert_eq!(finished, TaskOutput { at: arrived, output: WaitResult::Refused(Refusal::Never) }),
                Some(wait_ns) if one.max_wait_ns.is_some_and(|max_wait_ns| wait_ns > max_wait_ns) => {
                    prop_assert_eq!(finished, TaskOutput { at: arrived, output: too_long(wait_ns) });
                }
                Some(wait_ns) => {
                    prop_assert_eq!(waited(finished.output), Some(wait_ns));
                    prop_assert_eq!(Some(finished.at), leaves);
                    model.admit(arrived, one.cost);
                }
            }
        }
    }
}

#[test]
fn a_max_wait_of_zero_is_a_check() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> =
        (0..3).map(|_| executor.spawn(wait_result(limiter.acquire_within(KEY, 1, Duration::ZERO)))).collect();
    executor.run_woken();
    assert_eq!(waited(executor.finished(tasks[0]).unwrap().output), Some(0));
    for task in &tasks[1..] {
        assert_eq!(executor.finished(*task).unwrap().output, too_long(1_000_000_000));
    }
    assert_eq!(clock.sleepers(), 0);
    // Also behind requests that wait.
    executor.spawn(wait_result(limiter.acquire(KEY, 1)));
    let behind = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, Duration::ZERO)));
    executor.run_woken();
    assert_eq!(executor.finished(behind).unwrap().output, too_long(2_000_000_000));
}

#[test]
fn the_longest_max_wait_works() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> =
        (0..3).map(|_| executor.spawn(wait_result(limiter.acquire_within(KEY, 1, Duration::MAX)))).collect();
    executor.run();
    assert_eq!(executor.finished(tasks[2]).unwrap().at, after_ms(2_000));
}

/// A new request finds a position in the queue that became free: the earlier forecast is discarded.
#[test]
fn a_request_after_a_drop_gets_the_shorter_wait() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> =
        (0..4).map(|_| executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(3_000))))).collect();
    let refused = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(3_000))));
    executor.run_woken();
    assert_eq!(executor.finished(refused).unwrap().output, too_long(4_000_000_000));
    executor.drop_task(tasks[2]);
    let accepted = executor.spawn(wait_result(limiter.acquire_within(KEY, 1, ms(3_000))));
    executor.run();
    assert_eq!(executor.finished(accepted).unwrap().at, after_ms(3_000));
}
