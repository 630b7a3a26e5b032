//! How long those wait who stand in line behind another.

use super::{Algorithm, Limit};
use crate::Nanos;
use crate::algorithm::{Edges, LedgerAlgorithm, PackedAlgorithm};

/// Those who stand in line for a limit, up to the one that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The units of the first.
    pub first: u64,
    /// The units of all behind it, the last included.
    pub behind: u64,
}

impl Limit {
    /// How long after the first in line the last leaves at the least, if the first has to wait and leaves as soon as it
    /// fits. None if nobody knows when it fits: leases are given back whenever their holders like.
    ///
    /// Units that are given back, or a limit that is raised, make it sooner; whoever else takes units, later.
    pub fn least_lag(&self, backlog: Backlog) -> Option<Nanos> {
        let (units, window_ns) =
            (u128::from(self.rate().limit()).max(1), u128::from(self.rate().window_ns()));
        let (first, behind) = (u128::from(backlog.first), u128::from(backlog.behind));
        let lag_ns = match &self.algorithm {
            Algorithm::Leases(_) => return None,
            // When the first fits, it takes all there is.
            Algorithm::Packed(
                PackedAlgorithm::Gcra(_) | PackedAlgorithm::TokenBucket(_) | PackedAlgorithm::LeakyBucket(_),
            ) => behind * window_ns / units,
            // The first is the first of a window, and there is a limit to each.
            Algorithm::Packed(PackedAlgorithm::FixedWindow(one)) => match one.edges {
                Edges::Epoch | Edges::FirstHit => (first + behind).saturating_sub(1) / units * window_ns,
                Edges::Calendar(_) => 0,
            },
            Algorithm::Ledger(LedgerAlgorithm::SlidingLog(_)) => {
                (first + behind).saturating_sub(1) / units * window_ns
            }
            // In these the next may fit at once.
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(_))
            | Algorithm::Ledger(LedgerAlgorithm::SubWindows(_)) => 0,
        };
        Some(Nanos::new(lag_ns))
    }
}
