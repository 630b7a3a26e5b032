//! What a limiter decides while the shared store does not answer.

use std::time::Duration;

use tidegate::{ManualClock, OnStoreFailure, Refused, StoreFailure, Wait};
use tidegate_testing::remote::{Mood, Remote};

use super::{KEY, builder, done, limiter, start};

const AWAY: Mood = Mood::Fails(StoreFailure::Away);
const RETRY_AFTER: Wait = Wait::of(tidegate::Nanos::new(1_000_000_000));

fn remote(clock: &ManualClock) -> Remote<ManualClock> {
    let remote = Remote::new(clock.clone());
    remote.has_nodes(4);
    remote
}

#[test]
fn a_rate_is_divided_among_the_nodes() {
    let clock = ManualClock::at(start());
    let remote = remote(&clock);
    let limiter = limiter(&["100 per hour"], &remote, &clock);
    let decision = done(limiter.check(KEY, 1));
    assert!(decision.is_allowed() && !decision.degraded);
    remote.is(AWAY);
    let decisions: Vec<_> = (0..26).map(|_| done(limiter.check(KEY, 1))).collect();
    assert!(decisions.iter().all(|decision| decision.degraded));
    assert_eq!(decisions.iter().filter(|decision| decision.is_allowed()).count(), 25);
    let Err(Refused::OverLimit(denied)) = done(limiter.try_acquire(KEY, 1)) else {
        panic!("its share is used up")
    };
    assert!(denied.degraded);
    // When the store is back, it counts as if nothing had been.
    remote.is(Mood::Answers);
    let decision = done(limiter.check(KEY, 1));
    assert!(decision.is_allowed() && !decision.degraded);
    assert_eq!(decision.remaining, 98);
}

#[test]
fn what_denies_without_the_store_says_when_to_try_again() {
    let clock = ManualClock::at(start());
    let remote = remote(&clock);
    let deny = builder(&["100 per hour"], &remote, &clock).on_store_failure(OnStoreFailure::Deny);
    let deny = deny.build().unwrap();
    let lock = limiter(&["{algorithm: concurrency, limit: 1, ttl: 1m}", "100 per hour"], &remote, &clock);
    remote.is(AWAY);
    for limiter in [&deny, &lock] {
        let denied = done(limiter.check(KEY, 1));
        assert!(!denied.is_allowed() && denied.degraded);
        assert_eq!(denied.retry_after, RETRY_AFTER);
        let unavailable = Refused::Store(StoreFailure::Away);
        assert_eq!(unavailable.retry_after(), Some(RETRY_AFTER));
        assert_eq!(done(limiter.try_acquire(KEY, 1)).unwrap_err(), unavailable);
        assert_eq!(done(limiter.reserve(KEY, 1)).unwrap_err(), unavailable);
        assert_eq!(done(limiter.acquire(KEY, 1)).unwrap_err(), unavailable);
        let (decision, lease) = done(limiter.lease(KEY, 1, None));
        assert!(!decision.is_allowed() && lease.is_none());
    }
    assert_eq!(deny.store().memory().stats().live_evictions, 0);
    remote.is(Mood::Answers);
    assert_eq!(done(lock.check(KEY, 1)).remaining, 0, "nothing was charged meanwhile");
}

#[test]
fn a_limiter_that_allows_lets_all_pass_and_marks_it() {
    let clock = ManualClock::at(start());
    let remote = remote(&clock);
    let limiter = builder(&["1 per hour"], &remote, &clock).on_store_failure(OnStoreFailure::Allow);
    let limiter = limiter.build().unwrap();
    remote.is(AWAY);
    for _ in 0..10 {
        let decision = done(limiter.check(KEY, 1));
        assert!(decision.is_allowed() && decision.degraded);
    }
}

#[test]
fn what_cannot_be_decided_without_the_store_is_an_error() {
    let clock = ManualClock::at(start());
    let remote = remote(&clock);
    let limiter = limiter(&["{algorithm: concurrency, limit: 1, ttl: 1m}"], &remote, &clock);
    let mut held = done(limiter.try_acquire(KEY, 1)).unwrap();
    let token = held.lease().unwrap().token;
    remote.is(AWAY);
    assert_eq!(done(limiter.peek(KEY, 1)), Err(StoreFailure::Away));
    assert_eq!(done(limiter.reset(KEY)), Err(StoreFailure::Away));
    assert_eq!(done(held.renew()), Err(StoreFailure::Away));
    assert_eq!(done(limiter.renew(KEY, &token, None)), Err(StoreFailure::Away));
    assert_eq!(done(limiter.release(KEY, &token)), Err(StoreFailure::Away));
    drop(held);
    remote.is(Mood::Answers);
    assert!(!done(limiter.check(KEY, 1)).is_allowed(), "the release did not reach the store");
    clock.advance(Duration::from_secs(60));
    assert!(done(limiter.check(KEY, 1)).is_allowed(), "its time is over");
}

#[test]
fn a_lease_ends_for_its_holder_no_later_than_in_the_store() {
    let clock = ManualClock::at(start());
    let remote = Remote::new(clock.clone()).ahead_by_seconds(1_000);
    let limiter = limiter(&["{algorithm: concurrency, limit: 1, ttl: 1m}"], &remote, &clock);
    let held = done(limiter.try_acquire(KEY, 1)).unwrap();
    let lease = held.lease().unwrap();
    assert_eq!(lease.since, start());
    assert_eq!(lease.expires.as_nanos() - start().as_nanos(), 60_000_000_000);
}
