//! Futures that are dropped: other requests are not affected, and nothing stays charged.

use std::task::{Context, Waker};

use proptest::prelude::*;
use tidegate::{Clock, LATE_NS_MAX, Limiter, ManualClock, Timestamp};

use super::model::{KEY, Model, after_ms, later, limiter, ms, remaining, start};
use super::order::limits;
use crate::executor::{Executor, Task};
use crate::wait_result::{WaitResult, wait_result};

/// When a request is dropped, if it is still there.
#[derive(Clone, Copy, Debug)]
enum DropTime {
    Stays,
    /// Before it was ever polled.
    NeverPolled,
    /// This long after it arrived, after all due requests were polled.
    Dropped(u64),
    /// This long after it arrived, right after the clock moved: due requests are woken but not polled yet.
    DroppedBeforePolls(u64),
}

#[derive(Clone, Copy, Debug)]
struct PlannedRequest {
    gap_ns: u64,
    cost: u64,
    dropped: DropTime,
}

fn planned() -> impl Strategy<Value = PlannedRequest> {
    let gap_ns = prop_oneof![3 => Just(0), 1 => 0..1_000_000_u64, 1 => 0..400_000_000_u64];
    let after_ns = || prop_oneof![Just(0), 0..2_000_000_000_u64, (0..3_u64).prop_map(|s| s * 1_000_000_000)];
    let dropped = prop_oneof![
        3 => Just(DropTime::Stays),
        1 => Just(DropTime::NeverPolled),
        2 => after_ns().prop_map(DropTime::Dropped),
        2 => after_ns().prop_map(DropTime::DroppedBeforePolls),
    ];
    (gap_ns, 0_u64..5, dropped).prop_map(|(gap_ns, cost, dropped)| PlannedRequest { gap_ns, cost, dropped })
}

/// Events in order of time. At one instant, arrivals come last, after all requests that were due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    DropBeforePolls(usize),
    Drop(usize),
    Arrive(usize),
}

/// A request as it arrived, for the model.
struct ArrivedRequest {
    arrived: Timestamp,
    cost: u64,
    dropped: Option<Timestamp>,
    /// Whether it was dropped before the requests that were due at that instant were polled.
    before_polls: bool,
}

/// When each request leaves, if it does. A head that is dropped has delayed the next request until then. That one is
/// decided as of a little earlier if nothing was charged. A request that is dropped further back has delayed none.
fn expected(limits: &[&str], requests: &[ArrivedRequest]) -> (Vec<Option<Timestamp>>, Model) {
    let mut model = Model::new(limits);
    let (mut decided_from, mut in_front_since) = (Timestamp::default(), Timestamp::default());
    let mut leave = Vec::new();
    for request in requests {
        let from = request.arrived.max(decided_from);
        let in_front = request.arrived.max(in_front_since).max(model.left);
        let (at, leaves) = (model.decided_at(from, request.cost), model.leaves_at(from, request.cost));
        let is_dropped = |dropped: &Timestamp| match leaves.map(|leaves| leaves.max(in_front)) {
            Some(would_leave) => *dropped < would_leave || *dropped == would_leave && request.before_polls,
            None => false,
        };
        let Some(dropped) = request.dropped.filter(is_dropped) else {
            leave.push(model.admit(from, request.cost));
            continue;
        };
        leave.push(None);
        if in_front < dropped {
            let charged = at.map(|at| at.max(in_front));
            let is_delayed = charged.is_some_and(|at| at < dropped || at == dropped && !request.before_polls);
            let late_ns = if is_delayed { 0 } else { LATE_NS_MAX };
            decided_from = decided_from.max(Timestamp::from_nanos(dropped.as_nanos() - late_ns));
            in_front_since = dropped;
        }
    }
    (leave, model)
}

