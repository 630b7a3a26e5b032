//! Requests with `delay` limits ask at the same time, as long as no request waits or there are units for those that do.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::Timestamp;
use tidegate_testing::fake_store::StoreBehavior;

use crate::engine::delay::{Tasks, decide, finished_ms, passed, result_of, rules};
use crate::engine::fixture::EngineFixture;
use crate::engine_fleet::fleet::Fleet;
use crate::executor::{Executor, Task};

/// Five in each second for each user, and up to an hour of waiting.
const FIVE_PER_SECOND: &str = "key: [user], limit: { limit: 5 per second, algorithm: fixed_window }, action: { delay: { max_wait: 1h } }";

fn spawn_requests<'a>(tasks: &mut Tasks<'a>, node: &'a EngineFixture, times: usize) -> Vec<Task> {
    (0..times).map(|_| tasks.spawn(decide(&node.engine, "user=1", 1))).collect()
}

fn second(number: u64) -> Timestamp {
    Timestamp::from_nanos(number * 1_000_000_000)
}

#[test]
fn requests_under_the_limit_ask_concurrently() {
    let fleet = Fleet::new(1, &rules(FIVE_PER_SECOND));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let all = spawn_requests(&mut tasks, node, 5);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), node.engine.waiting_requests()), (5, 0));
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!(passed(&tasks, &all), [true; 5]);
    assert_eq!(fleet.store.calls(), 5);
}

/// A request that has to wait does not ask again before it is due.
#[test]
fn requests_postponed_together_queue_in_arrival_order() {
    let fleet = Fleet::new(1, &rules(FIVE_PER_SECOND));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let all = spawn_requests(&mut tasks, node, 8);
    tasks.run_woken();
    assert_eq!(fleet.store.calls(), 8);
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), node.engine.waiting_requests()), (8, 3));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 0, 0, 0, 0, 1000, 1000, 1000].map(Some));
    assert_eq!(tasks.completion_order(), all);
    assert_eq!(fleet.store.calls(), 11);
}

/// A request that arrived first is the head, even if its reply comes last.
#[test]
fn a_queue_position_follows_the_arrival() {
    let fleet =
        Fleet::new(1, &rules("key: [user], limit: 1 per second, action: { delay: { max_wait: 1h } }"));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    spawn_requests(&mut tasks, node, 1);
    tasks.run_woken();
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let first = spawn_requests(&mut tasks, node, 1);
    tasks.run_woken();
    *fleet.store.behavior() = StoreBehavior::Reply;
    let second = spawn_requests(&mut tasks, node, 1);
    tasks.run_woken();
    assert_eq!(node.engine.waiting_requests(), 1, "the one that arrived later");
    fleet.store.release_replies();
    tasks.run();
    assert_eq!(finished_ms(&tasks, &[first[0], second[0]]), [Some(1000), Some(2000)]);
}

/// There are units for it. At another node they would go to the request that asks first.
#[test]
fn no_request_overtakes_a_waiter() {
    let fleet = Fleet::new(1, &rules(FIVE_PER_SECOND));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    spawn_requests(&mut tasks, node, 3);
    let large = tasks.spawn(decide(&node.engine, "user=1", 4));
    tasks.run_woken();
    assert_eq!(node.engine.waiting_requests(), 1);
    let small = spawn_requests(&mut tasks, node, 2);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), node.engine.waiting_requests()), (4, 3));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &[large, small[0], small[1]]), [1000, 1000, 2000].map(Some));
}

/// One after the other they would be limited to one per round trip, however many units there are.
#[test]
fn waiters_that_fit_ask_concurrently() {
    let fleet = Fleet::new(1, &rules(FIVE_PER_SECOND));
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let all = spawn_requests(&mut tasks, node, 20);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), node.engine.waiting_requests()), (6, 15));
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    tasks.run_until(second(1));
    assert_eq!(fleet.store.calls(), 7, "the head");
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), node.engine.waiting_requests()), (11, 14), "the four that fit");
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!(
        (fleet.store.calls(), node.engine.waiting_requests()),
        (12, 10),
        "the next head, without success"
    );
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run();
    assert_eq!(tasks.completion_order(), all);
    let expected_ms: Vec<_> = (0..20).map(|n| Some(n / 5 * 1000)).collect();
    assert_eq!(finished_ms(&tasks, &all), expected_ms);
    assert_eq!(tasks.sleepers_max, 1);
}

