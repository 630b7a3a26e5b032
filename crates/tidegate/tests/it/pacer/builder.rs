//! Pacers that cannot be built, and their errors.

use std::time::Duration;

use tidegate::pacer::COLD_FACTOR_TERM_MAX;
use tidegate::{ColdFactor, Pacer, PacerBuilder};

const SECOND: Duration = Duration::from_secs(1);

fn error(builder: PacerBuilder) -> String {
    builder.build().expect_err("this is no pacer").to_string()
}

#[test]
fn every_error_says_what_to_do() {
    let rate = || Pacer::builder().rate("5/s");
    let factor =
        |numerator, denominator| rate().warm_up(SECOND).cold_factor(ColdFactor { numerator, denominator });
    let too_long = Duration::from_secs(10 * 365 * 86_400) + Duration::from_nanos(1);
    for (builder, problem) in [
        (Pacer::builder(), "there is no rate (hint: add one"),
        (Pacer::builder().rate("0/s"), "would never hand out a permit (hint:"),
        (
            Pacer::builder().rate("5/s burst 10"),
            "`5/s burst 10` is more than a rate (hint: leave the burst out",
        ),
        (Pacer::builder().rate("5/s burst 5"), "leave the burst out"),
        (Pacer::builder().rate("{algorithm: gcra, limit: 5, per: 1s}"), "leave the option out"),
        (Pacer::builder().rate("5 per fortnight"), "in rate `5 per fortnight`: unknown unit of time"),
        (Pacer::builder().rate("5"), "(hint: per how long? Write for example `5 per minute`"),
        (rate().max_burst(too_long), "a burst of more than 10 years is too long (hint:"),
        (rate().max_burst_seconds(u64::MAX), "a burst of more than 10 years is too long"),
        (rate().warm_up(Duration::ZERO), "a warm-up takes 1 ns to 10 years (hint:"),
        (rate().warm_up(too_long), "a warm-up takes 1 ns to 10 years"),
        (rate().warm_up(Duration::MAX), "a warm-up takes 1 ns to 10 years"),
        (rate().warm_up(SECOND).max_burst_seconds(1), "leave out either the warm-up or the burst"),
        (rate().cold_factor(3), "without a warm-up (hint: add `.warm_up(...)`)"),
        (rate().warm_up(SECOND).cold_factor(0), "a cold factor of 0/1 is out of range (hint:"),
        (factor(3, 0), "a cold factor of 3/0 is out of range"),
        (factor(2, 3), "it is at least 1"),
        (factor(COLD_FACTOR_TERM_MAX + 1, 1), "1 to 1000"),
        (factor(COLD_FACTOR_TERM_MAX + 1, COLD_FACTOR_TERM_MAX + 1), "1 to 1000"),
    ] {
        let error = error(builder);
        assert!(error.contains(problem), "`{error}` does not say `{problem}`");
    }
}

#[test]
fn a_rate_is_text_or_a_rate() {
    let rate: tidegate::Rate = "100 per minute".parse().unwrap();
    let text = "{limit: 100, per: 60s}".to_owned();
    for pacer in [Pacer::new("100/m"), Pacer::new(&text), Pacer::new(text), Pacer::new(rate)] {
        assert_eq!(pacer.unwrap().rate(), rate);
    }
}

#[test]
fn the_error_source_is_the_rate_error() {
    let error = Pacer::new("5 per fortnight").unwrap_err();
    assert!(std::error::Error::source(&error).is_some());
    assert!(std::error::Error::source(&Pacer::new("0/s").unwrap_err()).is_none());
}
