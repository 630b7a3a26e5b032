//! The release rate: how fast a limit lets waiting requests go.

use super::Limit;
use crate::algorithm::{Edges, LimitAlgorithm, PackedAlgorithm, UsageLogAlgorithm};
use crate::{Algorithm, Nanos, Timestamp};

/// The earliest instants at which the requests in a wait queue can be released, as far as the limit alone determines
/// them.
///
/// ```
/// use tidegate_core::{Limit, Nanos};
///
/// let limit: Limit = "2 per second".parse()?;
/// // The first request had to wait, so nothing is left when it is released.
/// let mut rate = limit.release_rate_after(1).expect("no leases");
/// assert_eq!(rate.release_next(1), Nanos::new(500_000_000));
/// assert_eq!(rate.release_next(3), Nanos::new(2_000_000_000));
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
    /// `behind` units have followed the first request, each one interval after the other.
    Interval { behind: u128 },
    /// `windows` windows have begun since that of the first request, and `used` units of the last one are used.
    Windows { windows: u64, used: u64 },
    /// The next request may always follow immediately.
    Immediate,
}

impl Limit {
    /// The release rate of the requests behind the head of the queue. The head takes `first` units, has to wait, and
    /// goes as soon as it fits. `None` for a concurrency limit: it is unknown when leases are released.
    ///
    /// Refunds and a raised limit let the requests go earlier than this. Other requests that take units make them
    /// later.
    pub fn release_rate_after(&self, first: u64) -> Option<ReleaseRate> {
        let progress = match &self.algorithm {
            Algorithm::Leases(_) => return None,
            // When the first request fits, it takes all units that there are.
            Algorithm::Packed(
                PackedAlgorithm::Gcra(_) | PackedAlgorithm::TokenBucket(_) | PackedAlgorithm::LeakyBucket(_),
            ) => ReleaseProgress::Interval { behind: 0 },
            Algorithm::Packed(PackedAlgorithm::FixedWindow(algorithm)) => match algorithm.edges {
                // The first request opens its window.
                Edges::Epoch | Edges::FirstHit => ReleaseProgress::Windows { windows: 0, used: first },
                // Windows vary in length.
                Edges::Calendar(_) => ReleaseProgress::Immediate,
            },
            // Units that were used before the first request may come back for the next one at the same instant.
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(_))
            | Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(_) | UsageLogAlgorithm::SubWindows(_)) => {
                ReleaseProgress::Immediate
            }
        };
        Some(ReleaseRate { units: self.rate().limit().max(1), window_ns: self.rate().window_ns(), progress })
    }

    /// The largest cost that the limit ever admits.
    pub fn capacity(&self) -> u64 {
        let start = Timestamp::from_nanos(0);
        match &self.algorithm {
            Algorithm::Packed(algorithm) => algorithm.remaining(&Default::default(), start),
            Algorithm::UsageLog(algorithm) => algorithm.remaining(&Default::default(), start),
            Algorithm::Leases(algorithm) => algorithm.remaining(&Default::default(), start),
        }
    }
}

impl ReleaseRate {
    /// The least time between the release of the first request and that of the next one, which takes `units` units.
    /// Each call is for the request after the one of the previous call.
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
