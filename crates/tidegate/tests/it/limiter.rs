//! The limiter: several limits, changes in flight, errors.

use std::net::IpAddr;
use std::time::Duration;

use tidegate::{Clock, IpKey, Limit, Limiter, ManualClock, Timestamp};

fn limiter(limits: &[&str], clock: &ManualClock) -> Limiter<ManualClock> {
    let builder = limits.iter().fold(Limiter::builder(), |builder, limit| builder.limit(*limit));
    builder.clock(clock.clone()).build().unwrap()
}

fn count_admitted<C: Clock>(limiter: &Limiter<C>, attempts: u32) -> u32 {
    (0..attempts).map(|_| u32::from(limiter.check("key", 1).is_allowed())).sum()
}

#[test]
fn the_tightest_limit_decides_and_a_denial_charges_none() {
    let clock = ManualClock::at(Timestamp::from_nanos(3_600_000_000_000));
    let limiter =
        limiter(&["2 per second", "{algorithm: fixed_window, limit: 5, per: 1h, name: hourly}"], &clock);
    assert_eq!(count_admitted(&limiter, 10), 2);
    let denied = limiter.check("key", 1);
    assert_eq!((denied.decided_by, denied.retry_after.span().unwrap().get()), (0, 500_000_000));
    clock.advance(Duration::from_secs(1));
    assert_eq!(count_admitted(&limiter, 10), 2);
    clock.advance(Duration::from_secs(1));
    // If the eight denials had charged the hourly limit, nothing would be left of its five.
    assert_eq!(count_admitted(&limiter, 10), 1);
    let denied = limiter.check("key", 1);
    assert_eq!(limiter.limits().nth(denied.decided_by).unwrap().name(), Some("hourly"));
    assert_eq!(denied.retry_after.span().unwrap().as_duration(), Duration::from_secs(3_598));
}

#[test]
fn raising_and_lowering_a_limit_keeps_what_was_used() {
    for algorithm in ["gcra", "token_bucket", "fixed_window", "sliding_window", "sliding_log", "sub_windows"]
    {
        let clock = ManualClock::at(Timestamp::from_nanos(7_200_000_000_000));
        let limit = |limit: u32| format!("{{algorithm: {algorithm}, limit: {limit}, per: 1h}}");
        let first = limiter(&[&limit(10)], &clock);
        assert_eq!(count_admitted(&first, 5), 5);
        let raised = first.with_limits([limit(20).as_str()]).unwrap();
        // Windows keep their counts: 5 of 20 are used. A bucket keeps its share: half of 20 is used.
        let expected = if matches!(algorithm, "gcra" | "token_bucket") { 10 } else { 15 };
        assert_eq!(count_admitted(&raised, 30), expected, "{algorithm}");
        let lowered = raised.with_limits([limit(2).as_str()]).unwrap();
        assert_eq!(count_admitted(&lowered, 5), 0, "{algorithm}");
    }
}

#[test]
fn a_changed_window_is_enforced_beside_the_old_one() {
    let clock = ManualClock::at(Timestamp::from_nanos(86_400_000_000_000));
    let old = limiter(&["{algorithm: fixed_window, limit: 3, per: 1m}"], &clock);
    assert_eq!(count_admitted(&old, 3), 3);
    let new = old.with_limits(["{algorithm: sliding_log, limit: 5, per: 1h}"]).unwrap();
    assert_eq!(new.limits().count(), 2);
    assert_eq!(count_admitted(&new, 10), 0, "no fresh window");
    clock.advance(Duration::from_secs(60));
    assert_eq!(count_admitted(&new, 10), 5, "after the shorter window the new limit is alone");
    // Changed back within the hour: the log keeps its counts, and is enforced beside the window for a minute.
    let back = new.with_limits(["{algorithm: fixed_window, limit: 3, per: 1m}"]).unwrap();
    assert_eq!(count_admitted(&back, 10), 0);
    clock.advance(Duration::from_secs(60));
    assert_eq!(count_admitted(&back, 10), 3);
}

