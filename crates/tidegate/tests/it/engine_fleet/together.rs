//! Requests that a limit may hold are asked about together, as long as nobody waits or there is room for those who do.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::Timestamp;
use tidegate_testing::remote::Mood;

use crate::engine::bench::Bench;
use crate::engine::delay::{Tasks, decide, done_ms, ended, passed, rules};
use crate::engine_fleet::fleet::Fleet;
use crate::executor::{Executor, Task};

/// Five in each second for each user, and an hour to wait.
const FIVE: &str = "key: [user], limit: { limit: 5 per second, algorithm: fixed_window }, action: { delay: { max_wait: 1h } }";

fn come<'a>(tasks: &mut Tasks<'a>, server: &'a Bench, times: usize) -> Vec<Task> {
    (0..times).map(|_| tasks.spawn(decide(&server.engine, "user=1", 1))).collect()
}

fn second(number: u64) -> Timestamp {
    Timestamp::from_nanos(number * 1_000_000_000)
}

#[test]
fn those_who_are_under_the_limit_are_asked_about_at_once() {
    let fleet = Fleet::of(1, &rules(FIVE));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    fleet.remote.is(Mood::Dawdles);
    let all = come(&mut tasks, server, 5);
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (5, 0));
    fleet.remote.answer();
    tasks.run_woken();
    assert_eq!(passed(&tasks, &all), [true; 5]);
    assert_eq!(fleet.remote.questions(), 5);
}

/// Who is told to wait is not asked about again before it is due.
#[test]
fn those_who_are_told_to_wait_together_stand_in_the_order_in_which_they_came() {
    let fleet = Fleet::of(1, &rules(FIVE));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    fleet.remote.is(Mood::Dawdles);
    let all = come(&mut tasks, server, 8);
    tasks.run_woken();
    assert_eq!(fleet.remote.questions(), 8);
    fleet.remote.is(Mood::Answers);
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (8, 3));
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 0, 0, 0, 0, 1000, 1000, 1000].map(Some));
    assert_eq!(tasks.order(), all);
    assert_eq!(fleet.remote.questions(), 11);
}

/// One that came first and hears last that it has to wait is in front nevertheless.
#[test]
fn a_place_is_by_when_a_request_came() {
    let fleet = Fleet::of(1, &rules("key: [user], limit: 1 per second, action: { delay: { max_wait: 1h } }"));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    come(&mut tasks, server, 1);
    tasks.run_woken();
    fleet.remote.is(Mood::Dawdles);
    let first = come(&mut tasks, server, 1);
    tasks.run_woken();
    *fleet.remote.mood() = Mood::Answers;
    let second = come(&mut tasks, server, 1);
    tasks.run_woken();
    assert_eq!(server.engine.held(), 1, "the one that came later");
    fleet.remote.answer();
    tasks.run();
    assert_eq!(done_ms(&tasks, &[first[0], second[0]]), [Some(1000), Some(2000)]);
}

/// Units are there that it would fit, at another server they would be given to whoever asks.
#[test]
fn nobody_overtakes_one_who_waits() {
    let fleet = Fleet::of(1, &rules(FIVE));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    come(&mut tasks, server, 3);
    let large = tasks.spawn(decide(&server.engine, "user=1", 4));
    tasks.run_woken();
    assert_eq!(server.engine.held(), 1);
    let small = come(&mut tasks, server, 2);
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (4, 3));
    tasks.run();
    assert_eq!(done_ms(&tasks, &[large, small[0], small[1]]), [1000, 1000, 2000].map(Some));
}

/// One after the other they would go no faster than the store answers, however much room there is.
#[test]
fn those_in_line_for_whom_there_is_room_ask_together() {
    let fleet = Fleet::of(1, &rules(FIVE));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    let all = come(&mut tasks, server, 20);
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (6, 15));
    fleet.remote.is(Mood::Dawdles);
    tasks.run_until(second(1));
    assert_eq!(fleet.remote.questions(), 7, "the one in front");
    fleet.remote.answer();
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (11, 14), "the four for whom there is room");
    fleet.remote.answer();
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (12, 10), "the next in front, in vain");
    fleet.remote.is(Mood::Answers);
    tasks.run();
    assert_eq!(tasks.order(), all);
    let expected_ms: Vec<_> = (0..20).map(|n| Some(n / 5 * 1000)).collect();
    assert_eq!(done_ms(&tasks, &all), expected_ms);
    assert_eq!(tasks.sleepers_max, 1);
}

/// Then those who asked together wait as they did before, and are not asked about again until the one in front is.
#[test]
fn room_that_others_take_is_waited_for_in_line() {
    let fleet = Fleet::of(2, &rules(FIVE));
    let [server, other] = &fleet.servers[..] else { panic!("two of them") };
    let mut tasks = Executor::new(&server.clock);
    let all = come(&mut tasks, server, 10);
    tasks.run_woken();
    fleet.remote.is(Mood::Dawdles);
    tasks.run_until(second(1));
    *fleet.remote.mood() = Mood::Answers;
    assert_eq!(other.passing("user=1", 3), 3);
    *fleet.remote.mood() = Mood::Dawdles;
    let questions = fleet.remote.questions();
    fleet.remote.answer();
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (questions + 4, 4));
    fleet.remote.is(Mood::Answers);
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (questions + 4, 3));
    tasks.run();
    assert_eq!(done_ms(&tasks, &all[5..]), [1000, 1000, 2000, 2000, 2000].map(Some));
    assert_eq!(tasks.order(), all);
    assert!(all.iter().all(|task| ended(&tasks, *task).refusal.is_none()));
}

/// It goes by the answer it has: the other line need not be asked for, and it has but one budget until it sleeps. Then it
/// asks once a second, for units may come back.
#[test]
fn who_has_to_wait_for_another_limit_is_not_asked_about_again() {
    let fleet = Fleet::of(
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
    let all = come(&mut tasks, server, 2);
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), server.engine.held()), (2, 1));
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [Some(0), Some(3000)]);
    assert_eq!((fleet.remote.questions(), fleet.remote.spent().len()), (5, 0));
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
    #![proptest_config(tidegate_testing::cases(64))]
    /// Whatever is late, and in whichever order it is heard of, all who wait are let go in the end, and nobody asks in vain
    /// for ever.
    #[test]
    fn nobody_is_forgotten_in_any_line(events in events()) {
        const USERS: [&str; 2] = ["user=1", "user=2"];
        let fleet = Fleet::of(1, TWO_LIMITS);
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
                Event::Dawdles => *fleet.remote.mood() = Mood::Dawdles,
                Event::Tells => fleet.remote.is(Mood::Answers),
                Event::ComesBack { user } => {
                    let mood = std::mem::replace(&mut *fleet.remote.mood(), Mood::Answers);
                    crate::engine::bench::with_request(USERS[user], 1, |request| {
                        server.setup.refund(&server.engine, request);
                    });
                    *fleet.remote.mood() = mood;
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
        fleet.remote.is(Mood::Answers);
        tasks.run();
        let left: Vec<Task> = all.iter().filter(|(_, is_there)| *is_there).map(|(task, _)| *task).collect();
        prop_assert!(left.iter().all(|task| tasks.finished(*task).is_some()));
        prop_assert!(passed(&tasks, &left).iter().all(|passed| *passed));
        prop_assert_eq!((server.engine.held(), server.clock.sleepers()), (0, 0));
        prop_assert!(fleet.remote.questions() < 40 * (all.len() as u64 + events.len() as u64));
    }
}
