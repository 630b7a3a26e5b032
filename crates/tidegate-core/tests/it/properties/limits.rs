//! Limits to test with: the ends of every range, common examples, and random ones.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::algorithm::{Align, CalendarSpec, CountDenied, Weekday};
use tidegate_core::{AlgorithmName, LimitSpec, UNITS_MAX, WINDOW_NS_MAX, WINDOW_NS_MIN};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const DAY: u64 = 86_400 * SECOND;
const YEAR: u64 = 365 * DAY;

/// The zones that the model knows. `models/zones.txt` says why these.
pub const CALENDAR_ZONES: [&str; 11] = [
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "America/St_Johns",
    "America/Havana",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Asia/Beirut",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Antarctica/Casey",
];

/// L per W.
fn rate() -> impl Strategy<Value = LimitSpec> {
    let edge_cases = select(vec![
        // Intervals that are not a whole number of nanoseconds.
        (3, SECOND),
        (7, SECOND),
        (1_000_003, SECOND),
        (7, WINDOW_NS_MIN),
        // The slowest and the fastest.
        (1, YEAR),
        (1, WINDOW_NS_MAX),
        (10_000_000, SECOND),
        (UNITS_MAX, WINDOW_NS_MIN),
        (UNITS_MAX, WINDOW_NS_MAX),
        // More units than nanoseconds.
        (2 * MS + 1, WINDOW_NS_MIN),
        // Windows that divide 2^64, so that one ends exactly with representable time.
        (3, 1 << 20),
        (5, 1 << 32),
        // Zero, and one at a time.
        (0, SECOND),
        (1, WINDOW_NS_MIN),
        (1, SECOND),
        (100, 60 * SECOND),
    ]);
    let small = (1..20_u64, select(vec![WINDOW_NS_MIN, MS + 1, 10 * MS, SECOND, 60 * SECOND]));
    let any = (0..=UNITS_MAX, WINDOW_NS_MIN..=WINDOW_NS_MAX);
    prop_oneof![3 => edge_cases, 4 => small, 1 => any]
        .prop_map(|(limit, per_ns)| LimitSpec::new(limit, per_ns))
}

/// A burst or a queue.
fn units() -> impl Strategy<Value = Option<u64>> {
    let number = prop_oneof![4 => 1..20_u64, 1 => Just(UNITS_MAX), 1 => 1..=UNITS_MAX];
    option::of(number)
}

pub fn of(algorithm: AlgorithmName) -> BoxedStrategy<LimitSpec> {
    let rate = rate().prop_map(move |rate| LimitSpec { algorithm: Some(algorithm), ..rate });
    match algorithm {
        AlgorithmName::Gcra | AlgorithmName::TokenBucket => {
            (rate, units()).prop_map(|(rate, burst)| LimitSpec { burst, ..rate }).boxed()
        }
        AlgorithmName::LeakyBucket => {
            (rate, units()).prop_map(|(rate, queue)| LimitSpec { queue, ..rate }).boxed()
        }
        AlgorithmName::FixedWindow => {
            let align = option::of(select(vec![Align::Epoch, Align::FirstHit]));
            let plain = (rate, align).prop_map(|(rate, align)| LimitSpec { align, ..rate });
            (prop_oneof![plain, calendar_limit()], option::of(select(CountDenied::ALL.to_vec())))
                .prop_map(|(spec, count_denied)| LimitSpec { count_denied, ..spec })
                .boxed()
        }
        AlgorithmName::SlidingLog => {
            // In 1/16: from one nanosecond, through a part of the window, to the whole window.
            (rate, option::of(select(CountDenied::ALL.to_vec())), option::of(0..=16_u64))
                .prop_map(|(rate, count_denied, sixteenths)| {
                    let min_interval_ns = sixteenths.map(|part| (rate.per_ns / 16 * part).max(1));
                    LimitSpec { count_denied, min_interval_ns, ..rate }
                })
                .boxed()
        }
        AlgorithmName::Concurrency => {
            rate.prop_map(|rate| LimitSpec { ttl_ns: Some(rate.per_ns), per_ns: 0, ..rate }).boxed()
        }
        AlgorithmName::SlidingWindow => rate.boxed(),
        AlgorithmName::SubWindows => {
            let number = prop_oneof![4 => 1..8_u64, 2 => 8..=60_u64, 1 => Just(65_536), 1 => 1..=65_536_u64];
            (rate, option::of(number), option::of(any::<bool>()))
                .prop_map(|(rate, sub_windows, strict)| LimitSpec { sub_windows, strict, ..rate })
                .boxed()
        }
    }
}

/// Limits that support refunds. Leases do not: their holders release them.
#[allow(dead_code, reason = "not every test binary refunds")]
pub fn refundable() -> impl Strategy<Value = LimitSpec> {
    any_algorithm().prop_filter("leases", |spec| spec.algorithm != Some(AlgorithmName::Concurrency))
}

/// A calendar of a zone, and the nominal length of its windows.
pub fn calendar() -> impl Strategy<Value = (CalendarSpec, u64)> {
    let day = (select(CALENDAR_ZONES.to_vec()), Just(None), Just(None), Just(DAY));
    let week = (
        select(CALENDAR_ZONES.to_vec()),
        option::of(select(Weekday::ALL.to_vec())),
        Just(None),
        Just(7 * DAY),
    );
    let days_of_month = prop_oneof![28..=31_u64, 1..=31_u64];
    let month = (select(CALENDAR_ZONES.to_vec()), Just(None), option::of(days_of_month), Just(30 * DAY));
    prop_oneof![day, week, month].prop_map(|(tz, week_starts, day_of_month, per_ns)| {
        (CalendarSpec { tz: tz.to_owned(), week_starts, day_of_month }, per_ns)
    })
}

fn calendar_limit() -> impl Strategy<Value = LimitSpec> {
    let limit = prop_oneof![1 => Just(0), 8 => 1..20_u64, 1 => 0..=UNITS_MAX];
    (limit, calendar()).prop_map(|(limit, (calendar, per_ns))| LimitSpec {
        algorithm: Some(AlgorithmName::FixedWindow),
        align: Some(Align::Calendar(calendar)),
        ..LimitSpec::new(limit, per_ns)
    })
}

pub fn any_algorithm() -> impl Strategy<Value = LimitSpec> {
    select(AlgorithmName::ALL.to_vec()).prop_flat_map(of)
}