/// October 26th 2025 has 25 hours in Paris. What was used in the first is not available again in the last.
#[test]
#[cfg(feature = "calendar")]
fn a_changed_calendar_is_enforced_until_its_real_window_ends() {
    const MIDNIGHT_NS: u64 = 1_761_429_600_000_000_000;
    const MINUTES: u64 = 60;
    let clock = ManualClock::at(Timestamp::from_nanos(MIDNIGHT_NS));
    let old = limiter(&["{algorithm: fixed_window, limit: 3, per: day, align: {tz: Europe/Paris}}"], &clock);
    assert_eq!(count_admitted(&old, 5), 3);
    clock.advance(Duration::from_secs(30 * MINUTES));
    let new = old.with_limits(["{algorithm: sliding_log, limit: 5, per: 3d}"]).unwrap();
    assert_eq!(count_admitted(&new, 5), 0, "no fresh window");
    clock.advance(Duration::from_secs((24 * 60 + 15) * MINUTES));
    assert_eq!(count_admitted(&new, 5), 0, "after 24 hours the day is not over");
    clock.advance(Duration::from_secs(15 * MINUTES));
    assert_eq!(count_admitted(&new, 2), 2, "after 25 it is");
}

#[test]
#[cfg(feature = "calendar")]
fn another_zone_or_billing_day_is_another_counter() {
    let clock = ManualClock::at(Timestamp::from_nanos(1_750_000_000_000_000_000));
    let month =
        |align: &str| format!("{{algorithm: fixed_window, limit: 3, per: month, align: {{{align}}}}}");
    let old = limiter(&[&month("tz: Europe/Paris")], &clock);
    assert_eq!(count_admitted(&old, 5), 3);
    for align in ["tz: Europe/Rome", "tz: Europe/Paris, day_of_month: 15"] {
        let new = old.with_limits([month(align).as_str()]).unwrap();
        assert_eq!(new.limits().count(), 2, "{align}");
        assert_eq!(count_admitted(&new, 5), 0, "{align}");
    }
    let same = old.with_limits([month("tz: europe/paris, day_of_month: 1").as_str()]).unwrap();
    assert_eq!(same.limits().count(), 1);
}

#[test]
fn the_deciding_limit_is_named_while_superseded_limits_remain() {
    let clock = ManualClock::default();
    let old = limiter(&["{limit: 9, per: 1m, name: x}", "{limit: 2, per: 1h, name: y}"], &clock);
    assert_eq!(count_admitted(&old, 2), 2);
    let changed = "{algorithm: sliding_log, limit: 90, per: 1m, name: x}";
    let new = old.with_limits([changed, "{algorithm: sliding_log, limit: 90, per: 1h, name: y}"]).unwrap();
    // The old x has expired by now. The old y has not, and has nothing left.
    clock.advance(Duration::from_secs(61));
    let denied = new.check("key", 1);
    assert!(!denied.is_allowed());
    let decided = new.limits().nth(denied.decided_by).unwrap().to_string();
    assert_eq!(decided, "{algorithm: gcra, limit: 2, per: 1h, name: y}");
}

/// The old limit would deny the request for an hour, but is enforced only for a second.
#[test]
fn retry_after_ends_with_the_superseded_limit() {
    let clock = ManualClock::default();
    let old = limiter(&["1 per hour"], &clock);
    assert_eq!(count_admitted(&old, 1), 1);
    let new = old.with_limits(["{algorithm: fixed_window, limit: 2, per: 1s}"]).unwrap();
    clock.advance(Duration::from_millis(400));
    for denied in [new.check("key", 1), new.peek("key", 1), new.lease("key", 1, None).0] {
        assert_eq!(denied.retry_after.span().unwrap().as_duration(), Duration::from_millis(600));
    }
    // More than the old limit can ever admit, and not more than the new one.
    assert_eq!(new.check("key", 2).retry_after.span().unwrap().as_duration(), Duration::from_millis(600));
    assert_eq!(new.check("key", 3).retry_after.span(), None);
    clock.advance(Duration::from_millis(600));
    assert!(new.check("key", 2).is_allowed());
    assert_eq!(new.check("key", 1).retry_after.span().unwrap().as_duration(), Duration::from_secs(1));
}

#[test]
fn a_named_limit_keeps_its_counter_at_any_position() {
    let clock = ManualClock::default();
    let first = limiter(&["{limit: 4, per: 1h, name: a}", "{limit: 9, per: 1h, name: b}"], &clock);
    assert_eq!(count_admitted(&first, 10), 4);
    let swapped =
        first.with_limits(["{limit: 9, per: 1h, name: b}", "{limit: 4, per: 1h, name: a}"]).unwrap();
    assert_eq!(count_admitted(&swapped, 10), 0);
    let without = first.with_limits(["{limit: 9, per: 1h, name: b}"]).unwrap();
    assert_eq!(count_admitted(&without, 10), 5);
}

