//! Limits: what they are and how they are written.

mod algorithm_name;
mod as_spec;
#[cfg(feature = "calendar")]
mod build_calendar;
mod builder;
mod calendar_text;
mod duration;
mod error;
mod release_rate;
mod parse;
mod rate_text;
mod resize;
mod spec;
mod spec_text;

pub use algorithm_name::AlgorithmName;
pub use builder::LimitBuilder;
pub use duration::{parse as parse_duration, write as write_duration};
pub use error::{LimitError, did_you_mean};
pub use release_rate::ReleaseRate;
pub use parse::number as parse_number;
pub use spec::LimitSpec;

use std::fmt;
use std::str::FromStr;

use crate::algorithm::{
    Calendar, Concurrency, LimitAlgorithm, Edges, FixedWindow, UsageLogAlgorithm, PackedAlgorithm, SlidingLog,
    SlidingWindow, SubWindows, TokenBucket,
};
use crate::{Rate, Timestamp};

/// An algorithm with its parameters, all of them in range: `100 per minute`, `10/s burst 20`.
///
/// Made from text with [`str::parse`], in code with [`Limit::per`] and the like, or from a [`LimitSpec`]; written out again,
/// in the long form, by [`Display`](fmt::Display).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    name: Option<Box<str>>,
    algorithm: Algorithm,
}

/// How a limit counts, by the kind of state it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// In 16 bytes a key.
    Packed(PackedAlgorithm),
    /// In a ledger a key.
    UsageLog(UsageLogAlgorithm),
    /// In leases.
    Leases(Concurrency),
}

impl Algorithm {
    /// Whether a denied attempt is charged too.
    #[inline]
    pub fn counts_denied(&self) -> bool {
        match self {
            Self::Packed(one) => one.counts_denied(),
            Self::UsageLog(one) => one.counts_denied(),
            Self::Leases(one) => one.counts_denied(),
        }
    }
}

impl Limit {
    /// The name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// How it counts.
    #[inline]
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// Its units per window; of a concurrency limit, those in flight per ttl. The days, weeks and months of a
    /// calendar count as 24 hours, 7 days and 30 days.
    pub fn rate(&self) -> Rate {
        match &self.algorithm {
            Algorithm::Packed(
                PackedAlgorithm::Gcra(one) | PackedAlgorithm::TokenBucket(TokenBucket(one)),
            ) => one.rate(),
            Algorithm::Packed(PackedAlgorithm::LeakyBucket(one)) => one.rate(),
            Algorithm::Packed(PackedAlgorithm::FixedWindow(one)) => one.rate,
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(one)) => one.rate,
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(one)) => one.rate,
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(one)) => one.rate,
            Algorithm::Leases(one) => one.rate,
        }
    }

    /// How long the window is that `now` is in, in nanoseconds: W, except that the days, weeks and months of a
    /// calendar are not all of one length.
    pub fn window_ns_at(&self, now: Timestamp) -> u64 {
        match self.calendar().map(|calendar| calendar.window(now)) {
            Some(window) => {
                u64::try_from(window.end_ns - u128::from(window.start.as_nanos())).unwrap_or(u64::MAX)
            }
            None => self.rate().window_ns(),
        }
    }

    /// The exact sliding log at the same [rate](Self::rate): what the other algorithms approximate.
    #[must_use]
    pub fn as_sliding_log(&self) -> Self {
        let log = SlidingLog { rate: self.rate(), count_denied: false, min_interval_ns: 0 };
        Self { name: self.name.clone(), algorithm: Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(log)) }
    }

    /// What its state means, as text: two limits whose shapes are equal can read each other's state.
    pub(crate) fn state_format(&self) -> String {
        let window_ns = self.rate().window_ns();
        match &self.algorithm {
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(one)) => {
                format!("sub_windows {} per {window_ns}ns", one.sub_windows)
            }
            Algorithm::Packed(PackedAlgorithm::FixedWindow(one)) => match &one.edges {
                Edges::Epoch => format!("fixed_window per {window_ns}ns"),
                Edges::FirstHit => format!("fixed_window first_hit per {window_ns}ns"),
                Edges::Calendar(calendar) => format!("fixed_window {}", calendar.state_format()),
            },
            // A lease says itself when it ends, whatever the ttl has become meanwhile.
            Algorithm::Leases(_) => self.algorithm_name().to_string(),
            _ => format!("{} per {window_ns}ns", self.algorithm_name()),
        }
    }

    fn calendar(&self) -> Option<&Calendar> {
        match &self.algorithm {
            Algorithm::Packed(PackedAlgorithm::FixedWindow(FixedWindow {
                edges: Edges::Calendar(calendar),
                ..
            })) => Some(calendar),
            _ => None,
        }
    }

    /// The name of how it counts.
    pub fn algorithm_name(&self) -> AlgorithmName {
        match &self.algorithm {
            Algorithm::Packed(PackedAlgorithm::Gcra(_)) => AlgorithmName::Gcra,
            Algorithm::Packed(PackedAlgorithm::TokenBucket(_)) => AlgorithmName::TokenBucket,
            Algorithm::Packed(PackedAlgorithm::LeakyBucket(_)) => AlgorithmName::LeakyBucket,
            Algorithm::Packed(PackedAlgorithm::FixedWindow(_)) => AlgorithmName::FixedWindow,
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(_)) => AlgorithmName::SlidingWindow,
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(_)) => AlgorithmName::SlidingLog,
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(_)) => AlgorithmName::SubWindows,
            Algorithm::Leases(_) => AlgorithmName::Concurrency,
        }
    }
}

impl FromStr for LimitSpec {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        parse::spec(text)
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        parse::spec(text)?.build()
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate();
        let span = match self.calendar() {
            Some(calendar) => calendar.unit_name().to_owned(),
            None => duration::write(rate.window_ns()),
        };
        let span_name = if let Algorithm::Leases(_) = self.algorithm { "ttl" } else { "per" };
        let name = self.algorithm_name();
        write!(f, "{{algorithm: {name}, limit: {}, {span_name}: {span}", rate.limit())?;
        match &self.algorithm {
            Algorithm::Packed(packed) => match packed {
                PackedAlgorithm::Gcra(one) | PackedAlgorithm::TokenBucket(TokenBucket(one)) => {
                    if one.burst() != rate.limit() {
                        write!(f, ", burst: {}", one.burst())?;
                    }
                }
                PackedAlgorithm::LeakyBucket(one) => {
                    if one.queue() != rate.limit() {
                        write!(f, ", queue: {}", one.queue())?;
                    }
                }
                PackedAlgorithm::FixedWindow(one) => {
                    match &one.edges {
                        Edges::Epoch => {}
                        Edges::FirstHit => f.write_str(", align: first_hit")?,
                        Edges::Calendar(calendar) => write!(f, ", align: {calendar}")?,
                    }
                    if one.count_denied {
                        f.write_str(", count_denied: true")?;
                    }
                }
                PackedAlgorithm::SlidingWindow(SlidingWindow { .. }) => {}
            },
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(one)) => {
                if one.count_denied {
                    f.write_str(", count_denied: true")?;
                }
                if one.min_interval_ns > 0 {
                    write!(f, ", min_interval: {}", duration::write(one.min_interval_ns))?;
                }
            }
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(SubWindows { sub_windows, strict, .. })) => {
                write!(f, ", sub_windows: {sub_windows}, strict: {strict}")?;
            }
            Algorithm::Leases(Concurrency { .. }) => {}
        }
        if let Some(name) = &self.name {
            write!(f, ", name: {name}")?;
        }
        f.write_str("}")
    }
}
