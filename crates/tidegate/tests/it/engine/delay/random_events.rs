//! After random events, every waiting request gets an answer in time.

use proptest::prelude::*;
use tidegate::Timestamp;

use super::{DecideResult, decide};
use crate::engine::fixture::{EngineFixture, with_request};
use crate::engine::setup::{Setup, over_each_store};
use crate::executor::{Executor, Task};

/// Two limits with the action `delay` that overlap: each user asks several hosts, and each host is asked by several
/// users. In addition, one limit that does not delay, and one that is observed.
const RULES: [&str; 4] = [
    "
domain: api
rules:
  - { name: user, key: [user], limit: { limit: 2 per second, burst: 1 }, action: { delay: { max_wait: 4s } } }
  - { name: host, key: [host], limit: { limit: 3 per second, algorithm: fixed_window }, action: { delay: { max_wait: 3s } } }
  - { name: all, limit: { limit: 30 per 10s, algorithm: sliding_log }, action: { elastic: { min: 9, max: 40, signal: load } } }
",
    // The same counters with other numbers.
    "
domain: api
rules:
  - { name: user, key: [user], limit: { limit: 4 per second, burst: 2 }, action: { delay: { max_wait: 1s } } }
  - { name: host, key: [host], limit: { limit: 1 per second, algorithm: fixed_window }, action: { delay: { max_wait: 3s } } }
  - { name: all, limit: { limit: 30 per 10s, algorithm: sliding_log }, action: shadow }
",
    // Other counters. The old ones stay enforced beside them for a while.
    "
domain: api
rules:
  - { name: user, key: [user], limit: { limit: 2 per 2s, algorithm: sliding_window }, action: { delay: { max_wait: 4s } } }
  - { name: host, key: [host], limit: { limit: 2, ttl: 1s, algorithm: concurrency }, action: { delay: { max_wait: 4s } } }
  - { name: all, limit: { limit: 30 per 10s, algorithm: sliding_log }, action: { elastic: { min: 9, max: 40, signal: load } } }
",
    "{ domain: api, rules: [ { name: host, key: [host], limit: 1 per second } ] }",
];

const REQUESTS: [&str; 4] = ["user=1 host=a", "user=1 host=b", "user=2 host=a", "user=2"];

/// The longest wait of any rule.
const MAX_WAIT_MS: u64 = 4000;

#[derive(Clone, Debug)]
enum Event {
    Arrive { request: usize, cost: u64 },
    Drop(usize),
    Check { request: usize },
    Refund { request: usize },
    Reset { request: usize },
    PushSignal(u32),
    Reload(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let request = || 0..REQUESTS.len();
    prop_oneof![
        12 => (request(), 0_u64..3).prop_map(|(request, cost)| Event::Arrive { request, cost }),
        2 => (0_usize..50).prop_map(Event::Drop),
        1 => request().prop_map(|request| Event::Check { request }),
        1 => request().prop_map(|request| Event::Refund { request }),
        1 => request().prop_map(|request| Event::Reset { request }),
        1 => (0_u32..=10).prop_map(Event::PushSignal),
        1 => (0..RULES.len()).prop_map(Event::Reload),
    ]
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let gap_ms = prop_oneof![3 => Just(0), 2 => 0..400_u64, 1 => 0..2000_u64];
    prop::collection::vec((gap_ms, event()), 1..60)
}

/// A request, when it arrived, and whether it was dropped.
struct SpawnedRequest {
    task: Task,
    at_ms: u64,
    dropped: bool,
}

fn apply<'a>(
    fixture: &'a EngineFixture,
    tasks: &mut Executor<'a, DecideResult>,
    spawned: &mut Vec<SpawnedRequest>,
    event: &Event,
    at_ms: u64,
) {
    match event {
        Event::Arrive { request, cost } => {
            let task = tasks.spawn(decide(&fixture.engine, REQUESTS[*request], *cost));
            spawned.push(SpawnedRequest { task, at_ms, dropped: false });
        }
        Event::Drop(number) if !spawned.is_empty() => {
            let number = number % spawned.len();
            spawned[number].dropped = true;
            tasks.drop_task(spawned[number].task);
        }
        Event::Drop(_) => {}
        Event::Check { request } => {
            fixture.check(REQUESTS[*request]);
        }
        Event::Refund { request } => {
            with_request(REQUESTS[*request], 1, |request| fixture.setup.refund(&fixture.engine, request));
        }
        Event::Reset { request } => {
            with_request(REQUESTS[*request], 1, |request| fixture.setup.reset(&fixture.engine, request));
        }
        Event::PushSignal(tenths) => {
            let level = tidegate::rules::Level::from_millionths(tenths * 100_000).unwrap();
            // Not all of the rules use this signal.
            let _ = fixture.engine.push_signal("load", level);
        }
        Event::Reload(rules) => fixture.reload(RULES[*rules]),
    }
}

fn every_request_is_answered_in_time(setup: Setup) {
    proptest!(tidegate_testing::proptest_config(64), |(events in events())| {
        let fixture = setup.fixture(RULES[0]);
        let mut tasks = fixture.tasks();
        let (mut now_ms, mut spawned) = (0, Vec::new());
        for (gap_ms, event) in &events {
            now_ms += gap_ms;
            tasks.run_until(Timestamp::from_nanos(now_ms * 1_000_000));
            apply(&fixture, &mut tasks, &mut spawned, event, now_ms);
        }
        tasks.run();
        prop_assert_eq!(fixture.clock.sleepers(), 0);
        for one in &spawned {
            let Some(finished) = tasks.finished(one.task) else {
                prop_assert!(one.dropped, "{:?} did not end", one.task);
                continue;
            };
            let done_ms = finished.at.as_nanos() / 1_000_000;
            prop_assert!(done_ms - one.at_ms <= MAX_WAIT_MS, "{:?} waited for too long", one.task);
            let ended = &finished.output;
            prop_assert!(ended.waited_ms <= u128::from(done_ms - one.at_ms));
            prop_assert!(ended.refusal.is_none() || !ended.answer.kind.passes());
            prop_assert!(ended.answer.kind.passes() || ended.answer.retry_after_ms != Some(0));
        }
    });
}

over_each_store!(every_request_is_answered_in_time,);
