//! Limits built in code equal those read from text.

use std::time::Duration;

use proptest::option;
use proptest::prelude::*;
use tidegate_core::algorithm::{Align, CountDenied, Weekday};
use tidegate_core::{Limit, LimitBuilder, LimitSpec};

use super::{limits, read};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn every_builder_method_equals_its_text() {
    for (built, text) in [
        (Limit::per(100, MINUTE), "100 per minute"),
        (Limit::per(100, MINUTE).gcra().burst(20), "100/m burst 20"),
        (Limit::per_second(10), "10/s"),
        (Limit::per_minute(10), "10 per minute"),
        (Limit::per_hour(10), "10 per hour"),
        (Limit::per_day(10), "10 per day"),
        (Limit::per_week(10), "10 per week"),
        (Limit::per_month(10), "10 per month"),
        (Limit::per_second(5).token_bucket().burst(9), "{algorithm: token_bucket, limit: 5/s burst 9}"),
        (Limit::per_second(5).leaky_bucket(7), "{algorithm: leaky_bucket, limit: 5/s, queue: 7}"),
        (Limit::per_second(5).fixed_window(), "{algorithm: fixed_window, limit: 5/s}"),
        (
            Limit::per_second(5).fixed_window().count_denied(),
            "{algorithm: fixed_window, limit: 5/s, count_denied: true}",
        ),
        (Limit::per_second(5).from_first_hit(), "{algorithm: fixed_window, limit: 5/s, align: first_hit}"),
        (Limit::per_second(5).sliding_window(), "{algorithm: sliding_window, limit: 5/s}"),
        (Limit::per_minute(5).sliding_log(), "{algorithm: sliding_log, limit: 5 per minute}"),
        (
            Limit::per_minute(5).min_interval(Duration::from_millis(250)).count_denied(),
            "{algorithm: sliding_log, limit: 5 per minute, min_interval: 250ms, count_denied: true}",
        ),
        (
            Limit::per_minute(5).sub_windows(6),
            "{algorithm: sub_windows, limit: 5 per minute, sub_windows: 6}",
        ),
        (
            Limit::per_minute(5).sub_windows(6).strict(false),
            "{algorithm: sub_windows, limit: 5 per minute, sub_windows: 6, strict: false}",
        ),
        (
            Limit::per_day(5).tz("Europe/Berlin"),
            "{algorithm: fixed_window, limit: 5 per day, align: {tz: Europe/Berlin}}",
        ),
        (
            Limit::per_week(5).week_starts(Weekday::Sunday).tz("Europe/Berlin"),
            "{algorithm: fixed_window, limit: 5 per week, align: {tz: Europe/Berlin, week_starts: sunday}}",
        ),
        (
            Limit::per_month(5).day_of_month(15),
            "{algorithm: fixed_window, limit: 5 per month, align: {day_of_month: 15}}",
        ),
        (Limit::concurrency(3, MINUTE), "{algorithm: concurrency, limit: 3, ttl: 1m}"),
        (Limit::per_second(5).name("burst"), "{limit: 5/s, name: burst}"),
    ] {
        assert_eq!(built.clone().build(), Ok(read(text)), "{text}");
        assert_eq!(Limit::try_from(built), Ok(read(text)), "{text}");
    }
}

#[test]
fn invalid_options_are_refused_as_in_text() {
    for (built, field) in [
        (Limit::per(5, Duration::ZERO), "per"),
        (Limit::per(5, Duration::MAX), "per"),
        (Limit::per(u64::MAX, MINUTE), "limit"),
        (Limit::per_second(5).burst(0), "burst"),
        (Limit::per_second(5).sliding_log().burst(1), "burst"),
        // A chosen algorithm stays, whether it is chosen before or after the option.
        (Limit::per_day(5).sliding_log().tz("Europe/Berlin"), "align"),
        (Limit::per_day(5).tz("Europe/Berlin").sliding_log(), "align"),
        (Limit::per_day(5).tz("Europe/Bärlin"), "align"),
        (Limit::per_hour(5).tz("Europe/Berlin"), "per"),
        (Limit::per_second(5).count_denied(), "count_denied"),
        (Limit::concurrency(5, Duration::MAX), "ttl"),
        (Limit::per_second(5).name(""), "name"),
    ] {
        let error = built.clone().build().expect_err(field);
        assert_eq!(error.field(), Some(field), "{built}: {error}");
    }
}

/// Builds the same limit with the methods of the builder.
fn build(spec: &LimitSpec, algorithm_last: bool) -> LimitBuilder {
    let mut builder = match spec.ttl_ns {
        Some(ttl_ns) => Limit::concurrency(spec.limit, Duration::from_nanos(ttl_ns)),
        None => Limit::per(spec.limit, Duration::from_nanos(spec.per_ns)),
    };
    let algorithm = spec.algorithm.expect("a spec with an algorithm");
    if !algorithm_last {
        builder = builder.algorithm(algorithm);
    }
    if let Some(burst) = spec.burst {
        builder = builder.burst(burst);
    }
    if let Some(queue) = spec.queue {
        builder = builder.leaky_bucket(queue);
    }
    if let Some(sub_windows) = spec.sub_windows {
        builder = builder.sub_windows(sub_windows);
    }
    if let Some(strict) = spec.strict {
        builder = builder.strict(strict);
    }
    builder = match spec.count_denied {
        Some(CountDenied::Always) => builder.count_denied(),
        Some(CountDenied::IfOver) => builder.count_denied_if_over(),
        Some(CountDenied::Never) | None => builder,
    };
    if let Some(interval_ns) = spec.min_interval_ns {
        builder = builder.min_interval(Duration::from_nanos(interval_ns));
    }
    match &spec.align {
        Some(Align::Calendar(calendar)) => {
            builder = builder.tz(calendar.tz.clone());
            if let Some(weekday) = calendar.week_starts {
                builder = builder.week_starts(weekday);
            }
            if let Some(day) = calendar.day_of_month {
                builder = builder.day_of_month(day);
            }
        }
        Some(Align::FirstHit) => builder = builder.from_first_hit(),
        Some(align @ Align::Epoch) => builder = builder.align(align.clone()),
        None => {}
    }
    if let Some(name) = &spec.name {
        builder = builder.name(name);
    }
    if algorithm_last { builder.algorithm(algorithm) } else { builder }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_built_limit_equals_its_text(
        spec in limits::any_algorithm(),
        name in option::of("[a-z0-9é_.-]([a-z0-9é _.-]{0,20}[a-z0-9é_.-])?"),
        algorithm_last in any::<bool>(),
    ) {
        let spec = LimitSpec { name, ..spec };
        let builder = build(&spec, algorithm_last);
        let limit = spec.clone().build().expect("a valid spec");
        prop_assert_eq!(builder.clone().build(), Ok(limit.clone()));
        prop_assert_eq!(builder.to_string().parse(), Ok(builder.spec().clone()), "{}", builder);
        prop_assert_eq!(builder.to_string().parse(), Ok(limit), "{}", builder);
        prop_assert_eq!(spec.to_string().parse(), Ok(spec.clone()), "{}", spec);
    }
}
