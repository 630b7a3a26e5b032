//! What requests are told that may be held, and what they leave behind.

use tidegate::rules::Fate;

use super::{SLOW, bench, decide, done_ms, ended, passed};
use crate::engine::setup::{Setup, over_each_store};
use crate::turn::Refusal;

fn a_check_does_not_wait(setup: Setup) {
    let bench = bench(setup, SLOW);
    assert_eq!(bench.fates("user=1", 2), [Fate::Allowed, Fate::Denied]);
    assert_eq!(bench.ask("user=1").retry_after_ms, Some(1000));
}

fn a_request_that_no_limit_holds_is_told_what_a_check_is_told(setup: Setup) {
    for rule in ["key: [user], limit: 1 per second", SLOW] {
        let (bench, same) = (bench(setup, rule), bench(setup, rule));
        let mut tasks = bench.tasks();
        let task = tasks.spawn(decide(&bench.engine, "user=1", 1));
        tasks.run_woken();
        let ended = ended(&tasks, task);
        assert_eq!((ended.told, ended.waited_ms, ended.refusal), (same.ask("user=1"), 0, None));
    }
}

fn a_leaky_bucket_says_how_long_it_holds_and_the_caller_does(setup: Setup) {
    let bench = bench(
        setup,
        "key: [user], limit: { limit: 1 per second, algorithm: leaky_bucket, queue: 1 }, action: { delay: { max_wait: 2s } }",
    );
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 5);
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 0, 1000, 2000, 0].map(Some));
    let told = |number: usize| {
        let ended = ended(&tasks, all[number]);
        (ended.told.fate, ended.told.delay_ms, ended.waited_ms)
    };
    assert_eq!([told(0), told(1)], [(Fate::Allowed, 0, 0), (Fate::Delayed, 1000, 0)]);
    assert_eq!([told(2), told(3)], [(Fate::Delayed, 1000, 1000), (Fate::Delayed, 1000, 2000)]);
    assert_eq!(told(4).0, Fate::Denied);
}

fn who_asks_for_more_than_there_ever_is_is_denied_for_good(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let alone = tasks.spawn(decide(&bench.engine, "user=1", 2));
    bench.come(&mut tasks, "user=1", 2);
    let behind = tasks.spawn(decide(&bench.engine, "user=1", 2));
    tasks.run_woken();
    for task in [alone, behind] {
        let ended = ended(&tasks, task);
        assert_eq!((ended.told.fate, ended.told.retry_after_ms), (Fate::Denied, None));
        assert_eq!((ended.refusal, ended.waited_ms), (Some(Refusal::Never), 0));
    }
}

fn a_request_without_a_key_is_denied_and_not_held(setup: Setup) {
    let bench = bench(setup, &format!("{SLOW}, missing: deny"));
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "host=a", 1);
    tasks.run_woken();
    assert_eq!(passed(&tasks, &all), [false]);
    assert_eq!(ended(&tasks, all[0]).told.retry_after_ms, None);
}

fn waiting_is_not_counted_as_attempts(setup: Setup) {
    let bench = setup.bench(
        "
domain: api
rules:
  - { name: slow, key: [user], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - { name: all, limit: { limit: 3 per hour, algorithm: sliding_log, count_denied: true } }
",
    );
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 4);
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 1000, 2000, 2000].map(Some));
    assert_eq!(passed(&tasks, &all), [true, true, true, false]);
    // The attempt that was denied counts: with it there are three after the first is out.
    bench.advance(3598);
    assert_eq!(bench.passing("user=2", 1), 0);
}

fn a_limit_that_is_tried_out_is_asked_once_for_each_request(setup: Setup) {
    let bench =
        bench(setup, &format!("{SLOW}, candidate: {{ limit: 100 per hour, algorithm: fixed_window }}"));
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 4);
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true; 4]);
    let remaining = |request: &tidegate::rules::Request<'_>| {
        bench
            .setup
            .peek(&bench.engine, request, |answer| answer.candidates().next().unwrap().outcome.remaining)
    };
    // As the next would find it.
    assert_eq!(crate::engine::bench::with_request("user=1", 1, remaining), 95);
}

fn leases_hold_requests_until_they_are_over_and_deadlines_are_kept(setup: Setup) {
    let bench = bench(
        setup,
        "key: [user], limit: { algorithm: concurrency, limit: 1, ttl: 2s }, action: { delay: { max_wait: 3s } }",
    );
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 3);
    tasks.run();
    // Nobody knows when a lease ends, so the third is held until its time is over.
    assert_eq!(done_ms(&tasks, &all), [0, 2000, 3000].map(Some));
    assert_eq!(passed(&tasks, &all), [true, true, false]);
}

over_each_store!(
    a_check_does_not_wait,
    a_request_that_no_limit_holds_is_told_what_a_check_is_told,
    a_leaky_bucket_says_how_long_it_holds_and_the_caller_does,
    who_asks_for_more_than_there_ever_is_is_denied_for_good,
    a_request_without_a_key_is_denied_and_not_held,
    waiting_is_not_counted_as_attempts,
    a_limit_that_is_tried_out_is_asked_once_for_each_request,
    leases_hold_requests_until_they_are_over_and_deadlines_are_kept,
);
