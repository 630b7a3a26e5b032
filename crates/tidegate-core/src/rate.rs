//! A rate: units per window.

use crate::limit::LimitError;

/// The largest limit, burst or queue, in units.
///
/// With this bound, units times window (the largest product in a decision) stays far below 128 bits, and a counter fits
/// 40 bits of a 16-byte state.
pub const UNITS_MAX: u64 = (1 << 40) - 1;
/// The shortest window: one millisecond.
pub const WINDOW_NS_MIN: u64 = 1_000_000;
/// The longest window: ten years of 365 days.
pub const WINDOW_NS_MAX: u64 = 10 * 365 * 86_400 * 1_000_000_000;

/// `limit` units per `window_ns` nanoseconds. A limit of zero admits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    limit: u64,
    window_ns: u64,
}

impl Rate {
    pub(crate) fn new(limit: u64, window_ns: u64) -> Result<Self, LimitError> {
        if limit > UNITS_MAX {
            return Err(LimitError::new(
                format!("limit {limit} is too large"),
                format!("the largest is {UNITS_MAX}; count in larger units"),
            )
            .with_field("limit"));
        }
        if !(WINDOW_NS_MIN..=WINDOW_NS_MAX).contains(&window_ns) {
            return Err(LimitError::new(
                format!("a window of {window_ns}ns is out of range"),
                "windows go from 1ms to 10 years (3650d)",
            )
            .with_field("per"));
        }
        Ok(Self { limit, window_ns })
    }

    /// The same window with another limit, at most [`UNITS_MAX`].
    pub(crate) fn resized(self, limit: u64) -> Self {
        Self { limit: limit.min(UNITS_MAX), ..self }
    }

    /// Units per window.
    #[inline]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window in nanoseconds. Calendar windows vary in length; for them this is a nominal length: 24 hours for a
    /// day, 7 days for a week, 30 days for a month. No decision depends on the nominal length.
    /// [`Limit::window_ns_at`](crate::Limit::window_ns_at) returns the true one.
    #[inline]
    pub const fn window_ns(&self) -> u64 {
        self.window_ns
    }
}
