//! A limit: an algorithm with checked parameters.

#[cfg(doc)]
use std::fmt;

use super::AlgorithmName;
#[cfg(doc)]
use super::LimitSpec;
use crate::algorithm::{
    Calendar, CountDenied, Edges, FixedWindow, PackedAlgorithm, SlidingLog, TokenBucket, UsageLogAlgorithm,
    WorstCase,
};
use crate::{Algorithm, Rate, Timestamp};

/// An algorithm with its parameters, all of them in range: `100 per minute`, `10/s burst 20`.
///
/// Parse a limit from text with [`str::parse`], build it with [`Limit::per`] or a similar function, or build it from a
/// [`LimitSpec`]. [`Display`](fmt::Display) writes the long form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub(super) name: Option<Box<str>>,
    pub(super) algorithm: Algorithm,
}

impl Limit {
    /// The name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The algorithm.
    #[inline]
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The units per window. For a concurrency limit, the units in flight per ttl. Days, weeks and months of a calendar
    /// count as 24 hours, 7 days and 30 days.
    pub fn rate(&self) -> Rate {
        match &self.algorithm {
            Algorithm::Packed(
                PackedAlgorithm::Gcra(algorithm) | PackedAlgorithm::TokenBucket(TokenBucket(algorithm)),
            ) => algorithm.rate(),
            Algorithm::Packed(PackedAlgorithm::LeakyBucket(algorithm)) => algorithm.rate(),
            Algorithm::Packed(PackedAlgorithm::FixedWindow(algorithm)) => algorithm.rate,
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(algorithm)) => algorithm.rate,
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(algorithm)) => algorithm.rate,
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(algorithm)) => algorithm.rate,
            Algorithm::Leases(algorithm) => algorithm.rate,
        }
    }

    /// The length of the window that contains `now`, in nanoseconds. This is W, except for a calendar, whose windows
    /// vary in length.
    pub fn window_ns_at(&self, now: Timestamp) -> u64 {
        match self.calendar().map(|calendar| calendar.window(now)) {
            Some(window) => {
                u64::try_from(window.end_ns - u128::from(window.start.as_nanos())).unwrap_or(u64::MAX)
            }
            None => self.rate().window_ns(),
        }
    }

    /// The most that it admits for one key, whatever requests come.
    ///
    /// ```
    /// use tidegate_core::Limit;
    ///
    /// let limit: Limit = "100 per minute".parse()?;
    /// assert_eq!(limit.worst_case().units, 199);
    /// assert_eq!(limit.worst_case().to_string(), "199 in any 1m: 100 at once and 99 more within 59.4s");
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn worst_case(&self) -> WorstCase {
        self.algorithm.worst_case()
    }

    /// The exact sliding log at the same [rate](Self::rate), which the other algorithms approximate.
    #[must_use]
    pub fn as_sliding_log(&self) -> Self {
        let log = SlidingLog { rate: self.rate(), count_denied: CountDenied::Never, min_interval_ns: 0 };
        Self { name: self.name.clone(), algorithm: Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(log)) }
    }

    /// The same limit, if it is a fixed window, with this option. Other limits stay as they are.
    #[must_use]
    pub fn counting_denied(mut self, count_denied: CountDenied) -> Self {
        if let Algorithm::Packed(PackedAlgorithm::FixedWindow(window)) = &mut self.algorithm {
            window.count_denied = count_denied;
        }
        self
    }

    /// The format of the state, as text: two limits with equal formats can read each other's state. The text is hashed
    /// into the identity of counters, so it must not change.
    pub(crate) fn state_format(&self) -> String {
        let window_ns = self.rate().window_ns();
        match &self.algorithm {
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(algorithm)) => {
                format!("sub_windows {} per {window_ns}ns", algorithm.sub_windows)
            }
            Algorithm::Packed(PackedAlgorithm::FixedWindow(algorithm)) => match &algorithm.edges {
                Edges::Epoch => format!("fixed_window per {window_ns}ns"),
                Edges::FirstHit => format!("fixed_window first_hit per {window_ns}ns"),
                Edges::Calendar(calendar) => format!("fixed_window {}", calendar.state_format()),
            },
            // Each lease says when it ends, even if the ttl has changed since.
            Algorithm::Leases(_) => self.algorithm_name().to_string(),
            _ => format!("{} per {window_ns}ns", self.algorithm_name()),
        }
    }

    pub(super) fn calendar(&self) -> Option<&Calendar> {
        match &self.algorithm {
            Algorithm::Packed(PackedAlgorithm::FixedWindow(FixedWindow {
                edges: Edges::Calendar(calendar),
                ..
            })) => Some(calendar),
            _ => None,
        }
    }

    /// The name of the algorithm.
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
