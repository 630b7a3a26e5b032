//! Whatever happens meanwhile, everybody who waits hears in time what becomes of it.

use proptest::prelude::*;
use tidegate::Timestamp;

use super::{DecideResult, decide};
use crate::engine::bench::{EngineFixture, with_request};
use crate::engine::setup::{Setup, over_each_store};
use crate::executor::{Executor, Task};

/// Two limits that hold requests and that cross: each user asks several hosts, each host is asked by several users.
/// And one that holds nobody, and one that looks on.
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
    // Others, beside which the old ones are in force for a while.
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

/// The longest that any rule holds a request.
const MAX_WAIT_MS: u64 = 4000;

#[derive(Clone, Debug)]
enum Event {
    Come { request: usize, cost: u64 },
    Drop(usize),
    Past { request: usize },
    Refund { request: usize },
    Reset { request: usize },
    Push(u32),
    Reload(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let request = || 0..REQUESTS.len();
    prop_oneof![
        12 => (request(), 0_u64..3).prop_map(|(request, cost)| Event::Come { request, cost }),
        2 => (0_usize..50).prop_map(Event::Drop),
        1 => request().prop_map(|request| Event::Past { request }),
        1 => request().prop_map(|request| Event::Refund { request }),
        1 => request().prop_map(|request| Event::Reset { request }),
        1 => (0_u32..=10).prop_map(Event::Push),
        1 => (0..RULES.len()).prop_map(Event::Reload),
    ]
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let gap_ms = prop_oneof![3 => Just(0), 2 => 0..400_u64, 1 => 0..2000_u64];
    prop::collection::vec((gap_ms, event()), 1..60)
}

/// A request that came, when, and whether it was dropped.
struct SpawnedRequest {
    task: Task,
    at_ms: u64,
    dropped: bool,
}

fn apply<'a>(
    bench: &'a EngineFixture,
    tasks: &mut Executor<'a, DecideResult>,
    came: &mut Vec<SpawnedRequest>,
    event: &Event,
    at_ms: u64,
) {
    match event {
        Event::Come { request, cost } => {
            let task = tasks.spawn(decide(&bench.engine, REQUESTS[*request], *cost));
            came.push(SpawnedRequest { task, at_ms, dropped: false });
        }
        Event::Drop(number) if !came.is_empty() => {
            let number = number % came.len();
            came[number].dropped = true;
            tasks.drop_task(came[number].task);
        }
        Event::Drop(_) => {}
        Event::Past { request } => {
            bench.check(REQUESTS[*request]);
        }
        Event::Refund { request } => {
            with_request(REQUESTS[*request], 1, |request| bench.setup.refund(&bench.engine, request));
        }
        Event::Reset { request } => {
            with_request(REQUESTS[*request], 1, |request| bench.setup.reset(&bench.engine, request));
        }
        Event::Push(tenths) => {
            let level = tidegate::rules::Level::from_millionths(tenths * 100_000).unwrap();
            // Not all of the rules go by it.
            let _ = bench.engine.push_signal("load", level);
        }
        Event::Reload(rules) => bench.reload(RULES[*rules]),
    }
}

fn every_request_is_answered_in_time(setup: Setup) {
    proptest!(tidegate_testing::proptest_config(64), |(events in events())| {
        let bench = setup.fixture(RULES[0]);
        let mut tasks = bench.tasks();
        let (mut now_ms, mut came) = (0, Vec::new());
        for (gap_ms, event) in &events {
            now_ms += gap_ms;
            tasks.run_until(Timestamp::from_nanos(now_ms * 1_000_000));
            apply(&bench, &mut tasks, &mut came, event, now_ms);
        }
        tasks.run();
        prop_assert_eq!(bench.clock.sleepers(), 0);
        for one in &came {
            let Some(finished) = tasks.finished(one.task) else {
                prop_assert!(one.dropped, "{:?} sleeps on", one.task);
                continue;
            };
            let done_ms = finished.at.as_nanos() / 1_000_000;
            prop_assert!(done_ms - one.at_ms <= MAX_WAIT_MS, "{:?} was held for too long", one.task);
            let ended = &finished.output;
            prop_assert!(ended.waited_ms <= u128::from(done_ms - one.at_ms));
            prop_assert!(ended.refusal.is_none() || !ended.answer.kind.passes());
            prop_assert!(ended.answer.kind.passes() || ended.answer.retry_after_ms != Some(0));
        }
    });
}

over_each_store!(every_request_is_answered_in_time,);
