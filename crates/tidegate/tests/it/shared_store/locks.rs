//! Locks over a shared store, on a clock that only the test moves. A background thread renews them.

use std::thread;
use std::time::Duration;

use tidegate::{Clock as _, LockGuard, Locks, ManualClock, Nanos, Refused, Release, StoreError};
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

use super::{KEY, TestStore, expect_ready, node, start};

const TTL: Duration = Duration::from_secs(9);
const RENEW_EVERY: Duration = Duration::from_secs(3);

struct Fleet {
    clock: ManualClock,
    remote: FakeStore<ManualClock>,
    nodes: [Locks<ManualClock, TestStore>; 2],
}

impl Fleet {
    fn new() -> Self {
        let clock = ManualClock::at(start());
        let remote = FakeStore::new(clock.clone());
        let locks = || Locks::with_store_and_clock(node(&remote), clock.clone());
        Self { nodes: [locks(), locks()], remote, clock }
    }

    /// Waits until the background thread sleeps, then moves the clock.
    fn advance(&self, by: Duration) {
        wait_until(|| self.clock.sleepers() > 0);
        self.clock.advance(by);
    }
}

/// Waits for another thread.
fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

fn lease_since(guard: &LockGuard<ManualClock, TestStore>) -> u64 {
    guard.lease().since.as_nanos()
}

#[test]
fn one_node_holds_a_lock_and_fencing_tokens_grow() {
    let fleet = Fleet::new();
    let [one, other] = &fleet.nodes;
    let first = expect_ready(one.try_lock(KEY, TTL)).unwrap();
    let Err(Refused::OverLimit(denied)) = expect_ready(other.try_lock(KEY, TTL)) else {
        panic!("it is locked")
    };
    assert_eq!(denied.retry_after.as_duration(), Some(TTL));
    assert!(expect_ready(other.try_lock("another", TTL)).is_ok());
    let fence = first.fencing_token();
    assert_eq!(expect_ready(first.release()), Ok(Release::Released));
    let second = expect_ready(other.try_lock(KEY, TTL)).unwrap();
    assert!(second.fencing_token() > fence);
    drop(second);
    assert!(expect_ready(one.try_lock(KEY, TTL)).unwrap().is_held(), "a dropped guard is released");
}

#[test]
fn a_lock_is_renewed_for_as_long_as_it_is_held() {
    let fleet = Fleet::new();
    let [one, other] = &fleet.nodes;
    let guard = expect_ready(one.try_lock(KEY, TTL)).unwrap();
    let fence = guard.fencing_token();
    for _ in 0..10 {
        fleet.advance(RENEW_EVERY);
        wait_until(|| lease_since(&guard) == fleet.clock.now().as_nanos());
    }
    assert!(guard.is_held());
    assert_eq!(guard.fencing_token(), fence);
    assert!(expect_ready(other.try_lock(KEY, TTL)).is_err());
    drop(guard);
    assert!(expect_ready(other.try_lock(KEY, TTL)).is_ok());
}

#[test]
fn a_renewal_that_fails_is_tried_again() {
    let fleet = Fleet::new();
    let guard = expect_ready(fleet.nodes[0].try_lock(KEY, TTL)).unwrap();
    fleet.remote.set_behavior(StoreBehavior::Fail(StoreError::TimedOut));
    let calls = fleet.remote.calls();
    fleet.advance(RENEW_EVERY);
    wait_until(|| fleet.remote.calls() > calls);
    fleet.remote.set_behavior(StoreBehavior::Reply);
    fleet.advance(RENEW_EVERY);
    wait_until(|| lease_since(&guard) == fleet.clock.now().as_nanos());
    assert!(guard.is_held());
}

#[test]
fn a_lock_that_cannot_be_renewed_is_lost_when_its_time_is_over() {
    let fleet = Fleet::new();
    let guard = expect_ready(fleet.nodes[0].try_lock(KEY, TTL)).unwrap();
    fleet.remote.set_behavior(StoreBehavior::Fail(StoreError::RuntimeGone));
    let lost = thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(guard.lost()));
        while !waiting.is_finished() {
            // Each step makes the renewal fail once more, until the lease expires.
            if fleet.clock.sleepers() > 0 {
                fleet.clock.advance(Duration::from_millis(100));
            }
            thread::yield_now();
        }
        waiting.join()
    });
    lost.unwrap();
    assert!(!guard.is_held());
    assert!(fleet.clock.now() >= guard.lease().expires);
    fleet.remote.set_behavior(StoreBehavior::Reply);
    assert!(expect_ready(fleet.nodes[1].try_lock(KEY, TTL)).is_ok());
}

