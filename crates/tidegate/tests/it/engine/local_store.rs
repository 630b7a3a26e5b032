//! What is exact only if an engine counts in its own store.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::rules::AnswerKind;
use tidegate::store::NodeStore;
use tidegate::{Clock, Engine, Limiter, ManualClock, MemoryStore, Timestamp};

use crate::engine::delay::{SLOW, decide, finished_ms, fixture_with_rule, passed, rules};
use crate::engine::fixture::{domains, with_request};
use crate::engine::setup::{Setup, TestEngine};
use crate::engine::shared_engine::expect_ready;
use crate::executor::Executor;
use crate::wait_result::{Refusal, WaitResult, wait_result};

#[test]
fn a_refund_through_another_engine_wakes_the_waiter() {
    let clock = ManualClock::default();
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let engine = || {
        let store = NodeStore::Local(store.clone());
        Engine::with_store(domains(&rules(SLOW)), store, clock.clone()).unwrap()
    };
    let (one, other) = (engine(), engine());
    let mut tasks = Executor::new(&clock);
    let all = [(); 2].map(|()| tasks.spawn(decide(&one, "user=1", 1)));
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), None]);
    with_request("user=1", 1, |request| expect_ready(other.refund(request, None)).unwrap());
    tasks.run_woken();
    assert_eq!(finished_ms(&tasks, &all), [Some(0), Some(0)]);
}

/// What `docs/rules.md` says about a changed window: a reload enforces the old limit too, a restart does not know it.
#[test]
fn a_restart_with_another_window_starts_empty_and_a_reload_does_not() {
    let clock = ManualClock::default();
    let file = |limit: &str| domains(&format!("{{ domain: api, rules: [ {{ name: a, limit: {limit} }} ] }}"));
    let (old, new) = (
        "{ limit: 5 per minute, algorithm: fixed_window }",
        "{ limit: 5 per hour, algorithm: fixed_window }",
    );
    let start = |store: &Arc<MemoryStore>, limit| {
        Engine::with_store(file(limit), NodeStore::Local(store.clone()), clock.clone()).unwrap()
    };
    let count_passing = |engine: &TestEngine<ManualClock>| {
        let passes = || {
            with_request("user=1", 1, |request| {
                expect_ready(engine.check(request)).unwrap().answer.kind.passes()
            })
        };
        (0..9).filter(|_| passes()).count()
    };
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let before = start(&store, old);
    assert_eq!(count_passing(&before), 5);
    before.replace(file(new)).unwrap();
    assert_eq!(count_passing(&before), 0);
    assert_eq!(count_passing(&start(&store, new)), 5);
}

#[test]
fn a_longer_max_wait_does_not_extend_a_deadline() {
    let fixture = fixture_with_rule(Setup::Local, SLOW);
    let mut tasks = fixture.tasks();
    let all = fixture.spawn_requests(&mut tasks, "user=1", 6);
    tasks.run_woken();
    // A check takes a unit although requests wait, so the last waiter is a second too late.
    tasks.run_up_to(Timestamp::from_nanos(1_000_000_000));
    assert_eq!(fixture.check("user=1").kind, AnswerKind::Allowed);
    fixture.reload(&rules(&SLOW.replace("5s", "50s")));
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true, true, true, true, false]);
}

/// How long after the one before a request arrives, its cost, and whether it is dropped after a while.
fn requests() -> impl Strategy<Value = Vec<(u64, u64, Option<u64>)>> {
    let gap_ms = prop_oneof![Just(0), 0..900_u64, Just(3000)];
    let dropped_ms = prop_oneof![2 => Just(None), 1 => (0..2500_u64).prop_map(Some)];
    prop::collection::vec((gap_ms, 1_u64..4, dropped_ms), 1..30)
}

const LIMITS: [&str; 4] = [
    "{ algorithm: gcra, limit: 3, per: 1s, burst: 3 }",
    "{ algorithm: fixed_window, limit: 3, per: 1s }",
    "{ algorithm: sliding_log, limit: 3, per: 1s }",
    "{ algorithm: sliding_window, limit: 3, per: 1s }",
];

fn engine(limit: &str, clock: &ManualClock) -> TestEngine<ManualClock> {
    let rule = format!("key: [user], limit: {limit}, action: {{ delay: {{ max_wait: 2s }} }}");
    Setup::Local.engine(domains(&rules(&rule)), clock.clone())
}

/// The result of each request: when it was done, and whether it passed.
type RequestResults = Vec<Option<(Timestamp, Result<(), Refusal>)>>;

fn run<F: Future>(
    clock: &ManualClock,
    requests: &[(u64, u64, Option<u64>)],
    spawn: impl Fn(u64) -> F,
    end: impl Fn(&F::Output) -> Result<(), Refusal>,
) -> RequestResults {
    let mut executor = Executor::new(clock);
    let (mut now_ms, mut tasks, mut drops) = (0, Vec::new(), Vec::new());
    for (gap_ms, cost, dropped_ms) in requests {
        now_ms += gap_ms;
        drops.sort_unstable_by_key(|(at_ms, _)| std::cmp::Reverse(*at_ms));
        while let Some((at_ms, task)) = drops.pop_if(|(at_ms, _)| *at_ms < now_ms) {
            executor.run_up_to(Timestamp::from_nanos(at_ms * 1_000_000));
            executor.drop_task(task);
        }
        executor.run_up_to(Timestamp::from_nanos(now_ms * 1_000_000));
        let task = executor.spawn(spawn(*cost));
        tasks.push(task);
        drops.extend(dropped_ms.map(|after_ms| (now_ms + after_ms, task)));
    }
    executor.run();
    tasks.iter().map(|task| executor.finished(*task).map(|done| (done.at, end(&done.output)))).collect()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    /// A rule with one `delay` limit does the same as a limiter whose callers wait.
    #[test]
    fn an_engine_delays_requests_as_a_limiter_does(requests in requests(), limit in prop::sample::select(&LIMITS[..])) {
        let clock = ManualClock::default();
        let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap();
        let max_wait = Duration::from_secs(2);
        let by_limiter = run(&clock, &requests, |cost| wait_result(limiter.acquire_within("key", cost, max_wait)), |result| match result {
            WaitResult::Admitted { .. } => Ok(()),
            WaitResult::Refused(refusal) => Err(*refusal),
        });
        clock.set(Timestamp::from_nanos(0));
        prop_assert_eq!(clock.now().as_nanos(), 0);
        let engine = engine(limit, &clock);
        let by_engine = run(&clock, &requests, |cost| decide(&engine, "user=1", cost), |ended| {
            assert_eq!(ended.answer.kind.passes(), ended.refusal.is_none());
            ended.refusal.map_or(Ok(()), Err)
        });
        prop_assert_eq!(by_engine, by_limiter);
    }
}
