//! What happens to unused permits: how many are stored, and what it costs to use them.
//!
//! Stored permits are measured in time: the time that it would take to hand them out at the pacer's rate. In this unit
//! neither shape depends on the rate. The bursty shape stores what was not handed out in the last seconds, and hands it
//! out for free. The warming-up shape, with warm-up period P and cold factor c, is this:
//!
//! ```text
//!   how long a
//!   permit takes
//!        c |                        /      The cost of stored permits is the area above them: go left from the
//!          |                     /  |      stored amount by the amount taken.
//!          |                  /     |
//!          |               /  area  |      From the right edge to the threshold the area is P, the warm-up period.
//!        1 |------------/   is P    |      Left of it a permit takes its normal time, for P/2 more.
//!          | area is    |           |
//!          | P/2        |           |      An idle pacer takes P to go from empty to the right edge.
//!        0 +------------+-----------+-->
//!          0       threshold       max     stored, in time at the stable rate
//!                     P/2     P/2 + 2P/(1+c)
//! ```
//!
//! With c = a/b, the threshold, the range above it and their sum are multiples of P/(2(a+b)). A tick is 1/L ns, and for
//! the warming-up shape 1/(2(a+b)) of that. So all three are whole ticks at any rate of L per W, and so is every
//! permit.

use tidegate_core::Rate;

use super::ratio::Ratio;

/// How much longer a permit takes when the pacer is cold: `numerator / denominator` times as long. Guava's is 3.
///
/// ```
/// use tidegate::ColdFactor;
///
/// assert_eq!(ColdFactor::from(3), ColdFactor { numerator: 3, denominator: 1 });
/// let two_and_a_half = ColdFactor { numerator: 5, denominator: 2 };
/// # let _ = two_and_a_half;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColdFactor {
    /// At least the denominator: a cold pacer is not faster than a warm one.
    pub numerator: u32,
    /// At least one.
    pub denominator: u32,
}

impl From<u32> for ColdFactor {
    fn from(factor: u32) -> Self {
        Self { numerator: factor, denominator: 1 }
    }
}

impl Default for ColdFactor {
    fn default() -> Self {
        Self::from(3)
    }
}

/// The largest numerator and denominator of a [`ColdFactor`].
pub const COLD_FACTOR_TERM_MAX: u32 = 1_000;

/// The shape of a pacer with its parameters, all of them in range.
///
/// The ranges keep the arithmetic within 128 bits: L < 2^40, a span S of nanoseconds (W, P or a burst) is below 2^59,
/// and a and b are at most 1,000. So L * S < 2^99, a tick is at least 2^-52 ns, and the largest products are
/// 8 * b * b * L * P < 2^122 and 2 * (a+b) * (a+5b) * L * P < 2^124.
#[derive(Clone, Copy, Debug)]
pub(super) enum PacerShape {
    /// Stores permits for this long, and hands them out for free.
    Bursty { burst_ns: u64 },
    /// Stores permits. The more it stores, the longer each takes.
    WarmingUp { warm_up_ns: u64, cold_factor: ColdFactor },
}

/// A shape at a rate, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct TickScale {
    pub ticks_per_ns: u128,
    pub ticks_per_permit: u128,
    /// The most that can be stored.
    pub stored_max: u128,
    /// How long it takes to fill the store, and how much of that time is stored: `gain_numerator / gain_denominator`.
    fill_ticks: u128,
    gain_numerator: u128,
    gain_denominator: u128,
    /// Permits above it are cold.
    threshold: u128,
    stored_cost: StoredCost,
}

/// Stored permits that are handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredPermits {
    pub taken: u128,
    pub stored: u128,
}

/// What stored permits cost.
#[derive(Clone, Copy, Debug)]
enum StoredCost {
    Free,
    /// The cost of new permits, plus `excess / divisor` times the difference between the squares of the stored amounts
    /// above the threshold, before and after. The factor is (c-1)/(2Y), where Y is the range above the threshold.
    WarmUp {
        excess: u128,
        divisor: u128,
    },
}

impl PacerShape {
    /// What is stored at the start: a pacer that warms up starts cold, a bursty one starts empty.
    pub(super) fn stored_at_start(&self, scale: &TickScale) -> u128 {
        match self {
            Self::Bursty { .. } => 0,
            Self::WarmingUp { .. } => scale.stored_max,
        }
    }

    pub(super) fn at_rate(&self, rate: Rate) -> TickScale {
        let limit = u128::from(rate.limit());
        let window = u128::from(rate.window_ns());
        match *self {
            Self::Bursty { burst_ns } => {
                let burst = u128::from(burst_ns) * limit;
                TickScale {
                    ticks_per_ns: limit,
                    ticks_per_permit: window,
                    stored_max: burst,
                    fill_ticks: burst,
                    gain_numerator: 1,
                    gain_denominator: 1,
                    threshold: 0,
                    stored_cost: StoredCost::Free,
                }
            }
            Self::WarmingUp { warm_up_ns, cold_factor } => {
                let (a, b) = (u128::from(cold_factor.numerator), u128::from(cold_factor.denominator));
                let part = u128::from(warm_up_ns) * limit;
                let ticks = 2 * (a + b);
                TickScale {
                    ticks_per_ns: limit * ticks,
                    ticks_per_permit: window * ticks,
                    stored_max: part * (a + 5 * b),
                    fill_ticks: part * ticks,
                    gain_numerator: a + 5 * b,
                    gain_denominator: ticks,
                    threshold: part * (a + b),
                    stored_cost: StoredCost::WarmUp {
                        excess: a.saturating_sub(b),
                        divisor: 2 * b * (part * 4 * b),
                    },
                }
            }
        }
    }
}

impl TickScale {
    /// What idle ticks add to the stored permits. Rounded down, by less than a tick.
    pub(super) fn stored_during(&self, idle: u128) -> u128 {
        if idle < self.fill_ticks {
            idle * self.gain_numerator / self.gain_denominator
        } else {
            self.stored_max
        }
    }

    /// How long it takes to hand out stored permits: the area in the picture, rounded up once, by less than a tick.
    pub(super) fn cost(&self, StoredPermits { taken, stored }: StoredPermits) -> u128 {
        let StoredCost::WarmUp { excess, divisor } = self.stored_cost else { return 0 };
        let beyond = stored.saturating_sub(self.threshold);
        let beyond_after = (stored - taken).saturating_sub(self.threshold);
        // The part above 1 is a trapezoid, as wide as the number of cold permits taken.
        let width = beyond - beyond_after;
        taken + Ratio { factors: [width, excess * (beyond + beyond_after)], divisor }.ceil()
    }
}
