//! A limit with another L.

use std::num::NonZeroU32;

use super::{Algorithm, Limit};
use crate::algorithm::{
    Concurrency, FixedWindow, Gcra, LeakyBucket, UsageLogAlgorithm, PackedAlgorithm, SlidingLog, SlidingWindow,
    SubWindows, TokenBucket,
};
use crate::{Rate, UNITS_MAX};

impl Limit {
    /// The same with another L, at most [`UNITS_MAX`]. Burst and queue change with it in proportion, and are one at
    /// least. It reads the state of this one.
    #[must_use]
    pub fn resized(&self, limit: u64) -> Self {
        let rate = self.rate().resized(limit);
        self.with_rate(rate, |units| scaled(units, self.rate(), rate))
    }

    /// What one of so many processes may admit so that all of them together admit no more than this: L, burst and queue
    /// divided, rounded down. One unit is the least, so with more processes than units they admit more; of nothing, the
    /// share is nothing. It reads the state of this one.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use tidegate_core::Limit;
    ///
    /// let limit: Limit = "100 per minute burst 10".parse()?;
    /// let share = limit.share_of(NonZeroU32::new(8).unwrap());
    /// assert_eq!(share, "12 per minute burst 1".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn node_share(&self, nodes: NonZeroU32) -> Self {
        let share = |units: u64| if units == 0 { 0 } else { (units / u64::from(nodes.get())).max(1) };
        self.with_rate(self.rate().resized(share(self.rate().limit())), share)
    }

    /// The same with this rate of the same window, and with what becomes of burst and queue.
    fn with_rate(&self, rate: Rate, changed: impl Fn(u64) -> u64) -> Self {
        let algorithm = match &self.algorithm {
            Algorithm::Packed(packed) => Algorithm::Packed(match packed {
                PackedAlgorithm::Gcra(one) => PackedAlgorithm::Gcra(Gcra::new(rate, changed(one.burst()))),
                PackedAlgorithm::TokenBucket(TokenBucket(one)) => {
                    PackedAlgorithm::TokenBucket(TokenBucket(Gcra::new(rate, changed(one.burst()))))
                }
                PackedAlgorithm::LeakyBucket(one) => {
                    PackedAlgorithm::LeakyBucket(LeakyBucket::new(rate, changed(one.queue())))
                }
                PackedAlgorithm::FixedWindow(one) => {
                    PackedAlgorithm::FixedWindow(FixedWindow { rate, ..one.clone() })
                }
                PackedAlgorithm::SlidingWindow(_) => PackedAlgorithm::SlidingWindow(SlidingWindow::new(rate)),
            }),
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(one)) => {
                Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(SlidingLog { rate, ..one.clone() }))
            }
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(one)) => {
                Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(SubWindows { rate, ..one.clone() }))
            }
            Algorithm::Leases(Concurrency { .. }) => Algorithm::Leases(Concurrency { rate }),
        };
        Self { name: self.name.clone(), algorithm }
    }
}

/// A burst or a queue that goes with L.
fn scaled(units: u64, from: Rate, to: Rate) -> u64 {
    let scaled = u128::from(units) * u128::from(to.limit()) / u128::from(from.limit().max(1));
    u64::try_from(scaled).unwrap_or(UNITS_MAX).clamp(1, UNITS_MAX)
}
