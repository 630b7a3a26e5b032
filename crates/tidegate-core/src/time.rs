//! Instants and spans, in whole nanoseconds.
//!
//! An instant is a `u64`, which lasts until the year 2554. A span is a `u128`: the last unit of "1 per year, burst
//! 1000" comes back after a thousand years. That does not fit `u64` nanoseconds, and a saturated value would not be
//! exact.

use std::fmt;
use std::time::Duration;

/// An instant: nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant this many nanoseconds after the Unix epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the Unix epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant minus `span`. Saturates at the epoch.
    pub fn saturating_sub(self, span: Nanos) -> Self {
        Self(u64::try_from(u128::from(self.0).saturating_sub(span.0)).unwrap_or(0))
    }

    /// This instant plus `span`. Saturates at the end of representable time.
    pub fn saturating_add(self, span: Nanos) -> Self {
        Self(u64::try_from(u128::from(self.0).saturating_add(span.0)).unwrap_or(u64::MAX))
    }
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u128);

impl Nanos {
    /// An empty span.
    pub const ZERO: Self = Self(0);

    /// A span of this many nanoseconds.
    #[inline]
    pub const fn new(nanos: u128) -> Self {
        Self(nanos)
    }

    /// The number of nanoseconds.
    #[inline]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Whole seconds, rounded up, so that a client that waits for that long does not come back too early.
    ///
    /// ```
    /// use tidegate_core::Nanos;
    ///
    /// assert_eq!(Nanos::new(1_000_000_000).seconds_rounded_up(), 1);
    /// assert_eq!(Nanos::new(1_000_000_001).seconds_rounded_up(), 2);
    /// ```
    pub fn seconds_rounded_up(self) -> u64 {
        self.rounded_up(1_000_000_000)
    }

    /// Whole milliseconds, rounded up.
    pub fn millis_rounded_up(self) -> u64 {
        self.rounded_up(1_000_000)
    }

    fn rounded_up(self, unit_ns: u64) -> u64 {
        match u64::try_from(self.0) {
            Ok(nanos) => nanos.div_ceil(unit_ns),
            // More than 584 years.
            Err(_) => u64::try_from(self.0.div_ceil(u128::from(unit_ns))).unwrap_or(u64::MAX),
        }
    }

    /// The span from `now` to the absolute instant `target_ns`, which may lie after the end of [`Timestamp`]. Zero if
    /// `target_ns` is in the past.
    #[inline]
    pub(crate) fn between(now: Timestamp, target_ns: u128) -> Self {
        Self(target_ns.saturating_sub(u128::from(now.0)))
    }

    /// The span as a standard [`Duration`]; [`Duration::MAX`] if it does not fit.
    pub fn as_duration(self) -> Duration {
        const NANOS_PER_SECOND: u128 = 1_000_000_000;
        match u64::try_from(self.0 / NANOS_PER_SECOND) {
            #[allow(clippy::cast_possible_truncation, reason = "a remainder below one billion")]
            Ok(seconds) => Duration::new(seconds, (self.0 % NANOS_PER_SECOND) as u32),
            Err(_) => Duration::MAX,
        }
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        span.as_duration()
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(span.as_nanos())
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_duration())
    }
}

/// How long to wait: a span, or never. "Never" orders after every span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait(u128);

impl Wait {
    /// There is nothing to wait for.
    pub const NONE: Self = Self(0);
    /// No wait is long enough.
    pub const NEVER: Self = Self(u128::MAX);

    /// Wait for `span`.
    #[inline]
    pub const fn of(span: Nanos) -> Self {
        Self(span.0)
    }

    /// The span, or `None` if it is never.
    #[inline]
    pub const fn span(self) -> Option<Nanos> {
        if self.0 == Self::NEVER.0 { None } else { Some(Nanos(self.0)) }
    }

    /// The wait as a standard [`Duration`], or `None` if it is never.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::{Nanos, Wait};
    ///
    /// assert_eq!(Wait::of(Nanos::new(1_500_000_000)).as_duration(), Some(Duration::from_millis(1_500)));
    /// assert_eq!(Wait::NEVER.as_duration(), None);
    /// ```
    pub fn as_duration(self) -> Option<Duration> {
        self.span().map(Nanos::as_duration)
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span() {
            Some(span) => write!(f, "Wait({})", span.get()),
            None => f.write_str("Wait(never)"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span() {
            Some(span) => span.fmt(f),
            None => f.write_str("never"),
        }
    }
}
