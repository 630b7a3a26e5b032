//! Limits as text: what is read, what is written, and the errors for text that is not a limit.

#![cfg(feature = "calendar")]

mod builder;
mod errors;
mod rates;
mod round_trip;

use tidegate_core::algorithm::{Align, CalendarSpec, CountDenied, Weekday};
use tidegate_core::{AlgorithmName, Limit, LimitSpec, Timestamp};

use crate::properties::limits;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn read(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn assert_reads(text: &str, spec: LimitSpec) {
    assert_eq!(read(text), spec.build().expect("a valid spec"), "{text}");
}

#[test]
fn the_text_form_is_read() {
    for (text, limit, per_ns) in [
        ("100 per minute", 100, MINUTE),
        ("5 per 30s", 5, 30 * SECOND),
        ("10 per second", 10, SECOND),
        ("1000 per day", 1000, DAY),
        ("50 per hour", 50, HOUR),
        ("  100   per   minute  ", 100, MINUTE),
        ("100/minute", 100, MINUTE),
        ("5 / 15 minutes", 5, 15 * MINUTE),
        ("5 PER Minute", 5, MINUTE),
        ("1_000_000 per day", 1_000_000, DAY),
        ("0 per second", 0, SECOND),
        ("0", 0, SECOND),
        (" deny ", 0, SECOND),
        ("{limit: 0}", 0, SECOND),
        ("{limit: deny}", 0, SECOND),
        ("1099511627775 per 3650d", (1 << 40) - 1, 3650 * DAY),
    ] {
        assert_reads(text, LimitSpec::new(limit, per_ns));
    }
    assert_reads("10/s burst 20", LimitSpec { burst: Some(20), ..LimitSpec::new(10, SECOND) });
    assert_reads("10 per second BURST 3", LimitSpec { burst: Some(3), ..LimitSpec::new(10, SECOND) });
}

#[test]
fn durations_are_read() {
    for (text, per_ns) in [
        ("500ms", SECOND / 2),
        ("60s", MINUTE),
        ("1m", MINUTE),
        ("2h", 2 * HOUR),
        ("30d", 30 * DAY),
        ("60000000000ns", MINUTE),
        ("2000us", SECOND / 500),
        ("2000µs", SECOND / 500),
        ("minute", MINUTE),
        ("day", DAY),
        ("week", 7 * DAY),
        ("month", 30 * DAY),
        ("year", 365 * DAY),
        ("10 years", 3650 * DAY),
    ] {
        assert_reads(&format!("5 per {text}"), LimitSpec::new(5, per_ns));
        assert_reads(&format!("{{limit: 5, per: {text}}}"), LimitSpec::new(5, per_ns));
    }
}

#[test]
fn the_long_form_is_read() {
    let minute = LimitSpec::new(5, MINUTE);
    let with = |algorithm| LimitSpec { algorithm: Some(algorithm), ..minute.clone() };
    assert_reads(
        "{algorithm: gcra, limit: 7, per: 1s, burst: 3}",
        LimitSpec { burst: Some(3), ..LimitSpec::new(7, SECOND) },
    );
    assert_reads("{limit: 5 per minute, algorithm: sliding_window}", with(AlgorithmName::SlidingWindow));
    assert_reads("{ limit: 50 per hour }", LimitSpec::new(50, HOUR));
    assert_reads("{limit: 10/s burst 20}", LimitSpec { burst: Some(20), ..LimitSpec::new(10, SECOND) });
    assert_reads(r#"{"limit": 5, 'per': "1m"}"#, minute.clone());
    assert_reads("{limit: 5, per: 1m,}", minute.clone());
    assert_reads(
        "{algorithm: token_bucket, limit: 5, per: 1m, burst: 9}",
        LimitSpec { burst: Some(9), ..with(AlgorithmName::TokenBucket) },
    );
    assert_reads(
        "{algorithm: leaky_bucket, limit: 5, per: 1m, queue: 9}",
        LimitSpec { queue: Some(9), ..with(AlgorithmName::LeakyBucket) },
    );
    assert_reads(
        "{algorithm: fixed_window, limit: 5, per: 1m, align: first_hit, count_denied: true}",
        LimitSpec {
            align: Some(Align::FirstHit),
            count_denied: Some(CountDenied::Always),
            ..with(AlgorithmName::FixedWindow)
        },
    );
    assert_reads(
        "{algorithm: sliding_log, limit: 5, per: 1m, min_interval: 500ms, count_denied: true}",
        LimitSpec {
            min_interval_ns: Some(SECOND / 2),
            count_denied: Some(CountDenied::Always),
            ..with(AlgorithmName::SlidingLog)
        },
    );
    assert_reads(
        "{algorithm: sub_windows, limit: 5, per: 1m, sub_windows: 6, strict: false}",
        LimitSpec { sub_windows: Some(6), strict: Some(false), ..with(AlgorithmName::SubWindows) },
    );
    assert_reads(
        "{algorithm: concurrency, limit: 5, ttl: 1m}",
        LimitSpec { ttl_ns: Some(60 * SECOND), per_ns: 0, ..with(AlgorithmName::Concurrency) },
    );
    assert_eq!(read(r#"{limit: 5, per: 1m, name: "per user"}"#).name(), Some("per user"));
}

#[test]
fn calendars_are_read() {
    let calendar = |per_ns, spec| LimitSpec {
        algorithm: Some(AlgorithmName::FixedWindow),
        align: Some(Align::Calendar(spec)),
        ..LimitSpec::new(1000, per_ns)
    };
    let paris = CalendarSpec::in_zone("Europe/Paris");
    let sundays =
        CalendarSpec { week_starts: Some(Weekday::Sunday), ..CalendarSpec::in_zone("America/New_York") };
    let billing = CalendarSpec { day_of_month: Some(15), ..paris.clone() };
    for (options, spec) in [
        ("per: day, align: {tz: Europe/Paris}", calendar(DAY, paris.clone())),
        ("per: 1d, align: {tz: Europe/Paris}", calendar(DAY, paris.clone())),
        ("per: 24h, align: { tz : Europe/Paris , }", calendar(DAY, paris.clone())),
        ("align: {tz: europe/PARIS}, per: day", calendar(DAY, paris.clone())),
        ("per: week, align: {tz: America/New_York, week_starts: sunday}", calendar(7 * DAY, sundays.clone())),
        ("per: 7d, align: {week_starts: sunday, tz: America/New_York}", calendar(7 * DAY, sundays)),
        ("per: month, align: {tz: Europe/Paris, day_of_month: 15}", calendar(30 * DAY, billing.clone())),
        (r#""per": "30d", "align": {"tz": "Europe/Paris", "day_of_month": 15}"#, calendar(30 * DAY, billing)),
        ("per: month, align: {}", calendar(30 * DAY, CalendarSpec::default())),
        ("per: week, align: {week_starts: monday}", calendar(7 * DAY, CalendarSpec::default())),
    ] {
        assert_reads(&format!("{{algorithm: fixed_window, limit: 1000, {options}}}"), spec);
    }
    // The rate in one field, and other options after the braces.
    let counted = LimitSpec { count_denied: Some(CountDenied::Always), ..calendar(DAY, paris) };
    assert_reads(
        "{algorithm: fixed_window, align: {tz: Europe/Paris}, limit: 1000 per day, count_denied: true}",
        counted,
    );
}

/// Limits with different `align` are different.
#[test]
fn different_calendars_are_different_limits() {
    let limits = [
        "per: day",
        "per: day, align: {tz: UTC}",
        "per: day, align: {tz: Etc/UTC}",
        "per: day, align: {tz: Europe/Paris}",
        "per: week",
        "per: week, align: {tz: Europe/Paris}",
        "per: week, align: {tz: Europe/Paris, week_starts: sunday}",
        "per: month, align: {tz: Europe/Paris}",
        "per: month, align: {tz: Europe/Paris, day_of_month: 15}",
    ]
    .map(|options| read(&format!("{{algorithm: fixed_window, limit: 5, {options}}}")));
    for (index, one) in limits.iter().enumerate() {
        assert!(limits[..index].iter().all(|other| one != other), "{one}");
        assert_eq!(*one, one.clone());
    }
}

/// The rate is nominal, the window is that of the calendar: Paris has 23 hours on 2025-03-30 and 25 on 2025-10-26.
#[test]
fn calendar_windows_have_their_own_length() {
    let day = read("{algorithm: fixed_window, limit: 5, per: day, align: {tz: Europe/Paris}}");
    assert_eq!(day.rate().window_ns(), DAY);
    assert_eq!(day.as_sliding_log().rate(), day.rate());
    // Noon UTC on three days.
    for (noon, hours) in [(1_743_249_600, 24), (1_743_336_000, 23), (1_761_480_000, 25)] {
        assert_eq!(day.window_ns_at(Timestamp::from_nanos(noon * SECOND)), hours * HOUR, "{noon}");
    }
    let minute = read("5 per minute");
    assert_eq!(minute.window_ns_at(Timestamp::from_nanos(DAY)), MINUTE);
}

#[test]
fn omitted_options_have_defaults() {
    for (short, long) in [
        ("5 per minute", "{algorithm: gcra, limit: 5, per: 1m, burst: 5}"),
        (
            "{algorithm: leaky_bucket, limit: 5, per: 1m}",
            "{algorithm: leaky_bucket, limit: 5, per: 1m, queue: 5}",
        ),
        (
            "{algorithm: sub_windows, limit: 5, per: 1m}",
            "{algorithm: sub_windows, limit: 5, per: 1m, sub_windows: 60, strict: true}",
        ),
        (
            "{algorithm: fixed_window, limit: 5, per: 1m}",
            "{algorithm: fixed_window, limit: 5, per: 1m, align: epoch, count_denied: false}",
        ),
    ] {
        assert_eq!(read(short), read(long));
    }
}
