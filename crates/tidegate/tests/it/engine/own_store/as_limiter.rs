//! A rule of one limit that holds requests, beside a limiter that is waited for.

use proptest::prelude::*;
use std::time::Duration;
use tidegate::{Clock, Limiter, ManualClock, Timestamp};

use crate::engine::bench::domains;
use crate::engine::delay::{decide, rules};
use crate::engine::setup::{Setup, TestEngine};
use crate::executor::Executor;
use crate::wait_result::{Refusal, WaitResult, wait_result};

/// How long after the one before a request comes, what it costs, and whether it is dropped after a while.
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

/// What became of each request: when it was done, and whether it passed.
type RequestResults = Vec<Option<(Timestamp, Result<(), Refusal>)>>;

fn run<F: Future>(
    clock: &ManualClock,
    requests: &[(u64, u64, Option<u64>)],
    come: impl Fn(u64) -> F,
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
        let task = executor.spawn(come(*cost));
        tasks.push(task);
        drops.extend(dropped_ms.map(|after_ms| (now_ms + after_ms, task)));
    }
    executor.run();
    tasks.iter().map(|task| executor.finished(*task).map(|done| (done.at, end(&done.output)))).collect()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    /// A rule of one limit that holds requests does what a limiter does that is waited for.
    #[test]
    fn an_engine_delays_requests_as_a_limiter_does(requests in requests(), limit in prop::sample::select(&LIMITS[..])) {
        let clock = ManualClock::default();
        let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap();
        let max_wait = Duration::from_secs(2);
        let by_limiter = run(&clock, &requests, |cost| wait_result(limiter.acquire_within("key", cost, max_wait)), |turn| match turn {
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