#[test]
fn limits_built_in_code_equal_their_text() {
    let clock = ManualClock::default();
    let built = Limiter::builder()
        .limit(Limit::per(5, Duration::from_secs(3600)).name("a"))
        .limit(Limit::concurrency(3, Duration::from_secs(60)))
        .clock(clock.clone())
        .build()
        .unwrap();
    let read =
        limiter(&["{limit: 5, per: 1h, name: a}", "{algorithm: concurrency, limit: 3, ttl: 1m}"], &clock);
    assert!(built.limits().eq(read.limits()));
    let changed = built.with_limits([Limit::per_hour(4).name("a")]).unwrap();
    assert_eq!(changed.limits().next(), Some(&"{limit: 4, per: 1h, name: a}".parse().unwrap()));
}

#[test]
fn errors_name_the_problem_and_give_a_hint() {
    let error = |limits: &[&str]| {
        let builder = limits.iter().fold(Limiter::builder(), |builder, limit| builder.limit(*limit));
        builder.build().err().unwrap().to_string()
    };
    assert_eq!(error(&[]), "there is no limit (hint: add one, for example `100 per minute`)");
    assert_eq!(
        error(&["10 per lustrum"]),
        "in limit `10 per lustrum`: unknown unit of time `lustrum` (hint: expected one of: ns, nanosecond, nanoseconds, us, \
         µs, microsecond, microseconds, ms, millisecond, milliseconds, s, sec, secs, second, seconds, m, min, mins, \
         minute, minutes, h, hour, hours, d, day, days, w, week, weeks, month, months, y, year, years)"
    );
    assert_eq!(
        error(&["{limit: 1, per: 1s, name: a}", "{limit: 2, per: 1s, name: a}"]),
        "two limits are named `a` (hint: names tell limits apart; choose another)"
    );
    let built = Limiter::new(Limit::per_second(5).sliding_log().burst(9)).unwrap_err();
    assert_eq!(
        built.to_string(),
        "in limit `{algorithm: sliding_log, limit: 5, per: 1s, burst: 9}`: `burst` does not go with algorithm sliding_log \
         (hint: leave it out, or use algorithm: gcra or token_bucket)"
    );
    assert_eq!(error(&["1/s"; 33]), "33 limits are too many (hint: 32 are the most for one limiter)");
}

#[test]
fn the_system_clock_follows_wall_time_and_never_steps_back() {
    #[allow(clippy::disallowed_methods, reason = "the clock is held against the wall")]
    let wall_ns = || {
        let wall = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
        u64::try_from(wall.as_nanos()).unwrap()
    };
    let before_ns = wall_ns();
    let clock = tidegate::SystemClock::new();
    let mut last = clock.now();
    let after_ns = wall_ns();
    // However long that took. The wall clock itself may be set meanwhile.
    const SET_BY_NS: u64 = 5_000_000_000;
    assert!((before_ns - SET_BY_NS..=after_ns + SET_BY_NS).contains(&last.as_nanos()));
    for _ in 0..100_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
}

#[test]
fn keys_of_different_types_have_separate_counters() {
    let limiter = Limiter::builder().limit("1 per hour").clock(ManualClock::default()).build().unwrap();
    let address: IpAddr = "2001:db8::1".parse().unwrap();
    let neighbour: IpAddr = "2001:db8::2".parse().unwrap();
    assert!(limiter.check("user:42", 1).is_allowed());
    assert!(limiter.check(42_u64, 1).is_allowed());
    assert!(limiter.check(IpKey::new(address), 1).is_allowed());
    assert!(limiter.check((42, IpKey::new(address)), 1).is_allowed());
    assert!(limiter.check(("ab", "c"), 1).is_allowed());
    assert!(limiter.check(("a", "bc"), 1).is_allowed());

    // The same keys, written differently.
    assert!(!limiter.check(b"user:42", 1).is_allowed());
    assert!(!limiter.check("42", 1).is_allowed());
    assert!(!limiter.peek(IpKey::new(neighbour), 1).is_allowed());
    assert!(!limiter.peek((42_usize, &IpKey::new(neighbour)), 1).is_allowed());
    assert!(!limiter.peek((String::from("ab"), *b"c"), 1).is_allowed());

    limiter.reset(42_i32);
    assert!(limiter.check(42_u64, 1).is_allowed());
    limiter.refund_at((42_u8, IpKey::new(neighbour)), 1, Timestamp::default());
    assert!(limiter.check((42, IpKey::new(address)), 1).is_allowed());
}