#[test]
fn a_lock_is_lost_in_time_while_a_renewal_is_not_answered() {
    let fleet = Fleet::new();
    let guard = expect_ready(fleet.nodes[0].try_lock(KEY, TTL)).unwrap();
    let calls = fleet.remote.calls();
    fleet.remote.set_behavior(StoreBehavior::ReplyLater);
    fleet.advance(RENEW_EVERY);
    wait_until(|| fleet.remote.calls() > calls && fleet.clock.sleepers() > 0);
    assert!(guard.is_held());
    fleet.clock.advance(2 * RENEW_EVERY);
    block_on(guard.lost());
    assert!(!guard.is_held());
    fleet.remote.set_behavior(StoreBehavior::Reply);
    wait_until(|| expect_ready(fleet.nodes[1].try_lock(KEY, TTL)).is_ok());
}

#[test]
fn a_lease_unknown_to_the_store_is_lost_immediately() {
    let fleet = Fleet::new();
    let guard = expect_ready(fleet.nodes[0].try_lock(KEY, TTL)).unwrap();
    let token = guard.lease().token;
    assert_eq!(expect_ready(fleet.nodes[1].release(KEY, &token)), Ok(Release::Released));
    assert!(guard.is_held(), "it does not know yet");
    fleet.advance(RENEW_EVERY);
    block_on(guard.lost());
    assert!(!guard.is_held());
    assert!(expect_ready(fleet.nodes[1].try_lock(KEY, TTL)).is_ok());
}

#[test]
fn no_lock_is_given_while_the_store_does_not_answer() {
    let fleet = Fleet::new();
    fleet.remote.set_behavior(StoreBehavior::Fail(StoreError::BreakerOpen));
    for locks in &fleet.nodes {
        assert_eq!(
            expect_ready(locks.try_lock(KEY, TTL)).unwrap_err(),
            Refused::Store(StoreError::BreakerOpen)
        );
        assert_eq!(expect_ready(locks.lock(KEY, TTL)).unwrap_err(), Refused::Store(StoreError::BreakerOpen));
    }
}

#[test]
fn a_release_that_fails_is_tried_again_in_the_background() {
    let fleet = Fleet::new();
    let [one, other] = &fleet.nodes;
    let guard = expect_ready(one.try_lock(KEY, TTL)).unwrap();
    fleet.remote.set_behavior(StoreBehavior::Fail(StoreError::TimedOut));
    drop(guard);
    fleet.remote.set_behavior(StoreBehavior::Reply);
    wait_until(|| {
        // The release sleeps for less than a second before it asks again. A later sleeper is a renewal that has not
        // ended yet.
        let soon = fleet.clock.now().saturating_add(Nanos::new(1_000_000_000));
        if let Some(wake) = fleet.clock.next_wake().filter(|wake| *wake <= soon) {
            fleet.clock.set(wake);
        }
        expect_ready(other.try_lock(KEY, TTL)).is_ok()
    });
    assert!(fleet.clock.now().as_nanos() - start().as_nanos() < 9_000_000_000, "the lease has not expired");
}

#[test]
fn lock_waits_until_the_lock_is_free() {
    let fleet = Fleet::new();
    let [one, other] = &fleet.nodes;
    let guard = expect_ready(one.try_lock(KEY, TTL)).unwrap();
    let refused = expect_ready(other.lock_within(KEY, TTL, Duration::ZERO)).unwrap_err();
    assert_eq!(refused, Refused::TooLong { wait: None });
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.lock_blocking(KEY, TTL));
        // The renewal of the first, and the wait of the other.
        wait_until(|| fleet.clock.sleepers() >= 2);
        drop(guard);
        while !waiting.is_finished() {
            fleet.clock.advance(Duration::from_millis(10));
            thread::yield_now();
        }
        let guard = waiting.join().unwrap().unwrap();
        assert!(guard.is_held() && !guard.waited().is_zero());
    });
}

/// Blocks the current thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => thread::yield_now(),
        }
    }
}
