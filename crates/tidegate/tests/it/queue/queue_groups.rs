//! Limiters that share their counters: units that one of them gives back wake requests that wait for another.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tidegate::{Limiter, ManualClock, MemoryStore};

use super::model::{KEY, after_ms, limiter, ms, start};
use crate::executor::Executor;
use crate::wait_result::wait_result;

const ONE: &str = "{algorithm: concurrency, limit: 1, ttl: 1h}";

#[test]
fn a_release_before_a_change_wakes_a_waiter_after_it() {
    let clock = ManualClock::at(start());
    let old = limiter(&[ONE], &clock);
    let admitted = old.try_acquire(KEY, 1).unwrap();
    let new = old.with_limits(["{algorithm: concurrency, limit: 1, ttl: 2h}"]).unwrap();
    let mut executor = Executor::new(&clock);
    let task = executor.spawn(new.acquire(KEY, 1));
    executor.run_until(after_ms(5));
    assert!(executor.finished(task).is_none());
    drop(admitted);
    executor.run_woken();
    assert_eq!(executor.finished(task).expect("it was woken").at, after_ms(5));
}

#[test]
fn separately_built_limiters_of_one_rule_share_a_queue_group() {
    let clock = ManualClock::at(start());
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let built = |rule: &str| {
        let builder = Limiter::builder().rule(rule).limit(ONE).store(store.clone());
        builder.clock(clock.clone()).build().unwrap()
    };
    let (one, other, other_rule) = (built("jobs"), built("jobs"), built("others"));
    let (admitted, other_admitted) =
        (one.try_acquire(KEY, 1).unwrap(), other_rule.try_acquire(KEY, 1).unwrap());
    let mut executor = Executor::new(&clock);
    let task = executor.spawn(other.acquire(KEY, 1));
    executor.run_until(after_ms(5));
    drop(other_admitted);
    executor.run_woken();
    assert!(executor.finished(task).is_none());
    drop(admitted);
    executor.run_woken();
    assert_eq!(executor.finished(task).expect("it was woken").at, after_ms(5));
}

/// A request that a leaky bucket delays already has a lease, which is released when it is dropped.
#[test]
fn a_request_dropped_during_its_delay_wakes_a_waiter_after_a_change() {
    let limits = ["{algorithm: leaky_bucket, limit: 1, per: 1s, queue: 5}", ONE];
    let clock = ManualClock::at(start());
    let old = limiter(&limits, &clock);
    drop(old.try_acquire(KEY, 1).unwrap());
    let new = old.with_limits(limits).unwrap();
    let mut admitted = Box::pin(old.acquire(KEY, 1));
    assert!(admitted.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut executor = Executor::new(&clock);
    let task = executor.spawn(new.acquire(KEY, 1));
    executor.run_woken();
    drop(admitted);
    executor.run_until(after_ms(1_000));
    assert_eq!(executor.finished(task).expect("it was woken").at, after_ms(1_000));
}

#[test]
fn an_ended_superseded_limit_blocks_no_request() {
    let clock = ManualClock::at(start());
    let old = limiter(&["{algorithm: concurrency, limit: 5, ttl: 1s}"], &clock);
    let new = old.with_limits(["1/s burst 1"]).unwrap();
    assert_eq!(new.limits().count(), 2);
    clock.advance(ms(1_000));
    assert_eq!(new.limits().count(), 1);
    assert!(new.check(KEY, 1).is_allowed());
    // If leases were enforced, it would have to wait.
    let mut delayed = Box::pin(wait_result(new.acquire_within(KEY, 1, ms(500))));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut delayed).poll(context).is_ready(), "a second is needed");
}

/// While leases are enforced, admission cannot be forecast. When they are gone it can, and the request is too late.
#[test]
fn a_deadline_survives_the_end_of_a_superseded_limit() {
    let clock = ManualClock::at(start());
    let old = limiter(&["{algorithm: concurrency, limit: 1, ttl: 10s}"], &clock);
    let new = old.with_limits(["{algorithm: fixed_window, limit: 1, per: 1h}"]).unwrap();
    assert!(new.check(KEY, 1).is_allowed());
    let mut executor = Executor::new(&clock);
    let tasks = [20_000, 30_000]
        .map(|max_wait| executor.spawn(wait_result(new.acquire_within(KEY, 1, ms(max_wait)))));
    executor.run_until(after_ms(31_000));
    for (task, deadline) in tasks.into_iter().zip([20_000, 30_000]) {
        let finished = executor.finished(task).expect("its deadline has passed");
        assert!(!finished.output.is_admitted());
        assert!(finished.at <= after_ms(deadline), "{:?}", finished.at);
    }
}

#[test]
fn a_clock_that_is_ahead_refuses_no_request_of_another_limiter() {
    let (clock, ahead) = (ManualClock::at(start()), ManualClock::at(after_ms(30_000)));
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let built = |clock: &ManualClock| {
        let builder = Limiter::builder().limit("1/s burst 1").store(store.clone());
        builder.clock(clock.clone()).build().unwrap()
    };
    let (here, there) = (built(&clock), built(&ahead));
    assert!(here.check(KEY, 1).is_allowed());
    let mut executor = Executor::new(&clock);
    let head = executor.spawn(wait_result(here.acquire_within(KEY, 1, ms(5_000))));
    executor.run_woken();
    there.refund_at(KEY, 0, start());
    let late = executor.spawn(wait_result(here.acquire_within(KEY, 1, ms(100))));
    executor.run();
    assert!(executor.finished(head).expect("it was due").output.is_admitted());
    assert!(!executor.finished(late).expect("it cannot be").output.is_admitted());
}
