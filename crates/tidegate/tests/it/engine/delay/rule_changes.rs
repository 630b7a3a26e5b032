//! Rules and signals that change while requests wait.

use std::sync::{Arc, Mutex};

use tidegate::clock::ManualSleep;
use tidegate::{Clock, ManualClock, Timer, Timestamp};

use super::{SLOW, decide, finished_ms, fixture_with_rule, passed, result_of, rules, run_until_second};
use crate::engine::fixture::{domains, with_request};
use crate::engine::setup::{Setup, over_each_store};
use crate::executor::Executor;
use crate::wait_result::Refusal;

fn a_higher_limit_applies_to_waiters_immediately(setup: Setup) {
    let fixture = fixture_with_rule(
        setup,
        "key: [user], limit: { limit: 1 per 5s, algorithm: fixed_window }, action: { delay: { max_wait: 20s } }",
    );
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 4);
    run_until_second(&fixture.clock, &mut tasks, 1);
    fixture.reload(&rules(
        "key: [user], limit: { limit: 3 per 5s, algorithm: fixed_window }, action: { delay: { max_wait: 20s } }",
    ));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 1000, 1000, 5000].map(Some));
    assert_eq!(tasks.completion_order(), all);
}

fn a_lower_limit_refuses_waiters_that_become_too_late(setup: Setup) {
    let fixture = fixture_with_rule(
        setup,
        "key: [user], limit: { limit: 2 per second, algorithm: fixed_window }, action: { delay: { max_wait: 2s } }",
    );
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 6);
    tasks.run_woken();
    fixture.reload(&rules(
        "key: [user], limit: { limit: 1 per second, algorithm: fixed_window }, action: { delay: { max_wait: 2s } }",
    ));
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true, true, true, false, false]);
    assert_eq!(finished_ms(&tasks, &all), [0, 0, 1000, 2000, 0, 0].map(Some));
    assert!(matches!(result_of(&tasks, all[4]).refusal, Some(Refusal::TooLong { .. })));
}

fn waiters_of_a_removed_rule_are_admitted_immediately(setup: Setup) {
    for without in ["{ domain: api, rules: [] }", "{ domain: other, rules: [] }"] {
        let fixture = fixture_with_rule(setup, SLOW);
        let mut tasks = fixture.tasks();
        let all = fixture.spawn_requests(&mut tasks, "user=1", 4);
        tasks.run_woken();
        fixture.reload(without);
        tasks.run();
        assert_eq!(finished_ms(&tasks, &all), [0; 4].map(Some));
        assert_eq!(passed(&tasks, &all), [true; 4]);
        assert_eq!(tasks.completion_order(), all);
    }
}

fn waiters_of_a_rule_that_now_denies_are_denied(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 3);
    tasks.run_woken();
    fixture.reload(&rules("key: [user], limit: 1 per second"));
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, false, false]);
    assert_eq!(finished_ms(&tasks, &all), [0; 3].map(Some));
}

fn a_new_algorithm_keeps_the_order_of_waiters(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 4);
    run_until_second(&fixture.clock, &mut tasks, 1);
    fixture.reload(&rules(
        "key: [user], limit: { limit: 1 per 2s, algorithm: fixed_window }, action: { delay: { max_wait: 9s } }",
    ));
    // A new request enters the new queue before the others have been woken to move there.
    let late = fixture.spawn_requests(&mut tasks, "user=1", 1);
    tasks.run();
    // The old limit stays for a second. The first window of the new one has one unit, for the first request.
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(1000), Some(2000), Some(4000)]);
    assert_eq!(finished_ms(&tasks, &late), [Some(6000)]);
}

fn a_renamed_rule_keeps_its_wait_queue(setup: Setup) {
    let fixture = fixture_with_rule(setup, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 3);
    tasks.run_woken();
    fixture.reload(&format!("{{ domain: api, rules: [ {{ name: calm, was: slow, {SLOW} }} ] }}"));
    tasks.run();
    assert_eq!(finished_ms(&tasks, &all), [0, 1000, 2000].map(Some));
    assert_eq!(result_of(&tasks, all[2]).answer.rule.as_deref(), Some("calm"));
}

fn a_refund_goes_to_the_head_of_the_queue(setup: Setup) {
    for refunds in [true, false] {
        let fixture = fixture_with_rule(
            setup,
            "key: [user], limit: { limit: 2 per 4s, algorithm: fixed_window }, action: { delay: { max_wait: 9s } }",
        );
        let mut tasks = fixture.tasks();
        let all = fixture.spawn_requests(&mut tasks, "user=1", 5);
        run_until_second(&fixture.clock, &mut tasks, 1);
        with_request("user=1", 1, |request| {
            if refunds {
                setup.refund(&fixture.engine, request);
            } else {
                setup.reset(&fixture.engine, request);
            }
        });
        tasks.run();
        let next = if refunds { 4000 } else { 1000 };
        assert_eq!(finished_ms(&tasks, &all), [0, 0, 1000, next, 4000].map(Some));
    }
}

/// A clock that runs a function when it is read next: in the middle of a decision.
#[derive(Clone, Default)]
struct TripwireClock {
    clock: ManualClock,
    next: Arc<Mutex<Option<Callback>>>,
}

type Callback = Box<dyn FnOnce() + Send>;

impl Clock for TripwireClock {
    fn now(&self) -> Timestamp {
        let callback = self.next.lock().unwrap().take();
        if let Some(callback) = callback {
            callback();
        }
        self.clock.now()
    }
}

impl Timer for TripwireClock {
    type Sleep = ManualSleep;

    fn sleep_until(&self, at: Timestamp) -> ManualSleep {
        self.clock.sleep_until(at)
    }
}

fn a_request_entering_the_queue_sees_replaced_rules(setup: Setup) {
    let clock = TripwireClock::default();
    let engine = Arc::new(setup.engine(domains(&rules(SLOW)), clock.clone()));
    let mut tasks = Executor::new(&clock.clock);
    let first = tasks.spawn(decide(&engine, "user=1", 1));
    tasks.run_woken();
    let replacing = engine.clone();
    // It has read the rules, and is in no queue yet where a change could wake it.
    *clock.next.lock().unwrap() = Some(Box::new(move || replacing.replace(Vec::new()).unwrap()));
    let second = tasks.spawn(decide(&engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &[first, second]), [Some(0), Some(0)]);
    assert_eq!(passed(&tasks, &[first, second]), [true, true]);
}

over_each_store!(
    a_higher_limit_applies_to_waiters_immediately,
    a_lower_limit_refuses_waiters_that_become_too_late,
    waiters_of_a_removed_rule_are_admitted_immediately,
    waiters_of_a_rule_that_now_denies_are_denied,
    a_new_algorithm_keeps_the_order_of_waiters,
    a_renamed_rule_keeps_its_wait_queue,
    a_refund_goes_to_the_head_of_the_queue,
    a_request_entering_the_queue_sees_replaced_rules,
);
