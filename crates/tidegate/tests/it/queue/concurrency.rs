//! Waiting for leases, which can be released at any time.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Admitted, ManualClock, Refused};

use super::model::{KEY, after_ms, limiter, ms, start};
use crate::executor::Executor;
use crate::wait_result::wait_result;

type AcquireResult<'a> = Result<Admitted<'a, ManualClock>, Refused>;

const ONE: &str = "{algorithm: concurrency, limit: 1, ttl: 1m}";

fn refused_at(
    executor: &Executor<'_, AcquireResult<'_>>,
    task: crate::executor::Task,
) -> Option<(u64, Refused)> {
    let finished = executor.finished(task)?;
    let since_ms = (finished.at.as_nanos() - start().as_nanos()) / 1_000_000;
    finished.output.as_ref().err().map(|refusal| (since_ms, refusal.clone()))
}

const NOT_IN_TIME: Refused = Refused::TooLong { wait: None };

#[test]
fn a_release_wakes_only_the_head() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&[ONE], &clock);
    let mut admitted = limiter.try_acquire(KEY, 1).unwrap();
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..50).map(|_| executor.spawn(limiter.acquire(KEY, 1))).collect();
    for (number, task) in tasks.iter().enumerate() {
        executor.run_until(after_ms(1 + number as u64));
        assert!(executor.finished(*task).is_none());
        assert_eq!(clock.sleepers(), 1);
        let polls = executor.total_polls();
        assert_eq!(admitted.release(), tidegate::Release::Released);
        executor.run_woken();
        let finished = executor.finished(*task).expect("it was the head");
        assert_eq!(finished.at, after_ms(1 + number as u64));
        // The head is polled and leaves, and the next waiter is woken as the new head.
        assert!(executor.total_polls() <= polls + 2);
        admitted = executor.take(*task).unwrap().unwrap();
    }
    assert_eq!(executor.completion_order(), tasks);
}

#[test]
fn an_expired_lease_admits_the_head() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["{algorithm: concurrency, limit: 2, ttl: 1s}"], &clock);
    let (_, first) = limiter.lease(KEY, 1, None);
    clock.set(after_ms(300));
    let (_, second) = limiter.lease(KEY, 1, None);
    assert!(first.is_some() && second.is_some());
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = [1, 1, 2].map(|cost| executor.spawn(wait_result(limiter.acquire(KEY, cost)))).into();
    executor.run();
    let at = |task| executor.finished(task).unwrap().at;
    // Checks hold their leases for the ttl.
    assert_eq!(tasks.into_iter().map(at).collect::<Vec<_>>(), [1_000, 1_300, 2_300].map(after_ms));
}

#[test]
fn a_waiter_without_a_lease_is_refused_at_its_deadline_at_any_position() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&[ONE], &clock);
    let admitted = limiter.try_acquire(KEY, 1).unwrap();
    let mut executor = Executor::new(&clock);
    let head = executor.spawn(limiter.acquire(KEY, 1));
    executor.run_woken();
    // They arrive when the head already sleeps, the longest deadline first.
    let waits = [9_000, 400, 5_000, 200, 0];
    let tasks = waits.map(|wait| executor.spawn(limiter.acquire_within(KEY, 1, ms(wait))));
    executor.run_until(after_ms(6_000));
    for (wait, task) in waits.into_iter().zip(tasks).filter(|(wait, _)| *wait < 6_000) {
        assert_eq!(refused_at(&executor, task), Some((wait, NOT_IN_TIME)), "{wait}");
    }
    assert!(executor.finished(head).is_none());
    assert_eq!(executor.sleepers_max, 1);
    drop(admitted);
    executor.run_woken();
    drop(executor.take(head).unwrap().unwrap());
    executor.run_woken();
    assert_eq!(executor.finished(tasks[0]).expect("released in time").at, after_ms(6_000));
}

#[test]
fn a_head_refused_at_its_deadline_is_replaced_by_the_next() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&[ONE], &clock);
    let admitted = limiter.try_acquire(KEY, 1).unwrap();
    let mut executor = Executor::new(&clock);
    let head = executor.spawn(limiter.acquire_within(KEY, 1, ms(100)));
    let next = executor.spawn(limiter.acquire_within(KEY, 1, ms(300)));
    executor.run_until(after_ms(200));
    assert_eq!(refused_at(&executor, head), Some((100, NOT_IN_TIME)));
    drop(admitted);
    executor.run_woken();
    assert_eq!(executor.finished(next).unwrap().at, after_ms(200));
    // At the very instant of a deadline it is not too late yet.
    let last = executor.spawn(limiter.acquire_within(KEY, 1, ms(50)));
    executor.run_up_to(after_ms(250));
    drop(executor.take(next));
    executor.run_woken();
    assert!(executor.finished(last).unwrap().output.is_ok());
}

