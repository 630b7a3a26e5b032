//! Queues for limits that a fleet shares: the queues of one node do not know those of another.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::rules::AnswerKind;
use tidegate::{Limiter, ManualClock, Release, Timestamp};
use tidegate_testing::fake_store::StoreBehavior;

use crate::engine::delay::{SLOW, decide, finished_ms, passed, result_of, rules};
use crate::engine::fixture::with_request;
use crate::engine::shared_engine::expect_ready;
use crate::engine_fleet::fleet::Fleet;
use crate::executor::{Executor, Task};
use crate::wait_result::{Refusal, WaitResult, wait_result};

#[test]
fn two_nodes_together_keep_the_release_rate() {
    let fleet = Fleet::new(2, &rules(&SLOW.replace("5s", "1h")));
    let mut tasks = Executor::new(&fleet.first().clock);
    let all: Vec<Task> =
        (0..20).map(|n| tasks.spawn(decide(&fleet.nodes[n % 2].engine, "user=1", 1))).collect();
    tasks.run();
    let mut left_ms: Vec<u64> = finished_ms(&tasks, &all).into_iter().flatten().collect();
    left_ms.sort_unstable();
    assert_eq!(left_ms, (0..20).map(|second| second * 1000).collect::<Vec<_>>());
    for node in 0..2 {
        let of_node: Vec<Task> = tasks
            .completion_order()
            .iter()
            .copied()
            .filter(|task| all.iter().position(|one| one == task).unwrap() % 2 == node)
            .collect();
        assert!(
            of_node.is_sorted_by_key(|task| all.iter().position(|one| one == task)),
            "each in its own queue"
        );
    }
}

/// Another node takes units, so waiters leave later than forecast, and those that are too late are refused.
#[test]
fn units_taken_by_other_nodes_refuse_waiters_that_become_too_late() {
    let fleet = Fleet::new(2, &rules(SLOW));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let all: Vec<Task> = (0..6).map(|_| tasks.spawn(decide(&node.engine, "user=1", 1))).collect();
    tasks.run_up_to(Timestamp::from_nanos(1_000_000_000));
    assert_eq!(fleet.nodes[1].check("user=1").kind, AnswerKind::Allowed);
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), None, None, None, None, Some(1000)]);
    let refused = result_of(&tasks, all[5]);
    assert!(matches!(refused.refusal, Some(Refusal::TooLong { wait: Some(_) })), "{refused:?}");
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true, true, true, true, false]);
    assert_eq!(tasks.sleepers_max, 1);
}

#[test]
fn a_refund_by_another_node_is_seen_at_the_next_poll() {
    let rule = "key: [user], limit: { algorithm: concurrency, limit: 1, ttl: 60s }, action: { delay: { max_wait: 5s } }";
    let fleet = Fleet::new(2, &rules(rule));
    let [one, other] = &fleet.nodes[..] else { panic!("two of them") };
    let lease = with_request("user=1", 1, |request| {
        crate::engine::shared_engine::acquire(&other.engine, request, None, |_| ()).1.expect("it is free")
    });
    let mut tasks = Executor::new(&one.clock);
    let waits = tasks.spawn(decide(&one.engine, "user=1", 1));
    tasks.run_until(Timestamp::from_nanos(1_230_000_000));
    assert_eq!(finished_ms(&tasks, &[waits]), [None]);
    let released =
        with_request("user=1", 1, |request| expect_ready(other.engine.release(request, &lease.token)));
    assert_eq!(released, Ok(Release::Released));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &[waits]), [Some(1300)]);
    assert!(passed(&tasks, &[waits])[0]);
}

#[test]
fn policy_deny_ends_waiting_when_the_store_fails() {
    let fleet = Fleet::new(1, &rules(&format!("{SLOW}, on_store_failure: deny")));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let all: Vec<Task> = (0..3).map(|_| tasks.spawn(decide(&node.engine, "user=1", 1))).collect();
    tasks.run_woken();
    fleet.stop_store();
    tasks.run();
    let kinds: Vec<AnswerKind> = all.iter().map(|task| result_of(&tasks, *task).answer.kind).collect();
    assert_eq!(kinds, [AnswerKind::Allowed, AnswerKind::Unavailable, AnswerKind::Unavailable]);
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(1000), Some(1000)]);
    let late = tasks.spawn(decide(&node.engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!(result_of(&tasks, late).answer.kind, AnswerKind::Unavailable);
}

#[test]
fn waiters_continue_at_the_nodes_share() {
    let fleet = Fleet::new(
        2,
        &rules("key: [user], limit: { limit: 2 per second, burst: 2 }, action: { delay: { max_wait: 9s } }"),
    );
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    fleet.stop_store();
    let all: Vec<Task> = (0..4).map(|_| tasks.spawn(decide(&node.engine, "user=1", 1))).collect();
    tasks.run_until(Timestamp::from_nanos(2_000_000_000));
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(1000), Some(2000), None]);
    // When the store is back, all units are there that were not used meanwhile. It is asked when the last waiter was
    // due.
    fleet.resume_store();
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all)[3], Some(3000));
    let marked: Vec<bool> = all.iter().map(|task| result_of(&tasks, *task).answer.degraded).collect();
    assert_eq!(marked, [true, true, true, false]);
}

