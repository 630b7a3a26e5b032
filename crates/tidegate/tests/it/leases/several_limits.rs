//! Concurrency limits beside other limits, beside each other, and changed while leases are held.

use std::time::Duration;

use tidegate::{Limiter, ManualClock, Release, Renewal, Timestamp};

const KEY: &str = "key";
const SECOND: Duration = Duration::from_secs(1);

fn limiter(limits: &[&str]) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_nanos(1_700_000_000_000_000_000));
    let builder = Limiter::builder().clock(clock.clone());
    (limits.iter().fold(builder, |builder, limit| builder.limit(*limit)).build().unwrap(), clock)
}

#[test]
fn a_denial_by_rate_takes_no_lease() {
    for rate in ["1 per minute", "{algorithm: sliding_log, limit: 1, per: 1m}"] {
        let (limiter, clock) = limiter(&[rate, "{algorithm: concurrency, limit: 3, ttl: 10s}"]);
        let first = limiter.try_acquire(KEY, 1).unwrap();
        for _ in 0..10 {
            let denied = limiter.try_acquire(KEY, 1).unwrap_err();
            assert_eq!(denied.decision().unwrap().decided_by, 0);
            assert_eq!(denied.retry_after().unwrap().span().unwrap().get(), 60_000_000_000);
        }
        drop(first);
        clock.advance(60 * SECOND);
        // With a higher rate, all three slots are available.
        let roomy =
            limiter.with_limits(["9 per second", "{algorithm: concurrency, limit: 3, ttl: 10s}"]).unwrap();
        clock.advance(60 * SECOND);
        assert!(roomy.try_acquire(KEY, 3).is_ok(), "{rate}");
    }
}

#[test]
fn a_denial_by_concurrency_charges_no_rate() {
    for rate in ["3 per minute", "{algorithm: sliding_log, limit: 3, per: 1m}"] {
        let (limiter, _) = limiter(&["{algorithm: concurrency, limit: 1, ttl: 10s}", rate]);
        for left in [2, 1, 0] {
            let admitted = limiter.try_acquire(KEY, 1).unwrap();
            for _ in 0..10 {
                assert!(limiter.try_acquire(KEY, 1).is_err());
                assert!(!limiter.check(KEY, 1).is_allowed());
            }
            drop(admitted);
            let peek = limiter.peek(KEY, 0);
            assert_eq!(peek.remaining, left.min(1), "{rate}");
        }
        assert!(limiter.try_acquire(KEY, 1).is_err());
    }
}

#[test]
fn the_shorter_of_two_ttls_ends_the_lease() {
    let limits =
        ["{algorithm: concurrency, limit: 2, ttl: 60s}", "{algorithm: concurrency, limit: 3, ttl: 10s}"];
    let (limiter, clock) = limiter(&limits);
    let mut leases = Vec::new();
    for _ in 0..2 {
        let (_, lease) = limiter.lease(KEY, 1, None);
        leases.push(lease.unwrap());
    }
    assert!(limiter.lease(KEY, 1, None).1.is_none());
    assert!(leases[0].fence < leases[1].fence);
    for lease in &leases {
        assert_eq!(lease.expires.as_nanos(), 1_700_000_010_000_000_000);
    }
    clock.advance(5 * SECOND);
    let Renewal::Renewed(renewed) = limiter.renew(KEY, &leases[0].token, None) else { panic!("it is held") };
    assert_eq!(renewed.expires.as_nanos(), 1_700_000_015_000_000_000);
    assert_eq!(limiter.release(KEY, &leases[1].token), Release::Released);
    assert_eq!(limiter.peek(KEY, 0).remaining, 1);
    clock.advance(10 * SECOND);
    assert_eq!(limiter.peek(KEY, 0).remaining, 2);
    assert_eq!(limiter.release(KEY, &leases[0].token), Release::Expired);
    let (_, next) = limiter.lease(KEY, 2, None);
    assert!(next.unwrap().fence > leases[1].fence);
}

/// The states of two keys may have seen different times. A lease of both must not end early for either of them.
#[test]
fn limits_with_different_clocks_share_one_lease() {
    let slow = "{algorithm: concurrency, limit: 2, ttl: 10s, name: slow}";
    let fast = "{algorithm: concurrency, limit: 2, ttl: 10s, name: fast}";
    let (both, clock) = limiter(&[slow, fast]);
    let alone = both.with_limits([fast]).unwrap();
    assert!(alone.check(KEY, 1).is_allowed());
    clock.set(Timestamp::from_nanos(1_699_999_900_000_000_000));
    let admitted = both.try_acquire(KEY, 1).unwrap();
    assert!(both.try_acquire(KEY, 1).is_err());
    assert_eq!(admitted.release(), Release::Released);
    assert!(both.try_acquire(KEY, 1).is_ok());
}

#[test]
fn a_lowered_and_raised_limit_keeps_open_leases() {
    let at_a_time = |limit: u64| format!("{{algorithm: concurrency, limit: {limit}, ttl: 10s}}");
    let (four, clock) = limiter(&[&at_a_time(4)]);
    let mut admitted: Vec<_> = (0..4).map(|_| four.try_acquire(KEY, 1).unwrap()).collect();
    let two = four.with_limits([at_a_time(2)]).unwrap();
    assert_eq!(two.peek(KEY, 0).remaining, 0);
    assert!(two.try_acquire(KEY, 1).is_err());
    // Two have to be released before one can be acquired.
    drop(admitted.pop());
    drop(admitted.pop());
    assert_eq!(
        two.try_acquire(KEY, 1).unwrap_err().retry_after().unwrap().span().unwrap().get(),
        10_000_000_000
    );
    drop(admitted.pop());
    let under_two = two.try_acquire(KEY, 1).unwrap();
    let six = two.with_limits([at_a_time(6)]).unwrap();
    assert_eq!(six.peek(KEY, 0).remaining, 4);
    // Tokens are valid under any of them.
    let token = under_two.lease().unwrap().token;
    assert!(matches!(six.renew(KEY, &token, None), Renewal::Renewed(_)));
    assert_eq!(six.release(KEY, &token), Release::Released);
    assert_eq!(under_two.release(), Release::AlreadyReleased);
    let zero = six.with_limits([at_a_time(0)]).unwrap();
    assert_eq!(zero.try_acquire(KEY, 1).unwrap_err().retry_after(), Some(tidegate::Wait::NEVER));
    clock.advance(10 * SECOND);
    assert_eq!(four.peek(KEY, 0).remaining, 4);
}

/// One limit of each kind together: a peek returns the same as the check after it.
#[test]
fn a_peek_answers_as_the_check_after_it() {
    let limits = [
        "{algorithm: concurrency, limit: 3, ttl: 2s}",
        "{algorithm: sliding_log, limit: 7, per: 5s}",
        "{algorithm: concurrency, limit: 5, ttl: 3s}",
        "4/s burst 4",
    ];
    let (limiter, clock) = limiter(&limits);
    for step in 0..400_u64 {
        clock.advance(Duration::from_millis(step * 37 % 450));
        let cost = step % 4;
        let peek = limiter.peek(KEY, cost);
        match step % 3 {
            0 => assert_eq!(limiter.check(KEY, cost), peek, "step {step}"),
            1 => assert_eq!(limiter.lease(KEY, cost, None).0, peek, "step {step}"),
            _ => assert_eq!(
                limiter
                    .try_acquire(KEY, cost)
                    .map_or_else(|refused| *refused.decision().unwrap(), |admitted| *admitted.decision()),
                peek
            ),
        }
    }
}
