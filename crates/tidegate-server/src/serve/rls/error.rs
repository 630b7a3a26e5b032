//! Errors in a request.

use std::fmt;

use tidegate::EngineError;

use crate::json::request_bounds;

/// What is wrong with a request, with a hint: `INVALID_ARGUMENT` in gRPC, status 400 in HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RlsError {
    /// The domain is empty.
    EmptyDomain,
    /// There are no descriptors.
    NoDescriptors,
    /// There are more than [`descriptors_max`](crate::json::RequestBounds::descriptors_max) descriptors.
    TooManyDescriptors,
    /// A descriptor has more than [`entries_max`](crate::json::RequestBounds::entries_max) entries.
    TooManyEntries,
    /// The limit of a descriptor has no unit or an unknown one.
    UnknownUnit(u64),
    /// A descriptor has negative hits, and `--negative-hits` does not allow refunds.
    NegativeHits,
    /// A string is not UTF-8.
    NotUtf8(&'static str),
    /// The message is not protobuf.
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Offset in bytes, from 0.
        at: usize,
    },
}

impl fmt::Display for RlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The first two start with the texts of envoyproxy/ratelimit, which clients may look for.
            Self::EmptyDomain => f.write_str(
                "rate limit domain must not be empty (hint: set `domain` of Envoy's rate limit filter)",
            ),
            Self::NoDescriptors => f.write_str(
                "rate limit descriptor list must not be empty (hint: set `rate_limits` of a route)",
            ),
            Self::TooManyDescriptors => {
                let max = request_bounds().descriptors_max;
                write!(f, "there are more than {max} descriptors (hint: --descriptors-max is the maximum)")
            }
            Self::TooManyEntries => {
                let max = request_bounds().entries_max;
                write!(f, "a descriptor has more than {max} entries (hint: --entries-max is the maximum)")
            }
            Self::UnknownUnit(unit) => write!(
                f,
                "`limit` of a descriptor has the unknown unit {unit} (hint: SECOND is 1, MINUTE 2, HOUR 3, \
                 DAY 4, MONTH 5, YEAR 6, WEEK 7)"
            ),
            Self::NegativeHits => f.write_str(
                "negative hits are refused: any client could refund what it used, so nothing was charged or refunded (hint: \
                 set --negative-hits refund if all clients are trusted, or use /v1/refund of the admin listener)",
            ),
            Self::NotUtf8(what) => write!(f, "{what} is not UTF-8 (hint: encode binary data as text)"),
            Self::Malformed { what, at } => write!(
                f,
                "this is not a RateLimitRequest: {what} at byte {at} (hint: is the client's schema \
                 envoy.service.ratelimit.v3?)"
            ),
        }
    }
}

impl std::error::Error for RlsError {}

/// Why a request was not decided.
#[derive(Debug)]
pub enum DecideError {
    /// The request is not allowed.
    Request(RlsError),
    /// The engine did not decide it. The error was counted.
    Engine(EngineError),
}

impl From<EngineError> for DecideError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}
