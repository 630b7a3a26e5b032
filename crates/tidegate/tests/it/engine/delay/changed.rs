//! What changes while requests wait.

use std::sync::{Arc, Mutex};

use tidegate::clock::ManualSleep;
use tidegate::{Clock, ManualClock, Timer, Timestamp};

use super::{SLOW, bench, decide, done_ms, ended, passed, rules, set_seconds};
use crate::engine::bench::{domains, with_request};
use crate::engine::setup::{Setup, over_each_store};
use crate::executor::Executor;
use crate::turn::Refusal;

fn a_higher_limit_is_there_at_once_for_those_who_wait(setup: Setup) {
    let bench = bench(
        setup,
        "key: [user], limit: { limit: 1 per 5s, algorithm: fixed_window }, action: { delay: { max_wait: 20s } }",
    );
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 4);
    set_seconds(&bench.clock, &mut tasks, 1);
    bench.reload(&rules(
        "key: [user], limit: { limit: 3 per 5s, algorithm: fixed_window }, action: { delay: { max_wait: 20s } }",
    ));
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 1000, 1000, 5000].map(Some));
    assert_eq!(tasks.order(), all);
}

fn a_lower_limit_refuses_those_who_cannot_make_it_any_more(setup: Setup) {
    let bench = bench(
        setup,
        "key: [user], limit: { limit: 2 per second, algorithm: fixed_window }, action: { delay: { max_wait: 2s } }",
    );
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 6);
    tasks.run_woken();
    bench.reload(&rules(
        "key: [user], limit: { limit: 1 per second, algorithm: fixed_window }, action: { delay: { max_wait: 2s } }",
    ));
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true, true, true, false, false]);
    assert_eq!(done_ms(&tasks, &all), [0, 0, 1000, 2000, 0, 0].map(Some));
    assert!(matches!(ended(&tasks, all[4]).refusal, Some(Refusal::TooLong { .. })));
}

fn those_who_wait_for_a_rule_that_goes_go_on_at_once(setup: Setup) {
    for without in ["{ domain: api, rules: [] }", "{ domain: other, rules: [] }"] {
        let bench = bench(setup, SLOW);
        let mut tasks = bench.tasks();
        let all = bench.come(&mut tasks, "user=1", 4);
        tasks.run_woken();
        bench.reload(without);
        tasks.run();
        assert_eq!(done_ms(&tasks, &all), [0; 4].map(Some));
        assert_eq!(passed(&tasks, &all), [true; 4]);
        assert_eq!(tasks.order(), all);
    }
}

fn those_who_wait_for_a_rule_that_denies_from_now_on_are_denied(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 3);
    tasks.run_woken();
    bench.reload(&rules("key: [user], limit: 1 per second"));
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, false, false]);
    assert_eq!(done_ms(&tasks, &all), [0; 3].map(Some));
}

fn a_limit_that_counts_in_another_way_has_them_in_the_order_they_came(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 4);
    set_seconds(&bench.clock, &mut tasks, 1);
    bench.reload(&rules(
        "key: [user], limit: { limit: 1 per 2s, algorithm: fixed_window }, action: { delay: { max_wait: 9s } }",
    ));
    // Who comes now stands in the new line before the others have been told to go there.
    let late = bench.come(&mut tasks, "user=1", 1);
    tasks.run();
    // The old limit stays for a second; the first window of the new one has one for whoever is first.
    assert_eq!(done_ms(&tasks, &all), [Some(0), Some(1000), Some(2000), Some(4000)]);
    assert_eq!(done_ms(&tasks, &late), [Some(6000)]);
}

fn another_name_keeps_the_line(setup: Setup) {
    let bench = bench(setup, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 3);
    tasks.run_woken();
    bench.reload(&format!("{{ domain: api, rules: [ {{ name: calm, was: slow, {SLOW} }} ] }}"));
    tasks.run();
    assert_eq!(done_ms(&tasks, &all), [0, 1000, 2000].map(Some));
    assert_eq!(ended(&tasks, all[2]).told.rule.as_deref(), Some("calm"));
}

fn what_is_given_back_goes_to_the_one_in_front(setup: Setup) {
    for gives_back in [true, false] {
        let bench = bench(
            setup,
            "key: [user], limit: { limit: 2 per 4s, algorithm: fixed_window }, action: { delay: { max_wait: 9s } }",
        );
        let mut tasks = bench.tasks();
        let all = bench.come(&mut tasks, "user=1", 5);
        set_seconds(&bench.clock, &mut tasks, 1);
        with_request("user=1", 1, |request| {
            if gives_back {
                setup.refund(&bench.engine, request);
            } else {
                setup.reset(&bench.engine, request);
            }
        });
        tasks.run();
        let next = if gives_back { 4000 } else { 1000 };
        assert_eq!(done_ms(&tasks, &all), [0, 0, 1000, next, 4000].map(Some));
    }
}

/// A clock that lets something happen when it is looked at next: in the middle of a decision.
#[derive(Clone, Default)]
struct Tripwire {
    clock: ManualClock,
    next: Arc<Mutex<Option<Happening>>>,
}

type Happening = Box<dyn FnOnce() + Send>;

impl Clock for Tripwire {
    fn now(&self) -> Timestamp {
        let happening = self.next.lock().unwrap().take();
        if let Some(happening) = happening {
            happening();
        }
        self.clock.now()
    }
}

impl Timer for Tripwire {
    type Sleep = ManualSleep;

    fn sleep_until(&self, at: Timestamp) -> ManualSleep {
        self.clock.sleep_until(at)
    }
}

fn rules_that_are_replaced_while_somebody_gets_in_line_are_seen(setup: Setup) {
    let clock = Tripwire::default();
    let engine = Arc::new(setup.engine(domains(&rules(SLOW)), clock.clone()));
    let mut tasks = Executor::new(&clock.clock);
    let first = tasks.spawn(decide(&engine, "user=1", 1));
    tasks.run_woken();
    let replacing = engine.clone();
    // It has looked at the rules, and is in no line yet in which it could be found.
    *clock.next.lock().unwrap() = Some(Box::new(move || replacing.replace(Vec::new()).unwrap()));
    let second = tasks.spawn(decide(&engine, "user=1", 1));
    tasks.run_woken();
    assert_eq!(done_ms(&tasks, &[first, second]), [Some(0), Some(0)]);
    assert_eq!(passed(&tasks, &[first, second]), [true, true]);
}

over_each_store!(
    a_higher_limit_is_there_at_once_for_those_who_wait,
    a_lower_limit_refuses_those_who_cannot_make_it_any_more,
    those_who_wait_for_a_rule_that_goes_go_on_at_once,
    those_who_wait_for_a_rule_that_denies_from_now_on_are_denied,
    a_limit_that_counts_in_another_way_has_them_in_the_order_they_came,
    another_name_keeps_the_line,
    what_is_given_back_goes_to_the_one_in_front,
    rules_that_are_replaced_while_somebody_gets_in_line_are_seen,
);
