//! A limit with another L.

use super::{Algorithm, Limit};
use crate::algorithm::{
    Concurrency, FixedWindow, Gcra, LeakyBucket, LedgerAlgorithm, PackedAlgorithm, SlidingLog, SlidingWindow,
    SubWindows, TokenBucket,
};
use crate::{Rate, UNITS_MAX};

impl Limit {
    /// The same with another L, at most [`UNITS_MAX`]. Burst and queue change with it in proportion, and are one at
    /// least. It reads the state of this one.
    #[must_use]
    pub fn resized(&self, limit: u64) -> Self {
        let rate = self.rate().resized(limit);
        let scaled = |units| scaled(units, self.rate(), rate);
        let algorithm = match &self.algorithm {
            Algorithm::Packed(packed) => Algorithm::Packed(match packed {
                PackedAlgorithm::Gcra(one) => PackedAlgorithm::Gcra(Gcra::new(rate, scaled(one.burst()))),
                PackedAlgorithm::TokenBucket(TokenBucket(one)) => {
                    PackedAlgorithm::TokenBucket(TokenBucket(Gcra::new(rate, scaled(one.burst()))))
                }
                PackedAlgorithm::LeakyBucket(one) => {
                    PackedAlgorithm::LeakyBucket(LeakyBucket::new(rate, scaled(one.queue())))
                }
                PackedAlgorithm::FixedWindow(one) => {
                    PackedAlgorithm::FixedWindow(FixedWindow { rate, ..one.clone() })
                }
                PackedAlgorithm::SlidingWindow(_) => PackedAlgorithm::SlidingWindow(SlidingWindow::new(rate)),
            }),
            Algorithm::Ledger(LedgerAlgorithm::SlidingLog(one)) => {
                Algorithm::Ledger(LedgerAlgorithm::SlidingLog(SlidingLog { rate, ..one.clone() }))
            }
            Algorithm::Ledger(LedgerAlgorithm::SubWindows(one)) => {
                Algorithm::Ledger(LedgerAlgorithm::SubWindows(SubWindows { rate, ..one.clone() }))
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