/// A waiter that is due asks once, not repeatedly.
#[test]
fn each_admission_takes_one_or_two_store_calls() {
    let fleet = Fleet::new(1, &rules(SLOW));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let all: Vec<Task> = (0..6).map(|_| tasks.spawn(decide(&node.engine, "user=1", 1))).collect();
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true; 6]);
    assert_eq!(
        fleet.store.calls(),
        11,
        "one immediately, and five that asked as the head, slept, and asked again"
    );
}

#[test]
fn a_store_failure_does_not_end_a_wait() {
    let fleet = Fleet::new(1, &rules(SLOW));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let all: Vec<Task> = (0..3).map(|_| tasks.spawn(decide(&node.engine, "user=1", 1))).collect();
    tasks.run_woken();
    // The memory of the node has not seen the key, so it has a unit immediately.
    fleet.store.set_behavior(StoreBehavior::Fail(tidegate::StoreError::BreakerOpen));
    tasks.run_until(Timestamp::from_nanos(1_000_000_000));
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(1000), None]);
    fleet.resume_store();
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true; 3]);
}

/// How long after the one before a request arrives, and its cost.
fn requests() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap_ms = prop_oneof![Just(0), 0..900_u64, Just(3000)];
    prop::collection::vec((gap_ms, 1_u64..4), 1..30)
}

/// Which of the two refuses a request immediately if it cannot be admitted in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusalTime {
    Immediately,
    AtDeadline,
}

const LIMITS: [(&str, RefusalTime); 5] = [
    ("{ algorithm: gcra, limit: 4, per: 1s, burst: 3 }", RefusalTime::Immediately),
    ("{ algorithm: fixed_window, limit: 3, per: 1s }", RefusalTime::Immediately),
    ("{ algorithm: sliding_log, limit: 3, per: 1s }", RefusalTime::AtDeadline),
    ("{ algorithm: sliding_window, limit: 3, per: 1s }", RefusalTime::AtDeadline),
    ("{ algorithm: sub_windows, limit: 3, per: 1s, sub_windows: 10 }", RefusalTime::AtDeadline),
];

const MAX_WAIT_MS: u64 = 2000;

/// The result of each request: when it was done, and whether it passed.
type RequestResults = Vec<(u64, bool)>;

fn run<F: Future>(
    clock: &ManualClock,
    requests: &[(u64, u64)],
    spawn: impl Fn(u64) -> F,
    end: impl Fn(&F::Output) -> bool,
) -> RequestResults {
    let mut executor = Executor::new(clock);
    let (mut now_ms, mut tasks) = (0, Vec::new());
    for (gap_ms, cost) in requests {
        now_ms += gap_ms;
        executor.run_up_to(Timestamp::from_nanos(now_ms * 1_000_000));
        tasks.push(executor.spawn(spawn(*cost)));
    }
    executor.run();
    let result = |task: &Task| {
        let done = executor.finished(*task).expect("no request waits forever");
        (done.at.as_nanos() / 1_000_000, end(&done.output))
    };
    tasks.iter().map(result).collect()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    /// A rule with a `delay` limit does the same as a limiter whose callers wait. A refusal may come later.
    #[test]
    fn a_fleet_of_one_delays_as_a_limiter_does(requests in requests(), (limit, refuses) in prop::sample::select(&LIMITS[..])) {
        let fleet = Fleet::new(1, &rules(&format!("key: [user], limit: {limit}, action: {{ delay: {{ max_wait: {MAX_WAIT_MS}ms }} }}")));
        let node = fleet.first();
        let by_fleet = run(&node.clock, &requests, |cost| decide(&node.engine, "user=1", cost), |ended| {
            assert_eq!(ended.answer.kind.passes(), ended.refusal.is_none());
            ended.refusal.is_none()
        });
        let clock = ManualClock::default();
        let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap();
        let max_wait = Duration::from_millis(MAX_WAIT_MS);
        let by_limiter = run(&clock, &requests, |cost| wait_result(limiter.acquire_within("key", cost, max_wait)), |result| matches!(result, WaitResult::Admitted { .. }));
        if refuses == RefusalTime::Immediately {
            prop_assert_eq!(&by_fleet, &by_limiter);
        }
        let mut arrived_ms = 0;
        for (((at_ms, passes), (limiter_at_ms, limiter_passes)), (gap_ms, _)) in by_fleet.iter().zip(&by_limiter).zip(&requests) {
            arrived_ms += gap_ms;
            prop_assert_eq!(passes, limiter_passes);
            prop_assert!(if *passes { at_ms == limiter_at_ms } else { at_ms - arrived_ms <= MAX_WAIT_MS }, "{:?} {:?}", by_fleet, by_limiter);
        }
    }
}
