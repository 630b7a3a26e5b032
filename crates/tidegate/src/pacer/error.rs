//! Why a pacer could not be built.

use std::fmt;

use tidegate_core::LimitError;

use super::shape::{COLD_FACTOR_TERM_MAX, ColdFactor};

/// Why a pacer could not be built, or its rate not changed. Includes a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacerError(pub(super) PacerErrorKind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PacerErrorKind {
    NoRate,
    ZeroRate,
    Rate { text: String, error: LimitError },
    BurstTooLong,
    WarmUpOutOfRange,
    ColdFactorOutOfRange(ColdFactor),
    BurstAndWarmUp,
    ColdFactorAlone,
}

impl fmt::Display for PacerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PacerErrorKind::NoRate => f.write_str("there is no rate (hint: add one, for example `.rate(\"5/s\")`)"),
            PacerErrorKind::ZeroRate => f.write_str(
                "a rate of 0 would never hand out a permit (hint: the slowest is 1 per 10 years)",
            ),
            PacerErrorKind::Rate { text, error } => write!(f, "in rate `{text}`: {error}"),
            PacerErrorKind::BurstTooLong => {
                f.write_str("a burst of more than 10 years is too long (hint: Guava's is 1 second)")
            }
            PacerErrorKind::WarmUpOutOfRange => f.write_str(
                "a warm-up takes 1 ns to 10 years (hint: for a pacer that is never cold, leave the warm-up out; \
                 `.max_burst_seconds(0)` stores no permits either)",
            ),
            PacerErrorKind::ColdFactorOutOfRange(ColdFactor { numerator, denominator }) => write!(
                f,
                "a cold factor of {numerator}/{denominator} is out of range (hint: it is at least 1, and numerator \
                 and denominator are 1 to {COLD_FACTOR_TERM_MAX})"
            ),
            PacerErrorKind::BurstAndWarmUp => f.write_str(
                "a pacer that warms up has no burst: its stored permits come more slowly (hint: leave out either \
                 the warm-up or the burst)",
            ),
            PacerErrorKind::ColdFactorAlone => {
                f.write_str("a cold factor has no effect without a warm-up (hint: add `.warm_up(...)`)")
            }
        }
    }
}

impl std::error::Error for PacerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            PacerErrorKind::Rate { error, .. } => Some(error),
            _ => None,
        }
    }
}