/// Runs a sequence in which some requests are dropped, and checks when the others leave.
fn run_requests(limits: &[&str], planned: &[PlannedRequest]) -> Result<(), TestCaseError> {
    let clock = ManualClock::at(start());
    let limiter: Limiter<_> = limiter(limits, &clock);
    let mut executor = Executor::new(&clock);
    let mut events: Vec<(Timestamp, Event)> = Vec::new();
    let mut now = start();
    for (number, one) in planned.iter().enumerate() {
        now = later(now, u128::from(one.gap_ns));
        events.push((now, Event::Arrive(number)));
        match one.dropped {
            DropTime::Dropped(after_ns) => {
                events.push((later(now, u128::from(after_ns)), Event::Drop(number)));
            }
            DropTime::DroppedBeforePolls(after_ns) => {
                events.push((later(now, u128::from(after_ns.max(1))), Event::DropBeforePolls(number)));
            }
            DropTime::Stays | DropTime::NeverPolled => {}
        }
    }
    events.sort();
    let mut tasks: Vec<Option<Task>> = vec![None; planned.len()];
    let mut arrived_requests: Vec<Option<ArrivedRequest>> = planned.iter().map(|_| None).collect();
    // Zero is dropped right after it arrived, which the order of events does not show.
    let mut too_early = Vec::new();
    for (at, event) in events {
        match event {
            Event::Arrive(number) => {
                executor.run_until(at);
                let one = planned[number];
                let task = executor.spawn(wait_result(limiter.acquire(KEY, one.cost)));
                if let DropTime::NeverPolled = one.dropped {
                    executor.drop_task(task);
                } else {
                    arrived_requests[number] = Some(ArrivedRequest {
                        arrived: at,
                        cost: one.cost,
                        dropped: None,
                        before_polls: false,
                    });
                }
                executor.run_woken();
                tasks[number] = Some(task);
                if too_early.contains(&number) {
                    executor.drop_task(task);
                    arrived_requests[number].as_mut().unwrap().dropped = Some(at);
                    executor.run_woken();
                }
            }
            Event::Drop(number) | Event::DropBeforePolls(number) => {
                let before_polls = matches!(event, Event::DropBeforePolls(_));
                if clock.now() < at {
                    executor.run_up_to(at);
                }
                if !before_polls {
                    executor.run_woken();
                }
                match tasks[number] {
                    Some(task) => {
                        executor.drop_task(task);
                        let request = arrived_requests[number].as_mut().unwrap();
                        (request.dropped, request.before_polls) = (Some(at), before_polls);
                    }
                    None => too_early.push(number),
                }
            }
        }
    }
    executor.run();
    let polled: Vec<usize> =
        (0..planned.len()).filter(|number| arrived_requests[*number].is_some()).collect();
    let arrived_requests: Vec<ArrivedRequest> = arrived_requests.into_iter().flatten().collect();
    let (leave, model) = expected(limits, &arrived_requests);
    for ((number, leaves), request) in polled.iter().zip(&leave).zip(&arrived_requests) {
        let finished = executor.finished(tasks[*number].unwrap());
        match (finished.map(|finished| finished.output), leaves) {
            (Some(WaitResult::Admitted { waited, .. }), Some(leaves)) => {
                prop_assert_eq!(later(request.arrived, waited.get()), *leaves, "number {}", number);
            }
            (Some(WaitResult::Refused(_)) | None, None) => {}
            (finished, leaves) => prop_assert!(false, "number {number}: {finished:?} instead of {leaves:?}"),
        }
    }
    prop_assert!(executor.sleepers_max <= 1);
    prop_assert_eq!(clock.sleepers(), 0);
    let end = clock.now();
    prop_assert_eq!(remaining(&limiter, end), model.remaining(end));
    Ok(())
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(150))]

    #[test]
    fn a_dropped_waiter_changes_nothing_for_others(
        limits in limits(),
        planned in prop::collection::vec(planned(), 1..25),
    ) {
        run_requests(&limits, &planned)?;
    }
}

/// Five requests arrive at the same time, and one of them is dropped halfway. The others keep their order and are not
/// affected.
#[test]
fn a_dropped_waiter_moves_up_only_those_behind_it() {
    for dropped in 0..5_usize {
        let clock = ManualClock::at(start());
        let limiter = limiter(&["1/s burst 1"], &clock);
        assert!(limiter.check(KEY, 1).is_allowed());
        let mut executor = Executor::new(&clock);
        let tasks: Vec<_> = (0..5).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
        executor.run_until(after_ms(500));
        executor.drop_task(tasks[dropped]);
        executor.run();
        for (number, task) in tasks.iter().enumerate().filter(|(number, _)| *number != dropped) {
            let position = if number < dropped { number + 1 } else { number };
            assert_eq!(
                executor.finished(*task).unwrap().at,
                after_ms(1_000 * position as u64),
                "{dropped} {number}"
            );
        }
        assert!(executor.finished(tasks[dropped]).is_none());
        // Five were charged, including the check.
        assert_eq!(limiter.peek(KEY, 1).retry_after.span().unwrap().get(), 1_000_000_000);
    }
}

