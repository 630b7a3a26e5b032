//! Requests that a limit may hold are asked about together, as long as nobody waits or there is room for those who do.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::Timestamp;
use tidegate_testing::remote::StoreBehavior;

use crate::engine::bench::EngineFixture;
use crate::engine::delay::{Tasks, decide, finished_ms, result_of, passed, rules};
use crate::engine_fleet::fleet::Fleet;
use crate::executor::{Executor, Task};

/// Five in each second for each user, and an hour to wait.
const FIVE_PER_SECOND: &str = "key: [user], limit: { limit: 5 per second, algorithm: fixed_window }, action: { delay: { max_wait: 1h } }";

fn spawn_requests<'a>(tasks: &mut Tasks<'a>, server: &'a EngineFixture, times: usize) -> Vec<Task> {
    (0..times).map(|_| tasks.spawn(decide(&server.engine, "user=1", 1))).collect()
}

fn second(number: u64) -> Timestamp {
    Timestamp::from_nanos(number * 1_000_000_000)
}

#[test]
fn requests_under_the_limit_ask_concurrently() {
    let fleet = Fleet::new(1, &rules(FIVE_PER_SECOND));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let all = spawn_requests(&mut tasks, server, 5);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (5, 0));
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!(passed(&tasks, &all), [true; 5]);
    assert_eq!(fleet.store.calls(), 5);
}

/// Who is told to wait is not asked about again before it is due.
#[test]
fn requests_postponed_together_queue_in_arrival_order() {
    let fleet = Fleet::new(1, &rules(FIVE_PER_SECOND));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let all = spawn_requests(&mut tasks, server, 8);
    tasks.run_woken();
    assert_eq!(fleet.store.calls(), 8);
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (8, 3));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 0, 0, 0, 0, 1000, 1000, 1000].map(Some));
    assert_eq!(tasks.completion_order(), all);
    assert_eq!(fleet.store.calls(), 11);
}

/// One that came first and hears last that it has to wait is in front nevertheless.
#[test]
fn a_queue_position_follows_the_arrival() {
    let fleet = Fleet::new(1, &rules("key: [user], limit: 1 per second, action: { delay: { max_wait: 1h } }"));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    spawn_requests(&mut tasks, server, 1);
    tasks.run_woken();
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    let first = spawn_requests(&mut tasks, server, 1);
    tasks.run_woken();
    *fleet.store.behavior() = StoreBehavior::Reply;
    let second = spawn_requests(&mut tasks, server, 1);
    tasks.run_woken();
    assert_eq!(server.engine.waiting_requests(), 1, "the one that came later");
    fleet.store.release_replies();
    tasks.run();
    assert_eq!(finished_ms(&tasks, &[first[0], second[0]]), [Some(1000), Some(2000)]);
}

/// Units are there that it would fit, at another server they would be given to whoever asks.
#[test]
fn no_request_overtakes_a_waiter() {
    let fleet = Fleet::new(1, &rules(FIVE_PER_SECOND));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    spawn_requests(&mut tasks, server, 3);
    let large = tasks.spawn(decide(&server.engine, "user=1", 4));
    tasks.run_woken();
    assert_eq!(server.engine.waiting_requests(), 1);
    let small = spawn_requests(&mut tasks, server, 2);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (4, 3));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &[large, small[0], small[1]]), [1000, 1000, 2000].map(Some));
}

/// One after the other they would go no faster than the store answers, however much room there is.
#[test]
fn waiters_that_fit_ask_concurrently() {
    let fleet = Fleet::new(1, &rules(FIVE_PER_SECOND));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    let all = spawn_requests(&mut tasks, server, 20);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (6, 15));
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    tasks.run_until(second(1));
    assert_eq!(fleet.store.calls(), 7, "the one in front");
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (11, 14), "the four for whom there is room");
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (12, 10), "the next in front, in vain");
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run();
    assert_eq!(tasks.completion_order(), all);
    let expected_ms: Vec<_> = (0..20).map(|n| Some(n / 5 * 1000)).collect();
    assert_eq!(finished_ms(&tasks, &all), expected_ms);
    assert_eq!(tasks.sleepers_max, 1);
}

