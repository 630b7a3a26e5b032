//! What is wrong with a request.

use std::fmt;

use crate::json::{DESCRIPTORS_MAX, ENTRIES_MAX};

/// What is wrong with a request, and what to do: `INVALID_ARGUMENT`, or status 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RlsError {
    /// There is no domain.
    EmptyDomain,
    /// There is no descriptor.
    NoDescriptors,
    /// There are more than [`DESCRIPTORS_MAX`].
    TooManyDescriptors,
    /// One has more than [`ENTRIES_MAX`].
    TooManyEntries,
    /// A limit of a descriptor's own has no unit, or one that nobody knows.
    UnknownUnit(u64),
    /// A string is not UTF-8.
    NotUtf8(&'static str),
    /// It is not protobuf.
    Malformed {
        /// What was expected.
        what: &'static str,
        /// Where, in bytes from 0.
        at: usize,
    },
}

impl fmt::Display for RlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The first two are word for word what envoyproxy/ratelimit says: somebody may look for them.
            Self::EmptyDomain => f.write_str(
                "rate limit domain must not be empty (hint: `domain` of Envoy's filter names the rules)",
            ),
            Self::NoDescriptors => f.write_str(
                "rate limit descriptor list must not be empty (hint: `rate_limits` of a route make them)",
            ),
            Self::TooManyDescriptors => {
                write!(f, "there are more than {DESCRIPTORS_MAX} descriptors (hint: that is the most)")
            }
            Self::TooManyEntries => {
                write!(f, "a descriptor has more than {ENTRIES_MAX} entries (hint: that is the most)")
            }
            Self::UnknownUnit(unit) => write!(
                f,
                "`limit` of a descriptor has the unit {unit}, which is none (hint: SECOND is 1, MINUTE 2, HOUR 3, \
                 DAY 4, MONTH 5, YEAR 6, WEEK 7)"
            ),
            Self::NotUtf8(what) => write!(f, "{what} is not UTF-8 (hint: encode what is not text)"),
            Self::Malformed { what, at } => write!(
                f,
                "this is not a RateLimitRequest: {what} at byte {at} (hint: is the client's schema \
                 envoy.service.ratelimit.v3?)"
            ),
        }
    }
}

impl std::error::Error for RlsError {}