#[test]
fn dropping_all_waiters_leaves_no_state() {
    for limit in ["1/s burst 1", "{algorithm: leaky_bucket, limit: 1, per: 1s, queue: 3}"] {
        let clock = ManualClock::at(start());
        let limiter = limiter(&[limit], &clock);
        assert!(limiter.check(KEY, 1).is_allowed());
        let before = limiter.peek(KEY, 1);
        let mut executor = Executor::new(&clock);
        let tasks: Vec<_> = (0..100).map(|_| executor.spawn(wait_result(limiter.acquire(KEY, 1)))).collect();
        executor.run_woken();
        for task in tasks {
            executor.drop_task(task);
        }
        assert_eq!(clock.sleepers(), 0);
        assert_eq!(limiter.peek(KEY, 1), before, "{limit}");
        executor.run();
        assert!(executor.completion_order().is_empty());
    }
}

/// A leaky bucket delays the head, and a request behind it is dropped. That makes no other request earlier.
#[test]
fn a_waiter_dropped_behind_a_delayed_head_does_not_advance_the_rest() {
    let limits = [
        "{algorithm: leaky_bucket, limit: 1, per: 100ms, queue: 5}",
        "{algorithm: sliding_log, limit: 2, per: 1s}",
    ];
    let leave = |with_dropped: bool| {
        let clock = ManualClock::at(start());
        let limiter = limiter(&limits, &clock);
        let mut executor = Executor::new(&clock);
        executor.spawn(wait_result(limiter.acquire(KEY, 1)));
        executor.spawn(wait_result(limiter.acquire(KEY, 1)));
        let dropped = with_dropped.then(|| executor.spawn(wait_result(limiter.acquire(KEY, 1))));
        executor.spawn(wait_result(limiter.acquire(KEY, 2)));
        executor.spawn(wait_result(limiter.acquire(KEY, 1)));
        executor.run_until(after_ms(95));
        dropped.iter().for_each(|task| executor.drop_task(*task));
        executor.run();
        executor
            .completion_order()
            .iter()
            .map(|task| executor.finished(*task).unwrap().at)
            .collect::<Vec<_>>()
    };
    assert_eq!(leave(true), leave(false));
}

/// A charge to a window that is over is not refunded to the current window, which other requests use.
#[test]
fn a_delayed_request_dropped_later_refunds_nothing_of_another_window() {
    for window in ["fixed_window", "sliding_window"] {
        let limits = [
            &format!("{{algorithm: {window}, limit: 1, per: 1s}}"),
            "{algorithm: leaky_bucket, limit: 1, per: 10s, queue: 5}",
        ];
        let clock = ManualClock::default();
        let limiter = limiter(&limits, &clock);
        assert!(limiter.check(KEY, 1).is_allowed());
        clock.advance(ms(2_000));
        let mut waiting = Box::pin(wait_result(limiter.acquire(KEY, 1)));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        clock.advance(ms(4_000));
        assert!(limiter.check(KEY, 1).is_allowed(), "{window}");
        assert!(!limiter.check(KEY, 1).is_allowed(), "{window}");
        drop(waiting);
        assert!(!limiter.check(KEY, 1).is_allowed(), "{window}: two in a window of one");
    }
}

/// What a delayed request took from other limits has long been free again, and other requests use it.
#[test]
fn a_dropped_delayed_request_takes_nothing_from_later_requests() {
    let clock = ManualClock::at(start());
    let leaky = "{algorithm: leaky_bucket, limit: 1, per: 10s, queue: 9}";
    for other in ["{algorithm: sliding_log, limit: 2, per: 1s}", "2 per second burst 2"] {
        let limiter = limiter(&[leaky, other], &clock);
        let begun = clock.now();
        assert!(limiter.check(KEY, 1).is_allowed());
        let mut executor = Executor::new(&clock);
        let delayed = executor.spawn(wait_result(limiter.acquire(KEY, 1)));
        executor.run_woken();
        clock.set(later(begun, 5_000_000_000));
        for _ in 0..2 {
            assert!(limiter.check(KEY, 1).is_allowed(), "{other}");
        }
        executor.drop_task(delayed);
        assert!(!limiter.check(KEY, 1).is_allowed(), "{other}");
        clock.set(later(begun, 100_000_000_000));
    }
}
