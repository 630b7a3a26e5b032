//! Limits with the values of overrides. Many keys have the same values, so each limit is compiled once and kept with the rules.
//!
//! Decisions look them up at the same time, so the table has no lock and no counter that threads share: a slot is written once,
//! and a decision keeps the position of its limit in the table. Overrides that keys share also remember that position
//! ([`OverrideList`]), with a number that tells the tables of different rules apart.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::LimitPosition;
use super::compiled_limit::CompiledLimit;
use super::override_list::OverrideList;
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
    table: OnceLock<KeptTable>,
}

#[derive(Debug)]
struct KeptTable {
    /// Differs from that of all other tables of the process, and from 0.
    number: u64,
    slots: Box<[OnceLock<Box<KeptLimit>>]>,
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
    Kept(KeptSlot),
    /// One that is not kept.
    NotKept(Box<CompiledLimit>),
}

/// The slot of a limit that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptSlot(u16);

impl OverriddenLimits {
    fn table(&self) -> &KeptTable {
        self.table.get_or_init(|| {
            static TABLES: AtomicU64 = AtomicU64::new(1);
            let number = TABLES.fetch_add(1, Ordering::Relaxed);
            KeptTable { number, slots: (0..KEPT_MAX).map(|_| OnceLock::new()).collect() }
        })
    }

    /// The limit at a position with the values of an override.
    pub fn get(
        &self,
        position: LimitPosition,
        overridden_as: OverriddenAs,
        compile: impl Fn() -> CompiledLimit,
    ) -> OverriddenLimit {
        match self.table().find(position, overridden_as, &compile) {
            Some(slot) => OverriddenLimit::Kept(slot),
            None => OverriddenLimit::NotKept(Box::new(compile())),
        }
    }

    /// The slot of the limit at a position with the values of overrides that set nothing else, if they remember it.
    #[inline]
    pub fn remembered(&self, position: LimitPosition, list: &OverrideList) -> Option<KeptSlot> {
        let table = self.table.get()?;
        let slot = table.remembered(list.kept())?;
        table.kept(slot).is_some_and(|kept| kept.position == position).then_some(slot)
    }

    /// As [`get`](Self::get), with the values of overrides that set nothing else, which remember the slot. `None` if the limit is
    /// not kept.
    pub fn keep_plain(
        &self,
        position: LimitPosition,
        list: &OverrideList,
        values: &OverrideValues,
        compile: impl Fn() -> CompiledLimit,
    ) -> Option<KeptSlot> {
        let table = self.table();
        let slot = table.find(position, OverriddenAs::Values(*values), &compile)?;
        list.remember_kept(table.number << u16::BITS | u64::from(slot.0));
        Some(slot)
    }

    /// The limit itself.
    #[inline]
    pub fn resolve<'a>(&'a self, limit: &'a OverriddenLimit) -> &'a CompiledLimit {
        match limit {
            OverriddenLimit::Kept(slot) => self.resolve_kept(*slot),
            OverriddenLimit::NotKept(limit) => limit,
        }
    }

    /// The limit in a slot.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "part of `Ruleset::resolve`")]
    pub fn resolve_kept(&self, slot: KeptSlot) -> &CompiledLimit {
        let kept = self.table.get().and_then(|table| table.kept(slot));
        &kept.expect("it was found in these rules, and slots are never emptied").limit
    }
}

impl KeptTable {
    #[inline]
    fn kept(&self, KeptSlot(slot): KeptSlot) -> Option<&KeptLimit> {
        self.slots[usize::from(slot)].get().map(|kept| &**kept)
    }

    /// The slot that a list of overrides remembers, if it is one of this table.
    #[inline]
    fn remembered(&self, remembered: u64) -> Option<KeptSlot> {
        #[allow(clippy::cast_possible_truncation, reason = "the lower bits")]
        let slot = remembered as u16;
        (remembered >> u16::BITS == self.number).then_some(KeptSlot(slot))
    }

    /// The slot of a limit, which is compiled if it is new. `None` if there is no room for it.
    fn find(
        &self,
        position: LimitPosition,
        overridden_as: OverriddenAs,
        compile: &impl Fn() -> CompiledLimit,
    ) -> Option<KeptSlot> {
        let first = overridden_as.hash_at(position);
        let mut slots = (first..first + PROBES_MAX).map(|slot| slot % KEPT_MAX);
        let slot = slots.find(|slot| {
            let keep = || Box::new(KeptLimit { position, overridden_as, limit: compile() });
            let kept = self.slots[*slot].get_or_init(keep);
            kept.position == position && kept.overridden_as == overridden_as
        });
        slot.and_then(|slot| u16::try_from(slot).ok()).map(KeptSlot)
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