/// Then the requests that asked at the same time wait as before, and do not ask again before the head does.
#[test]
fn units_taken_by_other_nodes_are_waited_for_in_order() {
    let fleet = Fleet::new(2, &rules(FIVE_PER_SECOND));
    let [node, other] = &fleet.nodes[..] else { panic!("two of them") };
    let mut tasks = Executor::new(&node.clock);
    let all = spawn_requests(&mut tasks, node, 10);
    tasks.run_woken();
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    tasks.run_until(second(1));
    *fleet.store.behavior() = StoreBehavior::Reply;
    assert_eq!(other.count_passing("user=1", 3), 3);
    *fleet.store.behavior() = StoreBehavior::ReplyLater;
    let calls = fleet.store.calls();
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), node.engine.waiting_requests()), (calls + 4, 4));
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), node.engine.waiting_requests()), (calls + 4, 3));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all[5..]), [1000, 1000, 2000, 2000, 2000].map(Some));
    assert_eq!(tasks.completion_order(), all);
    assert!(all.iter().all(|task| result_of(&tasks, *task).refusal.is_none()));
}

/// It uses the reply that it has: the other queue need not be asked for, and there is one budget until it sleeps. Then
/// it asks once a second, because units may come back.
#[test]
fn a_move_to_another_queue_makes_no_extra_store_call() {
    let fleet = Fleet::new(
        1,
        "
domain: api
rules:
  - { name: all, limit: { limit: 1 per second, name: all }, action: { delay: { max_wait: 8s } } }
  - { name: each, key: [user], limit: 1 per 3s, action: { delay: { max_wait: 8s } } }
",
    );
    let node = fleet.first();
    let mut tasks = Executor::new(&node.clock);
    let all = spawn_requests(&mut tasks, node, 2);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), node.engine.waiting_requests()), (2, 1));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(3000)]);
    assert_eq!((fleet.store.calls(), fleet.store.spent_budgets().len()), (5, 0));
}

/// An event at a node.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive {
        user: usize,
        cost: u64,
    },
    Advance {
        ms: u64,
    },
    /// From now on the store replies late.
    ReplyLater,
    /// The store sends the replies to all calls up to now.
    SendReplies,
    /// Units of a user are refunded.
    Refund {
        user: usize,
    },
    /// Drops the request that arrived this many before the last.
    Drop {
        before: usize,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..2_usize, 1..3_u64).prop_map(|(user, cost)| Event::Arrive { user, cost }),
        2 => (1..900_u64).prop_map(|ms| Event::Advance { ms }),
        2 => Just(Event::ReplyLater),
        3 => Just(Event::SendReplies),
        1 => (0..2_usize).prop_map(|user| Event::Refund { user }),
        1 => (0..9_usize).prop_map(|before| Event::Drop { before }),
    ];
    prop::collection::vec(event, 1..60)
}

const TWO_LIMITS: &str = "
domain: api
rules:
  - { name: all, limit: { limit: 5 per second, algorithm: fixed_window }, action: { delay: { max_wait: 1h } } }
  - { name: each, key: [user], limit: { limit: 3 per second, algorithm: fixed_window }, action: { delay: { max_wait: 1h } } }
";

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    /// With replies late and in any order, all waiters are admitted in the end, and none asks forever.
    #[test]
    fn no_waiter_is_forgotten_in_any_queue(events in events()) {
        const USERS: [&str; 2] = ["user=1", "user=2"];
        let fleet = Fleet::new(1, TWO_LIMITS);
        let node = fleet.first();
        let mut tasks = Executor::new(&node.clock);
        let mut all: Vec<(Task, bool)> = Vec::new();
        for event in &events {
            match *event {
                Event::Arrive { user, cost } => {
                    all.push((tasks.spawn(decide(&node.engine, USERS[user], cost)), true));
                }
                Event::Advance { ms } => {
                    let now = tidegate::Clock::now(&node.clock);
                    tasks.run_until(now.saturating_add(tidegate::Nanos::new(Duration::from_millis(ms).as_nanos())));
                }
                Event::ReplyLater => *fleet.store.behavior() = StoreBehavior::ReplyLater,
                Event::SendReplies => fleet.store.set_behavior(StoreBehavior::Reply),
                Event::Refund { user } => {
                    let behavior = std::mem::replace(&mut *fleet.store.behavior(), StoreBehavior::Reply);
                    crate::engine::fixture::with_request(USERS[user], 1, |request| {
                        node.setup.refund(&node.engine, request);
                    });
                    *fleet.store.behavior() = behavior;
                }
                Event::Drop { before } => {
                    if let Some((task, is_there)) = all.iter_mut().rev().nth(before) {
                        tasks.drop_task(*task);
                        *is_there = tasks.finished(*task).is_some();
                    }
                }
            }
            tasks.run_woken();
        }
        fleet.store.set_behavior(StoreBehavior::Reply);
        tasks.run();
        let left: Vec<Task> = all.iter().filter(|(_, is_there)| *is_there).map(|(task, _)| *task).collect();
        prop_assert!(left.iter().all(|task| tasks.finished(*task).is_some()));
        prop_assert!(passed(&tasks, &left).iter().all(|passed| *passed));
        prop_assert_eq!((node.engine.waiting_requests(), node.clock.sleepers()), (0, 0));
        prop_assert!(fleet.store.calls() < 40 * (all.len() as u64 + events.len() as u64));
    }
}
