//! Locks of a fleet, on a clock that only the test moves. They are renewed by a thread in the background.

use std::thread;
use std::time::Duration;

use tidegate::{Clock as _, LockGuard, Locks, ManualClock, Nanos, Refused, Release, StoreFailure};
use tidegate_testing::remote::{Mood, Remote};

use super::{KEY, Store, done, node, start};

const TTL: Duration = Duration::from_secs(9);
const THIRD: Duration = Duration::from_secs(3);

struct Fleet {
    clock: ManualClock,
    remote: Remote<ManualClock>,
    nodes: [Locks<ManualClock, Store>; 2],
}

impl Fleet {
    fn new() -> Self {
        let clock = ManualClock::at(start());
        let remote = Remote::new(clock.clone());
        let locks = || Locks::over_with_clock(node(&remote), clock.clone());
        Self { nodes: [locks(), locks()], remote, clock }
    }

    /// Waits until the background thread sleeps, then moves the clock.
    fn advance(&self, by: Duration) {
        until(|| self.clock.sleepers() > 0);
        self.clock.advance(by);
    }
}

/// Waits for another thread.
fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

fn lease_since(guard: &LockGuard<ManualClock, Store>) -> u64 {
    guard.lease().since.as_nanos()
}

#[test]
fn one_node_holds_a_lock_at_a_time_and_fences_grow() {
    let fleet = Fleet::new();
    let [one, other] = &fleet.nodes;
    let first = done(one.try_lock(KEY, TTL)).unwrap();
    let Err(Refused::OverLimit(denied)) = done(other.try_lock(KEY, TTL)) else { panic!("it is locked") };
    assert_eq!(denied.retry_after.as_duration(), Some(TTL));
    assert!(done(other.try_lock("another", TTL)).is_ok());
    let fence = first.fence();
    assert_eq!(done(first.release()), Ok(Release::Released));
    let second = done(other.try_lock(KEY, TTL)).unwrap();
    assert!(second.fence() > fence);
    drop(second);
    assert!(done(one.try_lock(KEY, TTL)).unwrap().is_held(), "a dropped guard is released");
}

#[test]
fn a_lock_is_renewed_for_as_long_as_it_is_held() {
    let fleet = Fleet::new();
    let [one, other] = &fleet.nodes;
    let guard = done(one.try_lock(KEY, TTL)).unwrap();
    let fence = guard.fence();
    for _ in 0..10 {
        fleet.advance(THIRD);
        until(|| lease_since(&guard) == fleet.clock.now().as_nanos());
    }
    assert!(guard.is_held());
    assert_eq!(guard.fence(), fence);
    assert!(done(other.try_lock(KEY, TTL)).is_err());
    drop(guard);
    assert!(done(other.try_lock(KEY, TTL)).is_ok());
}

#[test]
fn a_renewal_that_fails_is_tried_again() {
    let fleet = Fleet::new();
    let guard = done(fleet.nodes[0].try_lock(KEY, TTL)).unwrap();
    fleet.remote.is(Mood::Fails(StoreFailure::TimedOut));
    let questions = fleet.remote.questions();
    fleet.advance(THIRD);
    until(|| fleet.remote.questions() > questions);
    fleet.remote.is(Mood::Answers);
    fleet.advance(THIRD);
    until(|| lease_since(&guard) == fleet.clock.now().as_nanos());
    assert!(guard.is_held());
}

#[test]
fn a_lock_that_cannot_be_renewed_is_lost_when_its_time_is_over() {
    let fleet = Fleet::new();
    let guard = done(fleet.nodes[0].try_lock(KEY, TTL)).unwrap();
    fleet.remote.is(Mood::Fails(StoreFailure::RuntimeGone));
    let lost = thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(guard.lost()));
        while !waiting.is_finished() {
            // Each step lets the renewal fail once more, until the end of the lease.
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
    fleet.remote.is(Mood::Answers);
    assert!(done(fleet.nodes[1].try_lock(KEY, TTL)).is_ok());
}

#[test]
fn a_lock_is_lost_in_time_while_a_renewal_is_not_answered() {
    let fleet = Fleet::new();
    let guard = done(fleet.nodes[0].try_lock(KEY, TTL)).unwrap();
    let questions = fleet.remote.questions();
    fleet.remote.is(Mood::Dawdles);
    fleet.advance(THIRD);
    until(|| fleet.remote.questions() > questions && fleet.clock.sleepers() > 0);
    assert!(guard.is_held());
    fleet.clock.advance(2 * THIRD);
    block_on(guard.lost());
    assert!(!guard.is_held());
    fleet.remote.is(Mood::Answers);
    until(|| done(fleet.nodes[1].try_lock(KEY, TTL)).is_ok());
}

#[test]
fn a_lease_that_the_store_does_not_know_is_lost_at_once() {
    let fleet = Fleet::new();
    let guard = done(fleet.nodes[0].try_lock(KEY, TTL)).unwrap();
    let token = guard.lease().token;
    assert_eq!(done(fleet.nodes[1].release(KEY, &token)), Ok(Release::Released));
    assert!(guard.is_held(), "it does not know yet");
    fleet.advance(THIRD);
    block_on(guard.lost());
    assert!(!guard.is_held());
    assert!(done(fleet.nodes[1].try_lock(KEY, TTL)).is_ok());
}

#[test]
fn no_lock_is_given_while_the_store_does_not_answer() {
    let fleet = Fleet::new();
    fleet.remote.is(Mood::Fails(StoreFailure::Away));
    for locks in &fleet.nodes {
        assert_eq!(done(locks.try_lock(KEY, TTL)).unwrap_err(), Refused::Store(StoreFailure::Away));
        assert_eq!(done(locks.lock(KEY, TTL)).unwrap_err(), Refused::Store(StoreFailure::Away));
    }
}

#[test]
fn a_release_that_fails_is_tried_again_in_the_background() {
    let fleet = Fleet::new();
    let [one, other] = &fleet.nodes;
    let guard = done(one.try_lock(KEY, TTL)).unwrap();
    fleet.remote.is(Mood::Fails(StoreFailure::TimedOut));
    drop(guard);
    fleet.remote.is(Mood::Answers);
    until(|| {
        // The release sleeps for less than a second before it asks again. A later sleeper is a renewal that has not ended yet.
        let soon = fleet.clock.now().saturating_add(Nanos::new(1_000_000_000));
        if let Some(wake) = fleet.clock.next_wake().filter(|wake| *wake <= soon) {
            fleet.clock.set(wake);
        }
        done(other.try_lock(KEY, TTL)).is_ok()
    });
    assert!(fleet.clock.now().as_nanos() - start().as_nanos() < 9_000_000_000, "the lease has not expired");
}

#[test]
fn a_lock_is_waited_for() {
    let fleet = Fleet::new();
    let [one, other] = &fleet.nodes;
    let guard = done(one.try_lock(KEY, TTL)).unwrap();
    let refused = done(other.lock_within(KEY, TTL, Duration::ZERO)).unwrap_err();
    assert_eq!(refused, Refused::TooLong { wait: None });
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.lock_blocking(KEY, TTL));
        // The renewal of the first and the wait of the other.
        until(|| fleet.clock.sleepers() >= 2);
        drop(guard);
        while !waiting.is_finished() {
            fleet.clock.advance(Duration::from_millis(10));
            thread::yield_now();
        }
        let guard = waiting.join().unwrap().unwrap();
        assert!(guard.is_held() && !guard.waited().is_zero());
    });
}

/// Waits with the thread at hand.
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
