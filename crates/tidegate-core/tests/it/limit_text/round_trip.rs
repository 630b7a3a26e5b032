//! Written limits are read back, and everything else is refused. Nothing panics.

use proptest::option;
use proptest::prelude::*;
use tidegate_core::{AlgorithmName, Limit, LimitSpec};

use crate::limit_text::{MINUTE, limits};

/// A name that begins or ends with a space is refused, or the space survives.
#[test]
fn a_name_with_a_space_at_an_end_is_refused_or_kept() {
    for name in [" front", "back ", " "] {
        let spec = LimitSpec { name: Some(name.to_owned()), ..LimitSpec::new(5, MINUTE) };
        let Ok(limit) = spec.build() else { continue };
        assert_eq!(limit.to_string().parse(), Ok(limit.clone()), "{limit}");
    }
}

/// Only values that differ from the default are written, but a calendar is always written as one.
#[test]
fn calendars_are_written_with_their_zone() {
    for (read, written) in [
        ("per: 1d, align: {}", "per: day, align: {tz: UTC}"),
        ("per: 1d, align: {tz: europe/paris}", "per: day, align: {tz: Europe/Paris}"),
        ("per: 7d, align: {week_starts: monday}", "per: week, align: {tz: UTC}"),
        ("per: 7d, align: {week_starts: sunday}", "per: week, align: {tz: UTC, week_starts: sunday}"),
        ("per: 30d, align: {day_of_month: 1}", "per: month, align: {tz: UTC}"),
        ("per: 30d, align: {day_of_month: 31}", "per: month, align: {tz: UTC, day_of_month: 31}"),
        ("per: 7d, align: epoch", "per: 7d"),
    ] {
        let limit: Limit = format!("{{algorithm: fixed_window, limit: 5, {read}}}").parse().expect("a limit");
        assert_eq!(limit.to_string(), format!("{{algorithm: fixed_window, limit: 5, {written}}}"));
        assert_eq!(limit.to_string().parse(), Ok(limit));
    }
}

/// Text made of words of limits. It reaches further into the parser than random text.
fn almost_a_limit() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "{",
        "}",
        ":",
        ",",
        " ",
        "/",
        "per",
        "burst",
        "limit",
        "algorithm",
        "name",
        "per: 1s",
        "limit: 5",
        "5",
        "0",
        "-",
        "_",
        ".",
        "\"",
        "'",
        "s",
        "ms",
        "minute",
        "gcra",
        "sliding_log",
        "sub_windows",
        "strict",
        "fixed_window",
        "algorithm: fixed_window",
        "per: week",
        "align: {",
        "tz: UTC",
        "week_starts: sunday",
        "true",
        "18446744073709551616",
        "1099511627776",
        "µ",
        "İ",
        "\u{0}",
        "\t",
    ]);
    prop::collection::vec(word, 0..16).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(500))]

    #[test]
    fn a_written_limit_is_read_back(
        spec in limits::any_algorithm(),
        name in option::of("[a-zA-Z0-9é日_.-]([a-zA-Z0-9é日 _.-]{0,20}[a-zA-Z0-9é日_.-])?"),
    ) {
        let limit = LimitSpec { name, ..spec }.build().expect("a valid spec");
        prop_assert_eq!(limit.to_string().parse(), Ok(limit.clone()), "{}", limit);
        prop_assert_eq!(limit.spec().build(), Ok(limit.clone()), "{}", limit);
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = text.parse::<Limit>();
    }

    #[test]
    fn almost_a_limit_is_read_or_refused(text in almost_a_limit()) {
        if let Ok(limit) = text.parse::<Limit>() {
            prop_assert_eq!(limit.rate(), limit.as_sliding_log().rate());
        }
    }

    /// A spec with any numbers becomes a limit or an error.
    #[test]
    fn any_numbers_are_built_or_refused(
        limit in any::<u64>(),
        per_ns in any::<u64>(),
        options in any::<[Option<u64>; 5]>(),
        algorithm in prop::sample::select(AlgorithmName::ALL.to_vec()),
    ) {
        let [burst, queue, sub_windows, min_interval_ns, ttl_ns] = options;
        let spec = LimitSpec::new(limit, per_ns);
        let spec = LimitSpec { algorithm: Some(algorithm), burst, queue, ttl_ns, ..spec };
        let _ = LimitSpec { sub_windows, min_interval_ns, ..spec }.build();
    }
}
