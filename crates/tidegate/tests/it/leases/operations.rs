//! The results of a release and a renewal: released, already released, expired, wrong owner.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    FencingToken, Lease, LeaseToken, Limiter, ManualClock, MemoryStore, ParseLeaseTokenError, Release,
    Renewal,
};

use crate::leases::model::garbled;

const KEY: &str = "key";

fn one_at_a_time() -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(tidegate::Timestamp::from_nanos(1_700_000_000_000_000_000));
    let builder = Limiter::builder().limit("{algorithm: concurrency, limit: 1, ttl: 10s}");
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

fn acquired(limiter: &Limiter<ManualClock>) -> Lease {
    limiter.lease(KEY, 1, None).1.expect("it is free")
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_lease_is_released_once() {
    let (limiter, _) = one_at_a_time();
    let lease = acquired(&limiter);
    assert_eq!(limiter.release(KEY, &lease.token), Release::Released);
    assert_eq!(limiter.release(KEY, &lease.token), Release::AlreadyReleased);
    assert_eq!(limiter.renew(KEY, &lease.token, None), Renewal::AlreadyReleased);
    // Also when another holder has it by now. That one keeps it.
    let other = acquired(&limiter);
    assert_eq!(limiter.release(KEY, &lease.token), Release::AlreadyReleased);
    assert_eq!(limiter.release(KEY, &other.token), Release::Released);
}

#[test]
fn a_paused_holder_learns_that_its_lease_expired() {
    let (limiter, clock) = one_at_a_time();
    let paused = acquired(&limiter);
    clock.advance(10 * SECOND);
    // Before another holder acquires it, and after.
    assert_eq!(limiter.renew(KEY, &paused.token, None), Renewal::Expired);
    let other = acquired(&limiter);
    assert!(other.fence > paused.fence);
    assert_eq!(limiter.release(KEY, &paused.token), Release::Expired);
    assert_eq!(limiter.renew(KEY, &paused.token, None), Renewal::Expired);
    assert_eq!(limiter.release(KEY, &other.token), Release::Released);
}

#[test]
fn the_last_nanosecond_of_a_lease_is_part_of_it() {
    let (limiter, clock) = one_at_a_time();
    let lease = acquired(&limiter);
    clock.advance(10 * SECOND - Duration::from_nanos(1));
    assert!(!limiter.check(KEY, 1).is_allowed());
    assert_eq!(limiter.check(KEY, 1).retry_after.span().unwrap().get(), 1);
    assert_eq!(limiter.release(KEY, &lease.token), Release::Released);
}

#[test]
fn a_token_is_valid_only_for_its_key_and_store() {
    let (limiter, clock) = one_at_a_time();
    let lease = acquired(&limiter);
    assert_eq!(limiter.release("another key", &lease.token), Release::WrongOwner);
    let other_rule = |store| {
        let builder =
            Limiter::builder().rule("another").limit("{algorithm: concurrency, limit: 1, ttl: 10s}");
        builder.store(store).clock(clock.clone()).build().unwrap()
    };
    let (other_store, _) = one_at_a_time();
    assert!(other_store.lease(KEY, 1, None).1.is_some());
    assert_eq!(other_store.release(KEY, &lease.token), Release::WrongOwner);
    assert_eq!(
        other_rule(Arc::new(MemoryStore::bounded(1 << 20))).renew(KEY, &lease.token, None),
        Renewal::WrongOwner
    );
    // A wrong token stays wrong when the lease has expired.
    clock.advance(20 * SECOND);
    assert_eq!(limiter.release("another key", &lease.token), Release::WrongOwner);
    assert_eq!(limiter.release(KEY, &lease.token), Release::Expired);
}

#[test]
fn a_token_of_one_rule_is_invalid_for_another_rule() {
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    let clock = ManualClock::default();
    let rule = |name: &str| {
        let builder = Limiter::builder().rule(name).limit("{algorithm: concurrency, limit: 1, ttl: 10s}");
        builder.store(store.clone()).clock(clock.clone()).build().unwrap()
    };
    let (one, other) = (rule("one"), rule("other"));
    let lease = acquired(&one);
    assert!(other.lease(KEY, 1, None).1.is_some());
    assert_eq!(other.release(KEY, &lease.token), Release::WrongOwner);
    assert_eq!(one.release(KEY, &lease.token), Release::Released);
}

#[test]
fn a_token_with_a_changed_digit_is_invalid() {
    let (limiter, _) = one_at_a_time();
    let lease = acquired(&limiter);
    for digit in 0..80 {
        assert_eq!(limiter.release(KEY, &garbled(lease.token, digit)), Release::WrongOwner, "digit {digit}");
        assert_eq!(
            limiter.renew(KEY, &garbled(lease.token, digit), None),
            Renewal::WrongOwner,
            "digit {digit}"
        );
    }
    assert_eq!(limiter.release(KEY, &lease.token), Release::Released);
}

#[test]
fn tokens_round_trip_as_text() {
    let (limiter, _) = one_at_a_time();
    let lease = acquired(&limiter);
    let text = lease.token.to_string();
    assert_eq!(text.len(), 80);
    assert_eq!(text.parse::<LeaseToken>(), Ok(lease.token));
    assert_eq!(text.to_uppercase().parse::<LeaseToken>(), Ok(lease.token));
    // A logged token cannot be used.
    assert!(!format!("{lease:?}").contains(&text[32..64]));
    // A token without a ttl, as earlier versions wrote it.
    assert_eq!(text[..64].parse::<LeaseToken>(), Ok(lease.token.with_ttl(None)));
    let sign = format!("+{}", &text[1..]);
    let wide = format!("{}é", &text[..62]);
    for bad in ["", " ", &text[1..], &format!("{text}0"), &sign, &wide, &text.replacen(&text[..1], "g", 1)] {
        assert_eq!(bad.parse::<LeaseToken>(), Err(ParseLeaseTokenError), "{bad}");
    }
    assert!(ParseLeaseTokenError.to_string().contains("80 hexadecimal digits"));
    assert_eq!(limiter.release(KEY, &text.parse().unwrap()), Release::Released);
}

#[test]
fn a_token_stays_valid_after_a_renewal() {
    let (limiter, clock) = one_at_a_time();
    let first = acquired(&limiter);
    clock.advance(9 * SECOND);
    let Renewal::Renewed(second) = limiter.renew(KEY, &first.token, None) else { panic!("it is not over") };
    assert_eq!(second.fence, first.fence);
    assert_eq!(second.expires.as_nanos(), first.expires.as_nanos() + 9_000_000_000);
    clock.advance(9 * SECOND);
    assert!(!limiter.check(KEY, 1).is_allowed());
    let Renewal::Renewed(third) = limiter.renew(KEY, &first.token, None) else { panic!("it was renewed") };
    assert_eq!(limiter.release(KEY, &second.token), Release::Released);
    assert_eq!(limiter.release(KEY, &third.token), Release::AlreadyReleased);
}

#[test]
fn a_reset_ends_the_lease_and_the_next_fencing_token_is_higher() {
    let (limiter, _) = one_at_a_time();
    let mut last = FencingToken::default();
    let mut tokens: Vec<LeaseToken> = Vec::new();
    // All in the same nanosecond.
    for _ in 0..20 {
        let lease = acquired(&limiter);
        assert!(lease.fence > last, "{} after {last}", lease.fence);
        assert!(!tokens.contains(&lease.token));
        for old in &tokens {
            assert_eq!(limiter.release(KEY, old), Release::AlreadyReleased);
        }
        last = lease.fence;
        tokens.push(lease.token);
        limiter.reset(KEY);
    }
}
