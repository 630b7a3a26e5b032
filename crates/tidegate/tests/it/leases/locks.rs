//! Locks: one holder at a time, and earlier holders refused.

use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use tidegate::{FencingGuard, FencingToken, Locks, ManualClock, MemoryStore, Release, Renewal, Timestamp};

const SECOND: Duration = Duration::from_secs(1);

fn locks() -> (Locks<ManualClock>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_nanos(1_700_000_000_000_000_000));
    (Locks::with_store_and_clock(Arc::new(MemoryStore::bounded(1 << 20)), clock.clone()), clock)
}

#[test]
fn eight_threads_count_as_one() {
    const THREADS: u64 = 8;
    const LOCKS_PER_THREAD: u64 = 200;
    let locks = Locks::new();
    let counter = Mutex::new(0_u64);
    let highest = Mutex::new(FencingToken::default());
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..LOCKS_PER_THREAD {
                    let lock = locks.lock_blocking("counter", 3_600 * SECOND).unwrap();
                    // In two steps: two holders at the same time would lose a count.
                    let count = *counter.lock().unwrap();
                    std::thread::yield_now();
                    *counter.lock().unwrap() = count + 1;
                    let before = std::mem::replace(&mut *highest.lock().unwrap(), lock.fencing_token());
                    assert!(before < lock.fencing_token());
                }
            });
        }
    });
    assert_eq!(counter.into_inner().unwrap(), THREADS * LOCKS_PER_THREAD);
}

#[test]
fn a_paused_holder_is_refused_by_its_stale_fencing_token() {
    let (locks, clock) = locks();
    let file = FencingGuard::default();
    let mut paused = locks.try_lock("file", 10 * SECOND).unwrap();
    assert_eq!(file.admit(paused.fencing_token()), Ok(()));
    assert_eq!(file.admit(paused.fencing_token()), Ok(()));
    clock.advance(10 * SECOND);
    let other = locks.try_lock("file", 10 * SECOND).unwrap();
    // The file cannot know of the other holder until that one has presented its token.
    assert_eq!(file.admit(paused.fencing_token()), Ok(()));
    assert_eq!(file.admit(other.fencing_token()), Ok(()));
    let stale = file.admit(paused.fencing_token()).unwrap_err();
    assert_eq!((stale.presented, stale.highest), (paused.fencing_token(), other.fencing_token()));
    assert!(stale.to_string().contains(&paused.fencing_token().to_string()));
    assert_eq!(paused.renew(), Renewal::Expired);
    assert_eq!(paused.release(), Release::Expired);
    assert_eq!(file.admit(other.fencing_token()), Ok(()));
    assert_eq!(file.highest(), other.fencing_token());
    // A guard that restarts knows the token that it has kept.
    let again = FencingGuard::with_highest(file.highest());
    assert_eq!(again.admit(stale.presented), Err(stale));
    assert_eq!(again.admit(other.fencing_token()), Ok(()));
}

#[test]
fn each_lock_lasts_for_its_ttl() {
    let (locks, clock) = locks();
    let short = locks.try_lock("short", SECOND).unwrap();
    let long = locks.try_lock("long", 100 * SECOND).unwrap();
    let denied = locks.try_lock("short", 5 * SECOND).unwrap_err();
    assert_eq!(denied.retry_after().unwrap().span().unwrap().get(), 1_000_000_000);
    clock.advance(SECOND);
    assert!(locks.try_lock("short", SECOND).is_ok());
    assert!(locks.try_lock("long", SECOND).is_err());
    assert_eq!(short.release(), Release::Expired);
    assert_eq!(long.release(), Release::Released);
}

#[test]
fn a_clock_that_is_behind_does_not_admit_two_holders() {
    let (locks, clock) = locks();
    drop(locks.try_lock("file", 10 * SECOND).unwrap());
    clock.set(Timestamp::from_nanos(1_699_999_000_000_000_000));
    let lock = locks.try_lock("file", 10 * SECOND).unwrap();
    assert!(locks.try_lock("file", 10 * SECOND).is_err());
    assert_eq!(lock.release(), Release::Released);
}

#[test]
fn a_peek_at_a_lock_changes_nothing_and_is_right() {
    let (locks, clock) = locks();
    assert!(locks.peek("file").is_allowed());
    assert!(locks.peek("file").is_allowed());
    let lock = locks.try_lock("file", 10 * SECOND).unwrap();
    assert!(!locks.peek("file").is_allowed());
    clock.advance(4 * SECOND);
    assert_eq!(locks.peek("file").retry_after.span().unwrap().get(), 6_000_000_000);
    drop(lock);
    assert!(locks.peek("file").is_allowed());
}

#[test]
fn a_lock_lease_for_another_holder_lasts_for_its_ttl() {
    let (locks, clock) = locks();
    let lease = locks.lease("file", 10 * SECOND).1.unwrap();
    assert_eq!(locks.lease("file", 10 * SECOND).1, None);
    clock.advance(9 * SECOND);
    let Renewal::Renewed(renewed) = locks.renew("file", &lease.token, 10 * SECOND) else {
        panic!("it is held")
    };
    assert_eq!(renewed.fence, lease.fence);
    clock.advance(10 * SECOND);
    assert_eq!(locks.release("file", &renewed.token), Release::Expired);
    let next = locks.lease("file", 10 * SECOND).1.unwrap();
    assert_eq!(locks.renew("file", &renewed.token, 10 * SECOND), Renewal::Expired);
    assert_eq!(locks.release("file", &next.token), Release::Released);
}

#[test]
fn a_lock_with_a_zero_ttl_lasts_for_the_minimum_ttl() {
    let (locks, clock) = locks();
    let lock = locks.try_lock("file", Duration::ZERO).unwrap();
    assert!(locks.try_lock("file", Duration::ZERO).is_err());
    clock.advance(Duration::from_millis(1));
    assert!(locks.try_lock("file", Duration::ZERO).is_ok());
    assert_eq!(lock.release(), Release::Expired);
}
