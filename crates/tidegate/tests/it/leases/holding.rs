//! What is held is given back when its holder is done, however that comes about.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Fence, Limiter, ManualClock, Release, Renewal};

const KEY: &str = "key";
const SECOND: Duration = Duration::from_secs(1);

fn limiter(limit: &str) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(tidegate::Timestamp::from_nanos(1_700_000_000_000_000_000));
    (Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap(), clock)
}

fn two() -> (Limiter<ManualClock>, ManualClock) {
    limiter("{algorithm: concurrency, limit: 2, ttl: 10s}")
}

fn free(limiter: &Limiter<ManualClock>) -> u64 {
    limiter.peek(KEY, 0).remaining
}

#[test]
fn a_holding_is_given_back_when_it_is_dropped_or_released() {
    let (limiter, _) = two();
    let one = limiter.try_acquire(KEY, 1).unwrap();
    let other = limiter.try_acquire(KEY, 1).unwrap();
    assert_eq!(free(&limiter), 0);
    assert!(other.fence() > one.fence());
    drop(one);
    assert_eq!(free(&limiter), 1);
    assert_eq!(other.release(), Release::Released);
    assert_eq!(free(&limiter), 2);
}

#[test]
fn several_units_are_held_and_given_back_together() {
    let (limiter, _) = two();
    let both = limiter.try_acquire(KEY, 2).unwrap();
    let denied = limiter.try_acquire(KEY, 1).unwrap_err();
    assert_eq!(denied.retry_after().unwrap().span().unwrap().get(), 10_000_000_000);
    drop(both);
    assert_eq!(free(&limiter), 2);
    assert_eq!(limiter.try_acquire(KEY, 3).unwrap_err().retry_after(), Some(tidegate::Wait::NEVER));
}

#[test]
fn nothing_held_is_nothing_to_give_back() {
    let (limiter, _) = two();
    let mut nothing = limiter.try_acquire(KEY, 0).unwrap();
    assert_eq!(nothing.lease(), None);
    assert_eq!(nothing.fence(), Fence::default());
    assert_eq!(nothing.renew(), Renewal::AlreadyReleased);
    assert_eq!(nothing.release(), Release::AlreadyReleased);
    let (rate, _) = self::limiter("1/s burst 1");
    let passed = rate.try_acquire(KEY, 1).unwrap();
    assert_eq!(passed.lease(), None);
    drop(passed);
    assert_eq!(free(&rate), 0);
}

#[test]
fn a_renewal_extends_it_and_keeps_its_number() {
    let (limiter, clock) = two();
    let mut holding = limiter.try_acquire(KEY, 2).unwrap();
    let fence = holding.fence();
    for _ in 0..5 {
        clock.advance(9 * SECOND);
        assert!(matches!(holding.renew(), Renewal::Renewed(_)));
        assert_eq!(holding.fence(), fence);
        assert_eq!(free(&limiter), 0);
    }
    clock.advance(10 * SECOND);
    assert_eq!(free(&limiter), 2);
    assert_eq!(holding.renew(), Renewal::Expired);
    assert_eq!(holding.release(), Release::Expired);
}

#[test]
fn one_for_less_than_the_ttl_is_renewed_for_less() {
    let (limiter, clock) = two();
    let mut short = limiter.try_acquire_for(KEY, 1, 3 * SECOND).unwrap();
    let long = limiter.try_acquire_for(KEY, 1, 300 * SECOND).unwrap();
    let lasts_ns = |holding: &tidegate::Admitted<'_, ManualClock>| {
        holding.lease().unwrap().expires.as_nanos() - tidegate::Clock::now(&clock).as_nanos()
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

/// A clock that steps back, as one of several machines may, does not hand out what is over already.
#[test]
fn one_acquired_by_a_clock_that_is_behind_lasts_as_long() {
    let (limiter, clock) = two();
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
fn an_owned_one_goes_to_another_thread() {
    let (limiter, _) = two();
    let limiter = Arc::new(limiter);
    let holding = limiter.try_acquire_owned(KEY, 2).unwrap();
    assert_eq!(free(&limiter), 0);
    let released = std::thread::spawn(move || holding.release()).join().unwrap();
    assert_eq!(released, Release::Released);
    assert_eq!(free(&limiter), 2);
    let holding = limiter.try_acquire_owned(KEY, 1).unwrap();
    std::thread::spawn(move || drop(holding)).join().unwrap();
    assert_eq!(free(&limiter), 2);
}

#[test]
fn a_holder_that_panics_gives_it_back() {
    let (limiter, _) = two();
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let _holding = limiter.try_acquire(KEY, 2).unwrap();
            assert_eq!(free(&limiter), 0);
            // Without a message: this is meant.
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(holder.join().is_err());
    });
    assert_eq!(free(&limiter), 2);
}

#[test]
fn one_dropped_after_its_time_does_not_take_from_the_next() {
    let (limiter, clock) = limiter("{algorithm: concurrency, limit: 1, ttl: 10s}");
    let paused = limiter.try_acquire(KEY, 1).unwrap();
    clock.advance(11 * SECOND);
    let next = limiter.try_acquire(KEY, 1).unwrap();
    drop(paused);
    assert_eq!(free(&limiter), 0);
    assert!(limiter.try_acquire(KEY, 1).is_err());
    assert_eq!(next.release(), Release::Released);
}
