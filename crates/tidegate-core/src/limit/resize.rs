//! Changes the L of a limit.

use std::num::NonZeroU32;

use super::Limit;
use crate::algorithm::{
    Concurrency, FixedWindow, Gcra, LeakyBucket, PackedAlgorithm, SlidingLog, SlidingWindow, SubWindows,
    TokenBucket, UsageLogAlgorithm,
};
use crate::{Algorithm, Rate, UNITS_MAX};

impl Limit {
    /// The same limit with another L, at most [`UNITS_MAX`]. Burst and queue change in proportion and are at least one.
    /// The result can read the state of this limit.
    #[must_use]
    pub fn resized(&self, limit: u64) -> Self {
        let rate = self.rate().resized(limit);
        self.with_rate(rate, |units| scaled(units, self.rate(), rate))
    }

    /// The share of one of `nodes` nodes, so that all nodes together admit no more than this limit: L, burst and queue
    /// divided and rounded down. The smallest share is one unit, so with more nodes than units the nodes together admit
    /// more. The share of zero is zero. The result can read the state of this limit.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use tidegate_core::Limit;
    ///
    /// let limit: Limit = "100 per minute burst 10".parse()?;
    /// let share = limit.node_share(NonZeroU32::new(8).unwrap());
    /// assert_eq!(share, "12 per minute burst 1".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn node_share(&self, nodes: NonZeroU32) -> Self {
        let share = |units: u64| if units == 0 { 0 } else { (units / u64::from(nodes.get())).max(1) };
        self.with_rate(self.rate().resized(share(self.rate().limit())), share)
    }

    /// The same limit with another rate, which has the same window. `resize` returns the new burst or queue.
    fn with_rate(&self, rate: Rate, resize: impl Fn(u64) -> u64) -> Self {
        let algorithm = match &self.algorithm {
            Algorithm::Packed(packed) => Algorithm::Packed(match packed {
                PackedAlgorithm::Gcra(algorithm) => {
                    PackedAlgorithm::Gcra(Gcra::new(rate, resize(algorithm.burst())))
                }
                PackedAlgorithm::TokenBucket(TokenBucket(algorithm)) => {
                    PackedAlgorithm::TokenBucket(TokenBucket(Gcra::new(rate, resize(algorithm.burst()))))
                }
                PackedAlgorithm::LeakyBucket(algorithm) => {
                    PackedAlgorithm::LeakyBucket(LeakyBucket::new(rate, resize(algorithm.queue())))
                }
                PackedAlgorithm::FixedWindow(algorithm) => {
                    PackedAlgorithm::FixedWindow(FixedWindow { rate, ..algorithm.clone() })
                }
                PackedAlgorithm::SlidingWindow(_) => PackedAlgorithm::SlidingWindow(SlidingWindow::new(rate)),
            }),
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(algorithm)) => {
                Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(SlidingLog { rate, ..algorithm.clone() }))
            }
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(algorithm)) => {
                Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(SubWindows { rate, ..algorithm.clone() }))
            }
            Algorithm::Leases(Concurrency { .. }) => Algorithm::Leases(Concurrency { rate }),
        };
        Self { name: self.name.clone(), algorithm }
    }
}

/// A burst or a queue, scaled in proportion to L.
fn scaled(units: u64, from: Rate, to: Rate) -> u64 {
    let scaled = u128::from(units) * u128::from(to.limit()) / u128::from(from.limit().max(1));
    u64::try_from(scaled).unwrap_or(UNITS_MAX).clamp(1, UNITS_MAX)
}
