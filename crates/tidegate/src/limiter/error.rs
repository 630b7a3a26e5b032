//! Why a limiter could not be built.

use std::fmt;

use tidegate_core::{LimitError, RuleMode, UnsupportedMode};

use super::LIMITS_MAX;

/// Why a limiter could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimiterError(pub(super) LimiterErrorKind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LimiterErrorKind {
    NoLimits,
    TooManyLimits(usize),
    TooManyChanges,
    DuplicateName(String),
    Mode { limit: String, mode: RuleMode, reason: UnsupportedMode },
    Limit { text: String, error: LimitError },
}

impl fmt::Display for LimiterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            LimiterErrorKind::NoLimits => {
                f.write_str("there is no limit (hint: add one, for example `100 per minute`)")
            }
            LimiterErrorKind::TooManyLimits(count) => {
                write!(f, "{count} limits are too many (hint: {LIMITS_MAX} are the most for one limiter)")
            }
            LimiterErrorKind::TooManyChanges => write!(
                f,
                "more than {LIMITS_MAX} superseded limits are still enforced (hint: change limits less often than once a window)"
            ),
            LimiterErrorKind::DuplicateName(name) => {
                write!(f, "two limits are named `{name}` (hint: names tell limits apart; choose another)")
            }
            LimiterErrorKind::Mode { limit, mode, reason } => write!(
                f,
                "in limit `{limit}`: the mode {} is not possible with {reason} (hint: use gcra, token_bucket, fixed_window or \
                 sliding_window without count_denied, or the mode strict)",
                mode.as_str()
            ),
            LimiterErrorKind::Limit { text, error } => write!(f, "in limit `{text}`: {error}"),
        }
    }
}

impl std::error::Error for LimiterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            LimiterErrorKind::Limit { error, .. } => Some(error),
            _ => None,
        }
    }
}
