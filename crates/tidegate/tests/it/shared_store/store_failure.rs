//! What a limiter decides while the shared store does not answer.

use std::time::Duration;

use tidegate::{ManualClock, OnStoreFailure, Refused, StoreError, Wait};
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

use super::{KEY, builder, expect_ready, limiter, start};

const STORE_DOWN: StoreBehavior = StoreBehavior::Fail(StoreError::BreakerOpen);
const RETRY_AFTER: Wait = Wait::of(tidegate::Nanos::new(1_000_000_000));

fn remote(clock: &ManualClock) -> FakeStore<ManualClock> {
    let remote = FakeStore::new(clock.clone());
    remote.set_nodes(4);
    remote
}

#[test]
fn a_rate_is_divided_among_the_nodes() {
    let clock = ManualClock::at(start());
    let remote = remote(&clock);
    let limiter = limiter(&["100 per hour"], &remote, &clock);
    let decision = expect_ready(limiter.check(KEY, 1));
    assert!(decision.is_allowed() && !decision.degraded);
    remote.set_behavior(STORE_DOWN);
    let decisions: Vec<_> = (0..26).map(|_| expect_ready(limiter.check(KEY, 1))).collect();
    assert!(decisions.iter().all(|decision| decision.degraded));
    assert_eq!(decisions.iter().filter(|decision| decision.is_allowed()).count(), 25);
    let Err(Refused::OverLimit(denied)) = expect_ready(limiter.try_acquire(KEY, 1)) else {
        panic!("its share is used up")
    };
    assert!(denied.degraded);
    // When the store is back, it counts as if nothing had happened.
    remote.set_behavior(StoreBehavior::Reply);
    let decision = expect_ready(limiter.check(KEY, 1));
    assert!(decision.is_allowed() && !decision.degraded);
    assert_eq!(decision.remaining, 98);
}

#[test]
fn a_denial_without_the_store_has_a_retry_after() {
    let clock = ManualClock::at(start());
    let remote = remote(&clock);
    let deny = builder(&["100 per hour"], &remote, &clock).on_store_failure(OnStoreFailure::Deny);
    let deny = deny.build().unwrap();
    let lock = limiter(&["{algorithm: concurrency, limit: 1, ttl: 1m}", "100 per hour"], &remote, &clock);
    remote.set_behavior(STORE_DOWN);
    for limiter in [&deny, &lock] {
        let denied = expect_ready(limiter.check(KEY, 1));
        assert!(!denied.is_allowed() && denied.degraded);
        assert_eq!(denied.retry_after, RETRY_AFTER);
        let unavailable = Refused::Store(StoreError::BreakerOpen);
        assert_eq!(unavailable.retry_after(), Some(RETRY_AFTER));
        assert_eq!(expect_ready(limiter.try_acquire(KEY, 1)).unwrap_err(), unavailable);
        assert_eq!(expect_ready(limiter.reserve(KEY, 1)).unwrap_err(), unavailable);
        assert_eq!(expect_ready(limiter.acquire(KEY, 1)).unwrap_err(), unavailable);
        let (decision, lease) = expect_ready(limiter.lease(KEY, 1, None));
        assert!(!decision.is_allowed() && lease.is_none());
    }
    assert_eq!(deny.store().memory().stats().live_evictions, 0);
    remote.set_behavior(StoreBehavior::Reply);
    assert_eq!(expect_ready(lock.check(KEY, 1)).remaining, 0, "nothing was charged meanwhile");
}

#[test]
fn policy_allow_admits_all_and_marks_decisions_degraded() {
    let clock = ManualClock::at(start());
    let remote = remote(&clock);
    let limiter = builder(&["1 per hour"], &remote, &clock).on_store_failure(OnStoreFailure::Allow);
    let limiter = limiter.build().unwrap();
    remote.set_behavior(STORE_DOWN);
    for _ in 0..10 {
        let decision = expect_ready(limiter.check(KEY, 1));
        assert!(decision.is_allowed() && decision.degraded);
    }
}

#[test]
fn operations_that_need_the_store_return_an_error() {
    let clock = ManualClock::at(start());
    let remote = remote(&clock);
    let limiter = limiter(&["{algorithm: concurrency, limit: 1, ttl: 1m}"], &remote, &clock);
    let mut admitted = expect_ready(limiter.try_acquire(KEY, 1)).unwrap();
    let token = admitted.lease().unwrap().token;
    remote.set_behavior(STORE_DOWN);
    assert_eq!(expect_ready(limiter.peek(KEY, 1)), Err(StoreError::BreakerOpen));
    assert_eq!(expect_ready(limiter.reset(KEY)), Err(StoreError::BreakerOpen));
    assert_eq!(expect_ready(admitted.renew()), Err(StoreError::BreakerOpen));
    assert_eq!(expect_ready(limiter.renew(KEY, &token, None)), Err(StoreError::BreakerOpen));
    assert_eq!(expect_ready(limiter.release(KEY, &token)), Err(StoreError::BreakerOpen));
    drop(admitted);
    remote.set_behavior(StoreBehavior::Reply);
    assert!(!expect_ready(limiter.check(KEY, 1)).is_allowed(), "the release did not reach the store");
    clock.advance(Duration::from_secs(60));
    assert!(expect_ready(limiter.check(KEY, 1)).is_allowed(), "the lease has expired");
}

#[test]
fn a_lease_ends_for_its_holder_no_later_than_in_the_store() {
    let clock = ManualClock::at(start());
    let remote = FakeStore::new(clock.clone()).with_clock_ahead_seconds(1_000);
    let limiter = limiter(&["{algorithm: concurrency, limit: 1, ttl: 1m}"], &remote, &clock);
    let admitted = expect_ready(limiter.try_acquire(KEY, 1)).unwrap();
    let lease = admitted.lease().unwrap();
    assert_eq!(lease.since, start());
    assert_eq!(lease.expires.as_nanos() - start().as_nanos(), 60_000_000_000);
}
