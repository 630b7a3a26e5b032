//! The most that all nodes together admit for one key, by the mode of the limit. `docs/modes.md` has the derivations.
//!
//! | mode | all nodes together |
//! |---|---|
//! | strict | the worst case of the algorithm |
//! | leased, fixed window | the same: a lease ends with its window |
//! | leased, bucket | B + L (τ + T) / W in any span τ: units are used up to T after they were counted |
//! | leased, sliding window | 2L + L T / W in any W, for the same reason |
//! | eventual | the worst case of the algorithm + (nodes - 1) x arrival rate of a node x (2T + round trip), and never more than local |
//! | local | nodes x the worst case of the algorithm |

use std::fmt;
use std::num::NonZeroU32;

use crate::algorithm::{PackedAlgorithm, TokenBucket, WorstCase, WorstCaseScope};
use crate::text::write_duration;
use crate::{Algorithm, Carry, Limit, Mode};

/// The most units that all nodes together admit for one key.
///
/// ```
/// use std::num::NonZeroU32;
/// use tidegate_core::{Limit, Mode};
///
/// let limit: Limit = "6000 per minute burst 100".parse()?;
/// let four = NonZeroU32::new(4).unwrap();
/// assert_eq!(limit.mode_bound(Mode::Strict, four).units, 6_099);
/// // Leases of a second: a hundred units refill meanwhile.
/// assert_eq!(limit.mode_bound(Mode::leased(&limit), four).units, 6_199);
/// assert_eq!(limit.mode_bound(Mode::Local, four).units, 4 * 6_099);
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModeBound {
    /// The mode.
    pub mode: Mode,
    /// The nodes that share the limit.
    pub nodes: NonZeroU32,
    /// The most units, without the excess of `eventual`.
    pub units: u64,
    /// Where they are.
    pub scope: WorstCaseScope,
    /// What may be admitted beyond `units` when an overload begins. Only in the mode `eventual`, with several nodes.
    pub excess: Option<Excess>,
    /// The bound of the algorithm, which one node with its own counter has.
    algorithm: WorstCase,
    reason: BoundReason,
}

/// What nodes admit before they know of each other's units, in the mode `eventual`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excess {
    /// The most units for each 1,000 units per second that arrive at each node, rounded up: (nodes - 1) x 2T x 1,000.
    pub units_per_thousand: u64,
    /// How many round trips to the store must be added: what arrives at a node in one of them, nodes - 1 times.
    pub round_trips: u32,
    /// Whatever arrives, `units` and the excess are not more than this: what the mode `local` would admit.
    pub units_in_all_max: u64,
    /// Whether the excess is paid back by later windows or by the refill.
    pub is_paid_back: bool,
}

/// Why the bound of a mode differs from that of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundReason {
    /// It does not.
    Same,
    /// A lease ends with its window.
    LeaseEndsWithWindow,
    /// Units are used up to `lease_ns` after they were counted. A bucket admits this many at once.
    CountedEarly { lease_ns: u64, at_once: Option<u64> },
    /// Counts are exchanged at least this often.
    Exchanged { sync_ns: u64 },
    /// Each node has the whole limit.
    EachNode,
}

impl Limit {
    /// The most that this many nodes together admit for one key, if all of them have this mode and share one store that
    /// keeps its state.
    pub fn mode_bound(&self, mode: Mode, nodes: NonZeroU32) -> ModeBound {
        let algorithm = self.worst_case();
        let (units, scope) = (algorithm.units, algorithm.scope);
        let bound =
            ModeBound { mode, nodes, units, scope, excess: None, algorithm, reason: BoundReason::Same };
        if units == 0 {
            return bound;
        }
        match mode {
            Mode::Strict => bound,
            Mode::Leased { lease_us } => self.leased_bound(u64::from(lease_us.get()) * 1_000, bound),
            Mode::Eventual { sync_us, carry } => {
                let sync_ns = u64::from(sync_us.get()) * 1_000;
                let forgets = matches!(
                    self.algorithm(),
                    Algorithm::Packed(PackedAlgorithm::FixedWindow(_)) if carry == Carry::Off
                );
                let others = nodes.get() - 1;
                let excess = Excess {
                    units_per_thousand: narrow(
                        (u128::from(others) * 2 * u128::from(sync_ns)).div_ceil(1_000_000),
                    ),
                    round_trips: others,
                    units_in_all_max: units.saturating_mul(nodes.get().into()),
                    is_paid_back: !forgets,
                };
                let reason = BoundReason::Exchanged { sync_ns };
                ModeBound { excess: (others > 0).then_some(excess), reason, ..bound }
            }
            Mode::Local if nodes.get() == 1 => bound,
            Mode::Local => {
                let units = units.saturating_mul(nodes.get().into());
                ModeBound { units, reason: BoundReason::EachNode, ..bound }
            }
        }
    }

    /// Every unit is counted before it is used, and used at most `lease_ns` later. So the units that are used in a span
    /// were counted in a span that is longer by `lease_ns`.
    fn leased_bound(&self, lease_ns: u64, bound: ModeBound) -> ModeBound {
        let (limit, window_ns) = (u128::from(self.rate().limit()), u128::from(self.rate().window_ns()));
        let refill = |span_ns: u128| limit * span_ns / window_ns;
        match self.algorithm() {
            Algorithm::Packed(
                PackedAlgorithm::Gcra(bucket) | PackedAlgorithm::TokenBucket(TokenBucket(bucket)),
            ) => {
                let burst = u128::from(bucket.burst());
                // A window excludes its end.
                let units = narrow(burst + refill(window_ns - 1 + u128::from(lease_ns)));
                let at_once = Some(narrow(burst + refill(lease_ns.into())));
                ModeBound { units, reason: BoundReason::CountedEarly { lease_ns, at_once }, ..bound }
            }
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(_)) => {
                let units = narrow(2 * limit + refill(lease_ns.into()));
                ModeBound { units, reason: BoundReason::CountedEarly { lease_ns, at_once: None }, ..bound }
            }
            Algorithm::Packed(PackedAlgorithm::FixedWindow(_)) => {
                ModeBound { reason: BoundReason::LeaseEndsWithWindow, ..bound }
            }
            // Decided strictly.
            _ => bound,
        }
    }
}

