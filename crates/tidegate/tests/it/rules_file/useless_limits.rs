//! A limit that is reported as useless never denies: with it and without it, every request gets the same
//! decision.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Limiter, ManualClock, rules};

/// Algorithms of both limits, small enough that requests reach their edges.
fn limit() -> impl Strategy<Value = String> {
    let algorithm = prop_oneof![
        Just("gcra"),
        Just("token_bucket"),
        Just("fixed_window"),
        Just("sliding_log"),
        Just("sliding_window"),
        Just("sub_windows"),
    ];
    (algorithm, 1..30_u64, 1..40_u64, 1..40_u64).prop_map(|(algorithm, limit, seconds, burst)| {
        let option = match algorithm {
            "gcra" | "token_bucket" => format!(", burst: {burst}"),
            "sub_windows" => format!(", sub_windows: {}", burst % 7 + 1),
            _ => String::new(),
        };
        format!("{{ algorithm: {algorithm}, limit: {limit}, per: {seconds}s{option} }}")
    })
}

fn is_reported_useless(first: &str, second: &str) -> bool {
    let text = format!("domain: d\nrules: [ {{ name: r, limits: [ {first}, {second} ] }} ]\n");
    let loaded = rules::parse("pair.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
    let second_at = text.rfind("{ algorithm").expect("the second limit");
    let diagnostics = loaded.report.diagnostics();
    diagnostics.iter().any(|diagnostic| {
        diagnostic.code == "limit-useless"
            && diagnostic.span.is_some_and(|span| span.start as usize == second_at)
    })
}

fn limiter(limits: &[&str], clock: &ManualClock) -> Limiter<ManualClock> {
    let mut builder = Limiter::builder();
    for limit in limits {
        builder = builder.limit(*limit);
    }
    builder.clock(clock.clone()).build().expect("a limiter")
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: u32::MAX, ..tidegate_testing::proptest_config(100) })]

    #[test]
    fn limits_reported_useless_never_deny(
        first in limit(),
        second in limit(),
        requests in proptest::collection::vec((0..20_000_u64, 1..6_u64), 1..120),
    ) {
        prop_assume!(is_reported_useless(&first, &second));
        let clock = ManualClock::default();
        let (first_only, both) = (limiter(&[&first], &clock), limiter(&[&first, &second], &clock));
        for (millis, cost) in requests {
            // Whole seconds are frequent, because windows start there.
            let wait = if millis % 3 == 0 { millis / 1_000 * 1_000 } else { millis / 8 };
            clock.advance(Duration::from_millis(wait));
            prop_assert_eq!(first_only.check("key", cost).is_allowed(), both.check("key", cost).is_allowed());
        }
    }
}

/// The warning appears for common pairs.
#[test]
fn common_useless_limits_are_reported() {
    for (first, second, expected) in [
        ("{ algorithm: gcra, limit: 10, per: 1s }", "{ algorithm: gcra, limit: 600, per: 1m }", true),
        ("{ algorithm: gcra, limit: 10, per: 1s }", "{ algorithm: gcra, limit: 599, per: 1m }", false),
        (
            "{ algorithm: gcra, limit: 10, per: 1s, burst: 700 }",
            "{ algorithm: gcra, limit: 600, per: 1m }",
            false,
        ),
        (
            "{ algorithm: sliding_log, limit: 10, per: 1s }",
            "{ algorithm: sliding_log, limit: 600, per: 1m }",
            true,
        ),
        (
            "{ algorithm: sliding_log, limit: 10, per: 1s }",
            "{ algorithm: fixed_window, limit: 599, per: 1m }",
            false,
        ),
        (
            "{ algorithm: fixed_window, limit: 10, per: 1s }",
            "{ algorithm: fixed_window, limit: 610, per: 1m }",
            true,
        ),
        (
            "{ algorithm: fixed_window, limit: 10, per: 1s }",
            "{ algorithm: gcra, limit: 600, per: 1m, burst: 20 }",
            true,
        ),
        (
            "{ algorithm: fixed_window, limit: 10, per: 1s }",
            "{ algorithm: gcra, limit: 600, per: 1m, burst: 19 }",
            false,
        ),
        ("{ algorithm: gcra, limit: 10, per: 1s }", "{ algorithm: gcra, limit: 1000, per: 1d }", false),
    ] {
        assert_eq!(is_reported_useless(first, second), expected, "{first} {second}");
    }
}
