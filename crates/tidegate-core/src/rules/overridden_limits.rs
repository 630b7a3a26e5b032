//! Limits with the values of overrides. Many keys have the same values, so each limit is compiled once and kept with the rules.
//!
//! Decisions look them up at the same time, so the table has no lock and no counter that threads share: a slot is written once,
//! and a decision keeps the position of its limit in the table.

use std::sync::OnceLock;

use super::LimitPosition;
use super::compiled_limit::CompiledLimit;
use super::overrides::OverrideValues;

/// How many limits are kept, at most. Others are compiled for each request.
const KEPT_MAX: usize = 1 << 14;
/// How many slots after its own a limit may be in.
const PROBES_MAX: usize = 16;
/// An odd number with its bits spread, for hashing.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The limits that are kept.
#[derive(Debug, Default)]
pub(super) struct OverriddenLimits {
    /// Allocated when the first override applies.
    slots: OnceLock<Box<[OnceLock<Box<KeptLimit>>]>>,
}

#[derive(Debug)]
struct KeptLimit {
    position: LimitPosition,
    overridden_as: OverriddenAs,
    limit: CompiledLimit,
}

/// How a limit is overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverriddenAs {
    Values(OverrideValues),
    Blocked,
}

/// A limit with the values of an override.
#[derive(Clone, Debug)]
pub(super) enum OverriddenLimit {
    /// The one in this slot.
    Kept(usize),
    /// One that is not kept.
    NotKept(Box<CompiledLimit>),
}

impl OverriddenLimits {
    /// The limit at a position with the values of an override.
    pub fn get(
        &self,
        position: LimitPosition,
        overridden_as: OverriddenAs,
        compile: impl Fn() -> CompiledLimit,
    ) -> OverriddenLimit {
        let slots = self.slots.get_or_init(|| (0..KEPT_MAX).map(|_| OnceLock::new()).collect());
        let first = overridden_as.hash_at(position);
        for slot in (first..first + PROBES_MAX).map(|slot| slot % KEPT_MAX) {
            let keep = || Box::new(KeptLimit { position, overridden_as, limit: compile() });
            let kept = slots[slot].get_or_init(keep);
            if kept.position == position && kept.overridden_as == overridden_as {
                return OverriddenLimit::Kept(slot);
            }
        }
        OverriddenLimit::NotKept(Box::new(compile()))
    }

    /// The limit itself.
    pub fn resolve<'a>(&'a self, limit: &'a OverriddenLimit) -> &'a CompiledLimit {
        match limit {
            OverriddenLimit::Kept(slot) => {
                let kept = self.slots.get().and_then(|slots| slots[*slot].get());
                &kept.expect("it was found in these rules, and slots are never emptied").limit
            }
            OverriddenLimit::NotKept(limit) => limit,
        }
    }
}

impl OverriddenAs {
    /// A number below [`KEPT_MAX`]. Operators choose the values, so the hash has no secret.
    fn hash_at(&self, LimitPosition { domain, rule, limit }: LimitPosition) -> usize {
        let values = match self {
            Self::Blocked => OverrideValues::default(),
            Self::Values(values) => *values,
        };
        let words = [
            u64::from(domain) << 32 | u64::from(rule),
            u64::from(limit),
            values.limit.unwrap_or(0),
            values.per_ns.unwrap_or(0),
            values.burst.unwrap_or(0),
            values.sub_windows.unwrap_or(0),
        ];
        let hash = words
            .into_iter()
            .fold(0, |hash: u64, word| (hash.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER));
        // Below the number of slots.
        usize::try_from(hash >> (u64::BITS - KEPT_MAX.ilog2())).unwrap_or(0)
    }
}