#[test]
fn waiters_behind_a_delayed_head_are_refused_if_it_leaves_too_late() {
    let clock = ManualClock::at(start());
    let limits = [
        "{algorithm: leaky_bucket, limit: 1, per: 1s, queue: 5}",
        "{algorithm: concurrency, limit: 9, ttl: 1h}",
    ];
    let limiter = limiter(&limits, &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..2).map(|_| executor.spawn(limiter.acquire(KEY, 1))).collect();
    let long_wait = executor.spawn(limiter.acquire_within(KEY, 1, ms(2_500)));
    let short_wait = executor.spawn(limiter.acquire_within(KEY, 1, ms(500)));
    executor.run_until(after_ms(600));
    let (refused_ms, _) = refused_at(&executor, short_wait).expect("its deadline has passed");
    assert!(refused_ms <= 500);
    executor.run();
    assert_eq!(executor.finished(tasks[1]).unwrap().at, after_ms(1_000));
    assert_eq!(executor.finished(long_wait).unwrap().at, after_ms(2_000));
}

#[test]
fn a_request_waits_for_a_rate_and_a_concurrency_limit_together() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&["1/s burst 1", "{algorithm: concurrency, limit: 1, ttl: 1m}"], &clock);
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..3).map(|_| executor.spawn(limiter.acquire(KEY, 1))).collect();
    executor.run_until(after_ms(1_500));
    // The rate would have admitted the second half a second ago. The first still holds the slot.
    assert!(executor.finished(tasks[1]).is_none());
    let first = executor.take(tasks[0]).unwrap().unwrap();
    drop(first);
    executor.run_woken();
    assert_eq!(executor.finished(tasks[1]).unwrap().at, after_ms(1_500));
    // Now the slot comes back before the rate does.
    executor.run_until(after_ms(1_700));
    drop(executor.take(tasks[1]).unwrap().unwrap());
    executor.run_until(after_ms(2_499));
    assert!(executor.finished(tasks[2]).is_none());
    executor.run_until(after_ms(2_500));
    assert!(executor.finished(tasks[2]).unwrap().output.is_ok());
}

#[test]
fn a_waiter_dropped_after_its_wake_passes_the_lease_on() {
    let clock = ManualClock::at(start());
    let limiter = limiter(&[ONE], &clock);
    let admitted = limiter.try_acquire(KEY, 1).unwrap();
    let mut executor = Executor::new(&clock);
    let tasks: Vec<_> = (0..3).map(|_| executor.spawn(limiter.acquire(KEY, 1))).collect();
    executor.run_woken();
    drop(admitted);
    executor.drop_task(tasks[0]);
    executor.run_woken();
    assert!(executor.finished(tasks[1]).unwrap().output.is_ok());
    assert!(executor.finished(tasks[2]).is_none());
}

/// The behaviour of a waiter.
#[derive(Clone, Copy, Debug)]
struct LeaseJob {
    gap_ms: u64,
    units: u64,
    max_wait_ms: Option<u64>,
    /// How long it holds the lease. The ttl is 400 ms.
    holds_ms: u64,
}

fn job() -> impl Strategy<Value = LeaseJob> {
    let max_wait_ms = prop::option::of(prop_oneof![Just(0), 0_u64..900]);
    (0_u64..120, 1_u64..4, max_wait_ms, 1_u64..600)
        .prop_map(|(gap_ms, units, max_wait_ms, holds_ms)| LeaseJob { gap_ms, units, max_wait_ms, holds_ms })
}

