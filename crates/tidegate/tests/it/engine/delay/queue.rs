//! One queue: first come, first served, at the release rate of the limit.

use tidegate::rules::AnswerKind;
use tidegate::{Nanos, QUEUE_MAX_DEFAULT};

use super::{SLOW, finished_ms, fixture_with_rule, passed, result_of};
use crate::engine::setup::{Setup, over_each_store};
use crate::wait_result::Refusal;

fn waiters_are_admitted_in_order_as_the_limit_allows(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 6);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 1000, 2000, 3000, 4000, 5000].map(Some));
    assert_eq!(tasks.completion_order(), all);
    for (number, task) in all.iter().enumerate() {
        let ended = result_of(&tasks, *task);
        assert_eq!((ended.answer.kind, ended.waited_ms), (AnswerKind::Allowed, number as u128 * 1000));
        assert_eq!((ended.answer.delay_ms, ended.refusal), (0, None));
        assert!(tasks.polls(*task) <= 3, "{number} was polled {} times", tasks.polls(*task));
    }
    assert_eq!(tasks.sleepers_max, 1);
    assert_eq!(fixture.clock.sleepers(), 0);
}

fn a_request_that_would_exceed_max_wait_is_denied_immediately(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 8);
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), None, None, None, None, None, Some(0), Some(0)]);
    let denied = result_of(&tasks, all[6]);
    assert_eq!((denied.answer.kind, denied.waited_ms), (AnswerKind::Denied, 0));
    assert_eq!(denied.refusal, Some(Refusal::TooLong { wait: Some(Nanos::new(6_000_000_000)) }));
    // The wait includes all requests before it.
    assert_eq!((denied.answer.retry_after_ms, denied.answer.rule.as_deref()), (Some(6000), Some("slow")));
    // A second later one request has left, so a new one again has the same number before it.
    super::run_until_second(&fixture.clock, &mut tasks, 1);
    let next = fixture.spawn_requests(&mut tasks, "user=1", 2);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &next), [Some(6000), Some(1000)]);
    assert_eq!(passed(&tasks, &all[..6]), [true; 6]);
}

fn a_dropped_waiter_leaves_no_gap_and_charges_nothing(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 6);
    tasks.run_woken();
    // At the head, and further back.
    tasks.drop_task(all[1]);
    tasks.drop_task(all[3]);
    let last = fixture.spawn_requests(&mut tasks, "user=1", 2);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), None, Some(1000), None, Some(2000), Some(3000)]);
    assert_eq!(finished_ms(&tasks, &last), [Some(4000), Some(5000)]);
    assert_eq!(fixture.clock.sleepers(), 0);
    fixture.advance(1);
    assert_eq!(fixture.count_passing("user=1", 2), 1);
}

fn keys_have_separate_queues(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let one = fixture.spawn_requests(&mut tasks, "user=1", 4);
    let other = fixture.spawn_requests(&mut tasks, "user=2", 2);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &one), [0, 1000, 2000, 3000].map(Some));
    assert_eq!(finished_ms(&tasks, &other), [0, 1000].map(Some));
    assert_eq!(tasks.sleepers_max, 2);
}

fn a_full_queue_refuses_requests(setup: Setup) {
    let fixture = fixture_with_rule(
        setup,
        "key: [user], limit: 1 per millisecond, action: { delay: { max_wait: 1h } }",
    );
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", QUEUE_MAX_DEFAULT + 2);
    tasks.run_woken();
    // One has left, and those behind it are in the queue.
    let full = result_of(&tasks, all[QUEUE_MAX_DEFAULT + 1]);
    assert_eq!((full.answer.kind, full.refusal), (AnswerKind::Denied, Some(Refusal::QueueFull)));
    assert!(full.answer.retry_after_ms > Some(0));
    assert_eq!(finished_ms(&tasks, &all[1..=QUEUE_MAX_DEFAULT]), vec![None; QUEUE_MAX_DEFAULT]);
    let other = fixture.spawn_requests(&mut tasks, "user=2", 1);
    tasks.run();
    assert_eq!(passed(&tasks, &other), [true]);
    assert_eq!(finished_ms(&tasks, &all)[QUEUE_MAX_DEFAULT], Some(QUEUE_MAX_DEFAULT as u64));
}

fn no_request_overtakes_the_queue(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 2);
    tasks.run_woken();
    let late = fixture.spawn_requests(&mut tasks, "user=1", 1);
    // The head is due, and is polled after the new request.
    fixture.advance(1);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 1000].map(Some));
    assert_eq!(finished_ms(&tasks, &late), [Some(2000)]);
}

fn a_waiter_polled_after_its_deadline_is_denied_and_charges_nothing(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 2);
    tasks.run_woken();
    fixture.advance(6);
    tasks.run_woken();
    let late = result_of(&tasks, all[1]);
    assert_eq!((late.answer.kind, late.refusal), (AnswerKind::Denied, Some(Refusal::TooLong { wait: None })));
    assert_eq!(fixture.count_passing("user=1", 2), 1);
}

over_each_store!(
    waiters_are_admitted_in_order_as_the_limit_allows,
    a_request_that_would_exceed_max_wait_is_denied_immediately,
    a_dropped_waiter_leaves_no_gap_and_charges_nothing,
    keys_have_separate_queues,
    a_full_queue_refuses_requests,
    no_request_overtakes_the_queue,
    a_waiter_polled_after_its_deadline_is_denied_and_charges_nothing,
);
