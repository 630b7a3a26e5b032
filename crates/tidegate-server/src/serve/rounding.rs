//! Rounds times for clients up, so that they do not retry too early.

use tidegate::Nanos;

/// Nanoseconds per second.
pub const SECOND_NS: u64 = 1_000_000_000;
/// Nanoseconds per millisecond.
pub const MILLI_NS: u64 = 1_000_000;

/// Whole seconds, rounded up.
pub fn ceil_seconds(span: Nanos) -> u64 {
    span.seconds_rounded_up()
}

/// Whole milliseconds, rounded up.
pub fn ceil_millis(span: Nanos) -> u64 {
    span.millis_rounded_up()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up() {
        let cases = [(0, 0, 0), (1, 1, 1), (1_000_000, 1, 1), (1_000_001, 2, 1), (1_000_000_001, 1_001, 2)];
        for (nanos, as_millis, as_seconds) in cases {
            assert_eq!(
                (ceil_millis(Nanos::new(nanos)), ceil_seconds(Nanos::new(nanos))),
                (as_millis, as_seconds)
            );
        }
        let long = u128::from(u64::MAX) * 1_000_000;
        assert_eq!(ceil_millis(Nanos::new(long)), u64::MAX);
        assert_eq!(ceil_seconds(Nanos::new(u128::MAX)), u64::MAX);
    }
}