/// Millisecond by millisecond: expired leases end, then the queue moves as far as it can, then waiters are refused
/// whose deadline has passed.
fn expected(jobs: &[LeaseJob], limit: u64) -> Vec<Result<u64, u64>> {
    const TTL_MS: u64 = 400;
    let mut arrive_ms = 0;
    let arrivals: Vec<u64> = jobs
        .iter()
        .map(|job| {
            arrive_ms += job.gap_ms;
            arrive_ms
        })
        .collect();
    let mut ended = vec![None; jobs.len()];
    let mut leases: Vec<(u64, u64)> = Vec::new();
    let mut queue: Vec<usize> = Vec::new();
    let mut now = 0;
    while ended.iter().any(Option::is_none) {
        let mut arriving =
            (0..jobs.len()).filter(|job| arrivals[*job] == now).collect::<Vec<_>>().into_iter();
        loop {
            leases.retain(|(until, _)| *until > now);
            while let Some(head) = queue.first().copied() {
                let in_flight: u64 = leases.iter().map(|(_, units)| units).sum();
                if in_flight + jobs[head].units > limit {
                    break;
                }
                leases.push((now + jobs[head].holds_ms.min(TTL_MS), jobs[head].units));
                ended[head] = Some(Ok(now));
                queue.remove(0);
            }
            queue.retain(|job| {
                let over = jobs[*job].max_wait_ms.is_some_and(|max_wait| arrivals[*job] + max_wait <= now);
                if over {
                    ended[*job] = Some(Err(now));
                }
                !over
            });
            match arriving.next() {
                Some(job) => queue.push(job),
                None if queue.first().is_some_and(|head| {
                    leases.iter().map(|(_, units)| units).sum::<u64>() + jobs[*head].units <= limit
                }) => {}
                None => break,
            }
        }
        now += 1;
    }
    ended.into_iter().flatten().collect()
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(75))]

    #[test]
    fn released_leases_go_to_waiters_in_order(jobs in prop::collection::vec(job(), 1..25)) {
        const LIMIT: u64 = 3;
        let clock = ManualClock::at(start());
        let limiter = limiter(&["{algorithm: concurrency, limit: 3, ttl: 400ms}"], &clock);
        let mut executor = Executor::new(&clock);
        let mut tasks: Vec<crate::executor::Task> = Vec::new();
        let mut leases: Vec<(u64, Admitted<'_, ManualClock>)> = Vec::new();
        let mut admitted_ms = vec![None; jobs.len()];
        let mut arrive_ms = 0;
        let mut arrivals = Vec::new();
        for job in &jobs {
            arrive_ms += job.gap_ms;
            arrivals.push(arrive_ms);
        }
        for now_ms in 0..arrive_ms + 30 * 600 {
            executor.run_up_to(after_ms(now_ms));
            // Release first, so that a waiter at its deadline finds it.
            leases.retain(|(until_ms, _)| *until_ms > now_ms);
            executor.run_woken();
            let arriving: Vec<usize> = (0..jobs.len()).filter(|job| arrivals[*job] == now_ms).collect();
            for job in arriving {
                tasks.push(match jobs[job].max_wait_ms {
                    Some(wait) => executor.spawn(limiter.acquire_within(KEY, jobs[job].units, Duration::from_millis(wait))),
                    None => executor.spawn(limiter.acquire(KEY, jobs[job].units)),
                });
                executor.run_woken();
            }
            for (number, task) in tasks.iter().enumerate() {
                if admitted_ms[number].is_none() && executor.finished(*task).is_some_and(|finished| finished.output.is_ok()) {
                    admitted_ms[number] = Some(now_ms);
                    leases.push((now_ms + jobs[number].holds_ms, executor.take(*task).unwrap().unwrap()));
                }
            }
            prop_assert!(clock.sleepers() <= 1);
        }
        let expected = expected(&jobs, LIMIT);
        for (number, expected) in expected.iter().enumerate() {
            let refused_ms = refused_at(&executor, tasks[number]).map(|(at_ms, _)| at_ms);
            match expected {
                Ok(at_ms) => prop_assert_eq!(admitted_ms[number], Some(*at_ms), "number {}", number),
                Err(at_ms) => prop_assert_eq!(refused_ms, Some(*at_ms), "number {}", number),
            }
        }
    }
}

/// It is not known when a lease is released, so a forecast refuses no request that waits for one.
#[test]
fn a_request_with_a_maximum_wait_outlives_the_admission_of_a_delayed_one() {
    let clock = ManualClock::at(start());
    let limiter = limiter(
        &[
            "{algorithm: concurrency, limit: 1, ttl: 1m}",
            "{algorithm: leaky_bucket, limit: 1, per: 10s, queue: 9}",
        ],
        &clock,
    );
    drop(limiter.try_acquire(KEY, 1).unwrap());
    let mut executor = Executor::new(&clock);
    let first = executor.spawn(limiter.acquire(KEY, 1));
    executor.run_woken();
    let [second, third] =
        [50, 50].map(|seconds| executor.spawn(limiter.acquire_within(KEY, 1, Duration::from_secs(seconds))));
    executor.run_until(after_ms(10_000));
    drop(executor.take(first).expect("its delay is over").unwrap());
    executor.run_woken();
    assert!(executor.finished(third).is_none(), "the second may release its lease at any time");
    executor.run_until(after_ms(20_000));
    drop(executor.take(second).expect("its delay is over").unwrap());
    executor.run_until(after_ms(30_000));
    assert!(executor.take(third).expect("its delay is over").is_ok());
}
