//! The answers to requests that may wait, and what they leave charged.

use tidegate::rules::AnswerKind;

use super::{SLOW, decide, finished_ms, fixture_with_rule, passed, result_of};
use crate::engine::setup::{Setup, over_each_store};
use crate::wait_result::Refusal;

fn a_check_does_not_wait(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    assert_eq!(fixture.kinds("user=1", 2), [AnswerKind::Allowed, AnswerKind::Denied]);
    assert_eq!(fixture.check("user=1").retry_after_ms, Some(1000));
}

fn without_a_delay_decide_answers_as_check(setup: Setup) {
    for rule in ["key: [user], limit: 1 per second", SLOW] {
        let (fixture, same) = (fixture_with_rule(setup, rule), fixture_with_rule(setup, rule));
        let mut tasks = fixture.tasks();
        let task = tasks.spawn(decide(&fixture.engine, "user=1", 1));
        tasks.run_woken();
        let ended = result_of(&tasks, task);
        assert_eq!((ended.answer, ended.waited_ms, ended.refusal), (same.check("user=1"), 0, None));
    }
}

fn a_leaky_bucket_reports_the_delay_to_the_caller(setup: Setup) {
    let fixture = fixture_with_rule(
        setup,
        "key: [user], limit: { limit: 1 per second, algorithm: leaky_bucket, queue: 1 }, action: { delay: { max_wait: 2s } }",
    );
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 5);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 0, 1000, 2000, 0].map(Some));
    let summary = |number: usize| {
        let ended = result_of(&tasks, all[number]);
        (ended.answer.kind, ended.answer.delay_ms, ended.waited_ms)
    };
    assert_eq!([summary(0), summary(1)], [(AnswerKind::Allowed, 0, 0), (AnswerKind::Delayed, 1000, 0)]);
    assert_eq!(
        [summary(2), summary(3)],
        [(AnswerKind::Delayed, 1000, 1000), (AnswerKind::Delayed, 1000, 2000)]
    );
    assert_eq!(summary(4).0, AnswerKind::Denied);
}

fn a_cost_above_the_limit_is_denied_for_good(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let alone = tasks.spawn(decide(&fixture.engine, "user=1", 2));
    fixture.spawn_requests(&mut tasks, "user=1", 2);
    let behind = tasks.spawn(decide(&fixture.engine, "user=1", 2));
    tasks.run_woken();
    for task in [alone, behind] {
        let ended = result_of(&tasks, task);
        assert_eq!((ended.answer.kind, ended.answer.retry_after_ms), (AnswerKind::Denied, None));
        assert_eq!((ended.refusal, ended.waited_ms), (Some(Refusal::Never), 0));
    }
}

fn a_request_without_a_key_is_denied_without_waiting(setup: Setup) {
    let fixture = fixture_with_rule(setup, &format!("{SLOW}, missing: deny"));
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "host=a", 1);
    tasks.run_woken();
    assert_eq!(passed(&tasks, &all), [false]);
    assert_eq!(result_of(&tasks, all[0]).answer.retry_after_ms, None);
}

fn waiting_is_not_counted_as_attempts(setup: Setup) {
    let fixture = setup.fixture(
        "
domain: api
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - { name: all, limit: { limit: 3 per hour, algorithm: sliding_log, count_denied: true } }
",
    );
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 4);
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 1000, 2000, 2000].map(Some));
    assert_eq!(passed(&tasks, &all), [true, true, true, false]);
    // The denied attempt counts: with it there are three after the first has left the window.
    fixture.advance(3598);
    assert_eq!(fixture.count_passing("user=2", 1), 0);
}

fn a_candidate_is_asked_once_per_request(setup: Setup) {
    let fixture = fixture_with_rule(
        setup,
        &format!("{SLOW}, candidate: {{ limit: 100 per hour, algorithm: fixed_window }}"),
    );
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 4);
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true; 4]);
    let remaining = |request: &tidegate::rules::Request<'_>| {
        fixture
            .setup
            .peek(&fixture.engine, request, |answer| answer.candidates().next().unwrap().outcome.remaining)
    };
    // As the next request would find it.
    assert_eq!(crate::engine::fixture::with_request("user=1", 1, remaining), 95);
}

fn requests_wait_for_leases_until_their_deadline(setup: Setup) {
    let fixture = fixture_with_rule(
        setup,
        "key: [user], limit: { algorithm: concurrency, limit: 1, ttl: 2s }, action: { delay: { max_wait: 3s } }",
    );
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 3);
    tasks.run();
    // It is not known when a lease ends, so the third waits until its deadline.
    assert_eq!(finished_ms(&tasks, &all), [0, 2000, 3000].map(Some));
    assert_eq!(passed(&tasks, &all), [true, true, false]);
}

over_each_store!(
    a_check_does_not_wait,
    without_a_delay_decide_answers_as_check,
    a_leaky_bucket_reports_the_delay_to_the_caller,
    a_cost_above_the_limit_is_denied_for_good,
    a_request_without_a_key_is_denied_without_waiting,
    waiting_is_not_counted_as_attempts,
    a_candidate_is_asked_once_per_request,
    requests_wait_for_leases_until_their_deadline,
);