fn narrow(units: u128) -> u64 {
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// `200 in any 1m, 101 of them at once: units are used up to 1s after they were counted`.
impl fmt::Display for ModeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { units, nodes, algorithm, .. } = self;
        if *units == 0 {
            return write!(f, "{algorithm}");
        }
        match self.reason {
            BoundReason::Same => write!(f, "{algorithm}"),
            BoundReason::LeaseEndsWithWindow => {
                write!(f, "{algorithm}, as with mode strict: a lease ends with its window")
            }
            BoundReason::CountedEarly { lease_ns, at_once } => {
                write!(f, "{}", self.in_scope())?;
                if let Some(at_once) = at_once {
                    write!(f, ", {at_once} of them at once")?;
                }
                let (more, lease) = (units - algorithm.units, write_duration(lease_ns));
                write!(
                    f,
                    ": {more} more than with mode strict, because units may be used up to {lease} after they were counted"
                )
            }
            BoundReason::Exchanged { sync_ns } => {
                write!(f, "{algorithm}")?;
                let Some(excess) = self.excess else { return f.write_str("; one node alone has no excess") };
                let Excess { units_per_thousand, round_trips, units_in_all_max, is_paid_back } = excess;
                let (sync, others) = (write_duration(sync_ns), round_trips);
                let trips = if round_trips == 1 { "round trip" } else { "round trips" };
                write!(
                    f,
                    "; when an overload begins, up to {units_per_thousand} more for each 1000 units per second that \
                     arrive at each node ({others} x 2 x {sync}) and what arrives at a node in {round_trips} {trips} to \
                     the store, but not more than {units_in_all_max} in all"
                )?;
                f.write_str(match is_paid_back {
                    true => "; the excess is paid back afterwards",
                    false => "; the excess is forgotten when the window ends",
                })
            }
            BoundReason::EachNode => {
                write!(f, "{}: {nodes} nodes, each with {algorithm}", self.in_scope())
            }
        }
    }
}

impl ModeBound {
    /// `200 in any 1m`.
    fn in_scope(&self) -> String {
        let units = self.units;
        match self.scope {
            WorstCaseScope::AnyWindow { window_ns } => {
                format!("{units} in any {}", write_duration(window_ns))
            }
            WorstCaseScope::CalendarEdge { unit } => format!("{units} around the end of a {unit}"),
            WorstCaseScope::InFlight => format!("{units} in flight"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use crate::{Carry, Limit, Mode};

    fn text(limit: &str, mode: Mode, nodes: u32) -> String {
        limit.parse::<Limit>().unwrap().mode_bound(mode, NonZeroU32::new(nodes).unwrap()).to_string()
    }

    fn leased(millis: u32) -> Mode {
        Mode::Leased { lease_us: NonZeroU32::new(millis * 1_000).unwrap() }
    }

    /// The numbers of `docs/modes.md`.
    #[test]
    fn as_text() {
        let bucket = "6000 per minute burst 100";
        let window = "{algorithm: fixed_window, limit: 6000, per: minute}";
        let sliding = "{algorithm: sliding_window, limit: 6000, per: minute}";
        let strict = "6099 in any 1m: 100 at once and 5999 more within 60s";
        assert_eq!(text(bucket, Mode::Strict, 4), strict);
        assert_eq!(
            text(bucket, leased(1_000), 4),
            "6199 in any 1m, 200 of them at once: 100 more than with mode strict, because units may be used up to 1s \
             after they were counted"
        );
        assert_eq!(
            text(window, leased(1_000), 4),
            "12000 in any 1m, around the end of a window; 6000 in each window, as with mode strict: a lease ends with its window"
        );
        assert_eq!(
            text(sliding, leased(1_000), 4),
            "12100 in any 1m: 101 more than with mode strict, because units may be used up to 1s after they were counted"
        );
        assert_eq!(
            text(bucket, Mode::eventual(), 4),
            format!(
                "{strict}; when an overload begins, up to 600 more for each 1000 units per second that arrive at each \
                 node (3 x 2 x 100ms) and what arrives at a node in 3 round trips to the store, but not more than 24396 \
                 in all; the excess is paid back afterwards"
            )
        );
        assert_eq!(text(bucket, Mode::eventual(), 1), format!("{strict}; one node alone has no excess"));
        let no_carry = Mode::Eventual { sync_us: NonZeroU32::new(50_000).unwrap(), carry: Carry::Off };
        let forgotten = text(window, no_carry, 2);
        assert!(
            forgotten.contains("up to 100 more") && forgotten.contains("in 1 round trip to"),
            "{forgotten}"
        );
        assert!(forgotten.ends_with("the excess is forgotten when the window ends"), "{forgotten}");
        assert_eq!(text(bucket, Mode::Local, 4), format!("24396 in any 1m: 4 nodes, each with {strict}"));
        let lock = "{algorithm: concurrency, limit: 3, ttl: 5m}";
        assert_eq!(text(lock, Mode::Local, 2), "6 in flight: 2 nodes, each with 3 in flight");
        assert_eq!(text("deny", leased(1_000), 2), "nothing");
        assert_eq!(text("deny", Mode::Local, 2), "nothing");
    }
}
