//! Rates without options.

use proptest::prelude::*;
use tidegate_core::{Limit, Rate, UNITS_MAX, WINDOW_NS_MAX, WINDOW_NS_MIN};

use crate::limit_text::MINUTE;

#[test]
fn a_rate_is_read_in_every_form_of_a_limit() {
    for text in
        ["100 per minute", "100/m", " 100 PER 60s ", "{limit: 100, per: 1m}", "{limit: 100 per minute}"]
    {
        let rate: Rate = text.parse().unwrap();
        assert_eq!((rate.limit(), rate.window_ns()), (100, MINUTE), "{text}");
        assert_eq!(rate.to_string(), "100 per 1m");
    }
}

#[test]
fn more_than_a_rate_is_refused() {
    for (text, hint) in [
        ("5/s burst 10", "leave the burst out: a rate is only how many per how long, like `5/s`"),
        // The default burst of a limit. A rate has no burst at all.
        ("5/s burst 5", "leave the burst out: a rate is only how many per how long, like `5/s`"),
        (
            "{limit: 5, per: 1s, name: five}",
            "leave the option out: a rate is only how many per how long, like `5/s`",
        ),
        (
            "{algorithm: gcra, limit: 5, per: 1s}",
            "leave the option out: a rate is only how many per how long, like `5/s`",
        ),
    ] {
        let error = text.parse::<Rate>().unwrap_err();
        assert_eq!((error.problem(), error.hint()), (format!("`{text}` is more than a rate").as_str(), hint));
    }
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn a_written_rate_is_read_back(limit in 0..=UNITS_MAX, per_ns in WINDOW_NS_MIN..=WINDOW_NS_MAX) {
        let rate: Rate = format!("{limit} per {per_ns}ns").parse().unwrap();
        prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        prop_assert_eq!(rate.to_string().parse::<Limit>().unwrap().rate(), rate);
    }
}
