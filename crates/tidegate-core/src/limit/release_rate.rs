//! How those follow each other who stand in line for a limit.

use super::{Algorithm, Limit};
use crate::algorithm::{LimitAlgorithm, Edges, UsageLogAlgorithm, PackedAlgorithm};
use crate::{Nanos, Timestamp};

/// Who leaves when, of those in line for a limit, as far as that follows from the limit alone: no sooner than this.
///
/// ```
/// use tidegate_core::{Limit, Nanos};
///
/// let limit: Limit = "2 per second".parse()?;
/// // The first has had to wait, so that nothing is left when it goes.
/// let mut pace = limit.pace_after(1).expect("no leases");
/// assert_eq!(pace.follow(1), Nanos::new(500_000_000));
/// assert_eq!(pace.follow(3), Nanos::new(2_000_000_000));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseRate {
    units: u64,
    window_ns: u64,
    progress: ReleaseProgress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReleaseProgress {
    /// So many units have followed the first, each at the limit's interval.
    Interval { behind: u128 },
    /// So many windows have begun after that of the first, and so many units are used of the last.
    Windows { windows: u64, used: u64 },
    /// The next may always follow at once.
    Immediate,
}

impl Limit {
    /// Who follows the first in line, which takes so many units, has to wait, and goes as soon as it fits. None if nobody
    /// knows when it fits: leases are given back whenever their holders like.
    ///
    /// Units that are given back, or a limit that is raised, make those who follow sooner; whoever else takes units,
    /// later.
    pub fn release_rate_after(&self, first: u64) -> Option<ReleaseRate> {
        let so_far = match &self.algorithm {
            Algorithm::Leases(_) => return None,
            // When the first fits, it takes all there is.
            Algorithm::Packed(
                PackedAlgorithm::Gcra(_) | PackedAlgorithm::TokenBucket(_) | PackedAlgorithm::LeakyBucket(_),
            ) => ReleaseProgress::Interval { behind: 0 },
            Algorithm::Packed(PackedAlgorithm::FixedWindow(one)) => match one.edges {
                // The first is the first of its window.
                Edges::Epoch | Edges::FirstHit => ReleaseProgress::Windows { windows: 0, used: first },
                // Windows are not all of one length.
                Edges::Calendar(_) => ReleaseProgress::Immediate,
            },
            // What was used before the first may come back to the next in the same instant.
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(_))
            | Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(_) | UsageLogAlgorithm::SubWindows(_)) => {
                ReleaseProgress::Immediate
            }
        };
        Some(ReleaseRate { units: self.rate().limit().max(1), window_ns: self.rate().window_ns(), progress: so_far })
    }

    /// The largest cost that it ever admits.
    pub fn capacity(&self) -> u64 {
        let start = Timestamp::from_nanos(0);
        match &self.algorithm {
            Algorithm::Packed(one) => one.remaining(&Default::default(), start),
            Algorithm::UsageLog(one) => one.remaining(&Default::default(), start),
            Algorithm::Leases(one) => one.remaining(&Default::default(), start),
        }
    }
}

impl ReleaseRate {
    /// How long after the first the next one leaves at the least, which takes so many units. It follows all that were
    /// asked about before.
    pub fn release_next(&mut self, units: u64) -> Nanos {
        let window_ns = u128::from(self.window_ns);
        Nanos::new(match &mut self.progress {
            ReleaseProgress::Interval { behind } => {
                *behind = behind.saturating_add(units.into());
                behind.saturating_mul(window_ns) / u128::from(self.units)
            }
            ReleaseProgress::Windows { windows, used } => {
                *used = used.saturating_add(units);
                if *used > self.units {
                    (*windows, *used) = (windows.saturating_add(1), units);
                }
                u128::from(*windows) * window_ns
            }
            ReleaseProgress::Immediate => 0,
        })
    }
}