/// Then those who asked together wait as they did before, and are not asked about again until the one in front is.
#[test]
fn units_taken_by_others_are_waited_for_in_order() {
    let fleet = Fleet::new(2, &rules(FIVE_PER_SECOND));
    let [server, other] = &fleet.nodes[..] else { panic!("two of them") };
    let mut tasks = Executor::new(&server.clock);
    let all = spawn_requests(&mut tasks, server, 10);
    tasks.run_woken();
    fleet.store.set_behavior(StoreBehavior::ReplyLater);
    tasks.run_until(second(1));
    *fleet.store.behavior() = StoreBehavior::Reply;
    assert_eq!(other.count_passing("user=1", 3), 3);
    *fleet.store.behavior() = StoreBehavior::ReplyLater;
    let questions = fleet.store.calls();
    fleet.store.release_replies();
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (questions + 4, 4));
    fleet.store.set_behavior(StoreBehavior::Reply);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (questions + 4, 3));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all[5..]), [1000, 1000, 2000, 2000, 2000].map(Some));
    assert_eq!(tasks.completion_order(), all);
    assert!(all.iter().all(|task| result_of(&tasks, *task).refusal.is_none()));
}

/// It goes by the answer it has: the other line need not be asked for, and it has but one budget until it sleeps. Then it
/// asks once a second, for units may come back.
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
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    let all = spawn_requests(&mut tasks, server, 2);
    tasks.run_woken();
    assert_eq!((fleet.store.calls(), server.engine.waiting_requests()), (2, 1));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(3000)]);
    assert_eq!((fleet.store.calls(), fleet.store.spent_budgets().len()), (5, 0));
}

/// What happens at a server.
#[derive(Clone, Copy, Debug)]
enum Event {
    Comes {
        user: usize,
        cost: u64,
    },
    TimePasses {
        ms: u64,
    },
    /// The store answers late from now on.
    Dawdles,
    /// It tells what it was asked until now.
    Tells,
    /// Somebody gives units of a user back.
    ComesBack {
        user: usize,
    },
    /// The one that came so many before the last gives up.
    Drops {
        before: usize,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..2_usize, 1..3_u64).prop_map(|(user, cost)| Event::Comes { user, cost }),
        2 => (1..900_u64).prop_map(|ms| Event::TimePasses { ms }),
        2 => Just(Event::Dawdles),
        3 => Just(Event::Tells),
        1 => (0..2_usize).prop_map(|user| Event::ComesBack { user }),
        1 => (0..9_usize).prop_map(|before| Event::Drops { before }),
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
    /// Whatever is late, and in whichever order it is heard of, all who wait are let go in the end, and nobody asks in vain
    /// for ever.
    #[test]
    fn no_waiter_is_forgotten_in_any_queue(events in events()) {
        const USERS: [&str; 2] = ["user=1", "user=2"];
        let fleet = Fleet::new(1, TWO_LIMITS);
        let server = fleet.first();
        let mut tasks = Executor::new(&server.clock);
        let mut all: Vec<(Task, bool)> = Vec::new();
        for event in &events {
            match *event {
                Event::Comes { user, cost } => {
                    all.push((tasks.spawn(decide(&server.engine, USERS[user], cost)), true));
                }
                Event::TimePasses { ms } => {
                    let now = tidegate::Clock::now(&server.clock);
                    tasks.run_until(now.saturating_add(tidegate::Nanos::new(Duration::from_millis(ms).as_nanos())));
                }
                Event::Dawdles => *fleet.store.behavior() = StoreBehavior::ReplyLater,
                Event::Tells => fleet.store.set_behavior(StoreBehavior::Reply),
                Event::ComesBack { user } => {
                    let mood = std::mem::replace(&mut *fleet.store.behavior(), StoreBehavior::Reply);
                    crate::engine::bench::with_request(USERS[user], 1, |request| {
                        server.setup.refund(&server.engine, request);
                    });
                    *fleet.store.behavior() = mood;
                }
                Event::Drops { before } => {
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
        prop_assert_eq!((server.engine.waiting_requests(), server.clock.sleepers()), (0, 0));
        prop_assert!(fleet.store.calls() < 40 * (all.len() as u64 + events.len() as u64));
    }
}
