//! A guard releases its lease when it is dropped, in every way that can happen.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{FencingToken, Limiter, ManualClock, Release, Renewal};

const KEY: &str = "key";
const SECOND: Duration = Duration::from_secs(1);

fn limiter(limit: &str) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(tidegate::Timestamp::from_nanos(1_700_000_000_000_000_000));
    (Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap(), clock)
}

fn limiter_of_two() -> (Limiter<ManualClock>, ManualClock) {
    limiter("{algorithm: concurrency, limit: 2, ttl: 10s}")
}

fn free(limiter: &Limiter<ManualClock>) -> u64 {
    limiter.peek(KEY, 0).remaining
}

#[test]
fn a_guard_is_released_by_drop_or_release() {
    let (limiter, _) = limiter_of_two();
    let one = limiter.try_acquire(KEY, 1).unwrap();
    let other = limiter.try_acquire(KEY, 1).unwrap();
    assert_eq!(free(&limiter), 0);
    assert!(other.fencing_token() > one.fencing_token());
    drop(one);
    assert_eq!(free(&limiter), 1);
    assert_eq!(other.release(), Release::Released);
    assert_eq!(free(&limiter), 2);
}

#[test]
fn several_units_are_leased_and_released_together() {
    let (limiter, _) = limiter_of_two();
    let both = limiter.try_acquire(KEY, 2).unwrap();
    let denied = limiter.try_acquire(KEY, 1).unwrap_err();
    assert_eq!(denied.retry_after().unwrap().span().unwrap().get(), 10_000_000_000);
    drop(both);
    assert_eq!(free(&limiter), 2);
    assert_eq!(limiter.try_acquire(KEY, 3).unwrap_err().retry_after(), Some(tidegate::Wait::NEVER));
}

#[test]
fn a_guard_without_a_lease_releases_nothing() {
    let (limiter, _) = limiter_of_two();
    let mut nothing = limiter.try_acquire(KEY, 0).unwrap();
    assert_eq!(nothing.lease(), None);
    assert_eq!(nothing.fencing_token(), FencingToken::default());
    assert_eq!(nothing.renew(), Renewal::AlreadyReleased);
    assert_eq!(nothing.release(), Release::AlreadyReleased);
    let (rate, _) = self::limiter("1/s burst 1");
    let passed = rate.try_acquire(KEY, 1).unwrap();
    assert_eq!(passed.lease(), None);
    drop(passed);
    assert_eq!(free(&rate), 0);
}

#[test]
fn a_renewal_extends_the_lease_and_keeps_its_fencing_token() {
    let (limiter, clock) = limiter_of_two();
    let mut admitted = limiter.try_acquire(KEY, 2).unwrap();
    let fence = admitted.fencing_token();
    for _ in 0..5 {
        clock.advance(9 * SECOND);
        assert!(matches!(admitted.renew(), Renewal::Renewed(_)));
        assert_eq!(admitted.fencing_token(), fence);
        assert_eq!(free(&limiter), 0);
    }
    clock.advance(10 * SECOND);
    assert_eq!(free(&limiter), 2);
    assert_eq!(admitted.renew(), Renewal::Expired);
    assert_eq!(admitted.release(), Release::Expired);
}

#[test]
fn a_shorter_lease_is_renewed_for_its_own_ttl() {
    let (limiter, clock) = limiter_of_two();
    let mut short = limiter.try_acquire_for(KEY, 1, 3 * SECOND).unwrap();
    let long = limiter.try_acquire_for(KEY, 1, 300 * SECOND).unwrap();
    let lasts_ns = |admitted: &tidegate::Admitted<'_, ManualClock>| {
        admitted.lease().unwrap().expires.as_nanos() - tidegate::Clock::now(&clock).as_nanos()
    };
    assert_eq!(lasts_ns(&short), 3_000_000_000);
    assert_eq!(lasts_ns(&long), 10_000_000_000);
    clock.advance(2 * SECOND);
    assert!(matches!(short.renew(), Renewal::Renewed(_)));
    assert_eq!(lasts_ns(&short), 3_000_000_000);
    clock.advance(3 * SECOND);
    assert_eq!(free(&limiter), 1);
    assert_eq!(short.release(), Release::Expired);
    assert_eq!(long.release(), Release::Released);
}

/// If a clock is behind, as that of one of several machines may be, a lease must not be over when it is granted.
#[test]
fn a_lease_acquired_by_a_late_clock_lasts_as_long() {
    let (limiter, clock) = limiter_of_two();
    let now = tidegate::Clock::now(&clock);
    let first = limiter.try_acquire(KEY, 1).unwrap();
    clock.set(tidegate::Timestamp::from_nanos(now.as_nanos() - 60_000_000_000));
    let second = limiter.try_acquire_for(KEY, 1, 3 * SECOND).unwrap();
    assert_eq!(free(&limiter), 0);
    assert_eq!(second.lease().unwrap().expires.as_nanos(), now.as_nanos() + 3_000_000_000);
    drop((first, second));
    assert_eq!(free(&limiter), 2);
}

#[test]
fn an_owned_guard_moves_to_another_thread() {
    let (limiter, _) = limiter_of_two();
    let limiter = Arc::new(limiter);
    let admitted = limiter.try_acquire_owned(KEY, 2).unwrap();
    assert_eq!(free(&limiter), 0);
    let released = std::thread::spawn(move || admitted.release()).join().unwrap();
    assert_eq!(released, Release::Released);
    assert_eq!(free(&limiter), 2);
    let admitted = limiter.try_acquire_owned(KEY, 1).unwrap();
    std::thread::spawn(move || drop(admitted)).join().unwrap();
    assert_eq!(free(&limiter), 2);
}

#[test]
fn a_panic_releases_the_guard() {
    let (limiter, _) = limiter_of_two();
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let _holding = limiter.try_acquire(KEY, 2).unwrap();
            assert_eq!(free(&limiter), 0);
            // `resume_unwind` prints no message: this panic is intended.
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(holder.join().is_err());
    });
    assert_eq!(free(&limiter), 2);
}

#[test]
fn an_expired_guard_takes_nothing_from_the_next() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 1, ttl: 10s}");
    let paused = limiter.try_acquire(KEY, 1).unwrap();
    clock.advance(11 * SECOND);
    let next = limiter.try_acquire(KEY, 1).unwrap();
    drop(paused);
    assert_eq!(free(&limiter), 0);
    assert!(limiter.try_acquire(KEY, 1).is_err());
    assert_eq!(next.release(), Release::Released);
}
