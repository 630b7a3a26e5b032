//! What happens while the shared store is asked.

use std::time::Duration;

use tidegate::Timestamp;
use tidegate_testing::remote::Mood;

use crate::engine::bench::{Bench, with_request};
use crate::engine::delay::{SLOW, decide, done_ms, passed, rules};
use crate::engine_fleet::fleet::Fleet;
use crate::executor::Executor;

fn refund(server: &Bench) {
    with_request("user=1", 1, |request| {
        let refunded = server.engine.refund(request, None);
        let mut refunded = std::pin::pin!(refunded);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        // Nobody else's answer comes by this: it is given back first and told then.
        assert!(refunded.as_mut().poll(&mut context).is_ready());
    });
}

/// Whoever gives units back while the one in front is being answered is not overheard.
#[test]
fn what_comes_back_while_it_is_asked_is_asked_for_again() {
    let fleet = Fleet::of(1, &rules(SLOW));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    let first = tasks.spawn(decide(&server.engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!(done_ms(&tasks, &[first]), [Some(0)]);
    fleet.remote.is(Mood::Dawdles);
    let second = tasks.spawn(decide(&server.engine, "user=1", 1));
    tasks.run_woken();
    // It was denied, and has not heard of it. What it hears is from before this.
    *fleet.remote.mood() = Mood::Answers;
    refund(server);
    fleet.remote.answer();
    tasks.run_woken();
    assert_eq!(done_ms(&tasks, &[first, second]), [Some(0), Some(0)]);
    assert_eq!(server.clock.sleepers(), 0);
}

/// What it hears from before that is no reason to refuse those behind it.
#[test]
fn what_comes_back_while_it_is_asked_counts_for_those_behind_it_too() {
    let fleet = Fleet::of(1, &rules(SLOW));
    let server = fleet.first();
    assert_eq!(server.passing("user=1", 1), 1);
    let mut tasks = Executor::new(&server.clock);
    fleet.remote.is(Mood::Dawdles);
    let all: Vec<_> = (0..7).map(|_| tasks.spawn(decide(&server.engine, "user=1", 1))).collect();
    tasks.run_woken();
    *fleet.remote.mood() = Mood::Answers;
    refund(server);
    fleet.remote.answer();
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 1000, 2000, 3000, 4000, 5000, 0].map(Some));
    assert_eq!(passed(&tasks, &all), [true, true, true, true, true, true, false]);
}

#[test]
fn rules_that_change_while_it_is_asked_are_seen_before_it_sleeps() {
    let fleet = Fleet::of(1, &rules(SLOW));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    let first = tasks.spawn(decide(&server.engine, "user=1", 1));
    tasks.run_woken();
    fleet.remote.is(Mood::Dawdles);
    let second = tasks.spawn(decide(&server.engine, "user=1", 1));
    tasks.run_woken();
    server.reload("{ domain: api, rules: [] }");
    fleet.remote.is(Mood::Answers);
    tasks.run_woken();
    assert_eq!(passed(&tasks, &[first, second]), [true, true]);
}

/// Dropped in front while it is asked, it leaves its place to the next, and what it was charged stays charged.
#[test]
fn one_that_is_dropped_while_it_is_asked_holds_nobody_up() {
    let fleet = Fleet::of(1, &rules(SLOW));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    fleet.remote.is(Mood::Dawdles);
    let all = [(); 3].map(|()| tasks.spawn(decide(&server.engine, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(server.engine.held(), 0, "nobody was told to wait yet");
    tasks.drop_task(all[0]);
    fleet.remote.is(Mood::Answers);
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [None, Some(1000), Some(2000)]);
    assert_eq!(server.engine.held(), 0);
}

/// The same of one that waits already, and asks again.
#[test]
fn one_that_is_dropped_while_it_is_asked_in_line_holds_nobody_up() {
    let fleet = Fleet::of(1, &rules(SLOW));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    let all = [(); 4].map(|()| tasks.spawn(decide(&server.engine, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(server.engine.held(), 3);
    fleet.remote.is(Mood::Dawdles);
    tasks.run_until(Timestamp::from_nanos(1_000_000_000));
    tasks.drop_task(all[1]);
    assert_eq!(server.engine.held(), 2);
    fleet.remote.is(Mood::Answers);
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [Some(0), None, Some(2000), Some(3000)]);
    assert_eq!(server.engine.held(), 0);
}

/// Behind one that is being answered everybody waits, and time goes on.
#[test]
fn those_behind_hear_in_time_though_the_answer_takes_long() {
    let fleet = Fleet::of(1, &rules(SLOW));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    fleet.remote.is(Mood::Dawdles);
    let all = [(); 3].map(|()| tasks.spawn(decide(&server.engine, "user=1", 1)));
    tasks.run_up_to(Timestamp::from_nanos(7_000_000_000));
    fleet.remote.is(Mood::Answers);
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, false, false], "it was asked in time, the others were not");
    assert_eq!(done_ms(&tasks, &all), [Some(7000); 3]);
    // They were charged nothing.
    assert_eq!(server.passing("user=1", 3), 1);
}

#[test]
fn a_request_that_no_limit_holds_waits_for_the_store_alone() {
    let fleet = Fleet::of(1, &rules("key: [user], limit: 1 per second"));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    fleet.remote.is(Mood::Dawdles);
    let all = [(); 2].map(|()| tasks.spawn(decide(&server.engine, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(done_ms(&tasks, &all), [None, None]);
    assert_eq!(fleet.remote.questions(), 2, "they are asked together");
    assert_eq!(server.engine.held(), 0);
    fleet.remote.answer();
    tasks.run_woken();
    assert_eq!(passed(&tasks, &all), [true, false]);
    assert_eq!(tasks.polls_of_all(), 4);
}

/// What a candidate is asked after an answer that took long has the rest of the budget and no more; whoever comes next has
/// all of it.
#[test]
fn all_questions_about_a_request_share_one_budget() {
    let fleet = Fleet::of(1, &rules("key: [user], limit: 5 per second, candidate: 1 per second"));
    let server = fleet.first();
    let mut tasks = Executor::new(&server.clock);
    fleet.remote.is(Mood::Dawdles);
    tasks.spawn(decide(&server.engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), fleet.remote.spent().len()), (1, 0));
    server.clock.advance(Duration::from_millis(7));
    fleet.remote.answer();
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), fleet.remote.spent()), (2, vec![Duration::from_millis(7)]));
    fleet.remote.is(Mood::Answers);
    tasks.run_woken();
    tasks.spawn(decide(&server.engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!((fleet.remote.questions(), fleet.remote.spent().len()), (4, 1));
}
