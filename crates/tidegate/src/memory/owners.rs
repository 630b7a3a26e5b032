//! Which limit a state belongs to, and which states a full store evicts.
//!
//! A client that can invent keys of one limit must not push out the keys of another. If the state nearest its reset
//! always went first, a flood of keys with a window of a day would evict every counter of a minute. So a full store
//! takes from the limit that has the most: max-min fairness. A limit that has fewer states than another never loses one
//! to it. With n limits that want more than they get, each has about a part in n of the memory. Nothing has to be
//! configured, and what one limit does not use belongs to the others.
//!
//! # Six bits
//!
//! For this a state needs to know its limit. The table has no bits to spare in a slot: a tag is a 64-bit hash, a state is
//! 16 bytes. But all tags in a page have the same low bits, at least the [`OWNER_BITS`] that choose one of the first
//! pages. There a slot stores the owner instead:
//!
//! ```text
//! hash of the key    58 bits | 6 bits, which are the same in the whole page
//! tag in the slot    58 bits | owner
//! ```
//!
//! No bit of the hash is lost: two keys of a limit have the same tag only if their hashes are equal. A search ignores
//! the owner. Only a new key writes it, so a decision about a known key costs the same as without owners.
//!
//! Six bits are enough for 63 owners. A limit becomes an owner with its first key. If there are more limits than that
//! since the start of the process, each further one shares the owner that its identity selects: the two are then treated
//! as one limit. A page has 156 states, so with more owners the part of each would be one or two states of a page, and
//! chance would decide.
//!
//! # Eviction
//!
//! Pages are filled by hash, so each is a random sample of all keys, and the fair parts hold in each page. A full page of
//! live states evicts an eighth of them at once ([`LockedPage::evict`](super::page::LockedPage::evict)): one after the
//! other from the owner that has the most in this page, and of that owner the state that resets first. One after the
//! other would cost more: states cannot be removed singly, see `page.rs`.
//!
//! Usage logs have different sizes, so there an owner's bytes count, in all shards together. Leases are not evicted. So
//! that others find room, a limit may hold at most as many bytes of leases as it leaves free. That is the rule of dynamic
//! thresholds (Choudhury and Hahne 1998): one limit alone gets half, n limits get a part in n + 1 each.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::CounterId;

use super::table::DEPTH_MIN;

/// The low bits of a tag that are the same in a page. Under loom a table starts with one page, so there are none.
const OWNER_BITS: u32 = DEPTH_MIN;
/// The bits of a stored tag that hold the owner.
pub(super) const OWNER_MASK: u64 = (1 << OWNER_BITS) - 1;
/// Owners, and the number zero for states whose owner is not known.
pub(super) const OWNERS: usize = 1 << 6;
const LIMITS_MAX: usize = OWNERS - 1;

/// The owner of a state: a limit, or several limits that share a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner(u8);

/// A key and the limit that it belongs to.
#[derive(Clone, Copy)]
pub(super) struct OwnedTag {
    pub tag: u64,
    pub owner: Owner,
}

/// The limits that own states, by their numbers. Zero if a number is free. Not loom's atomics: they order nothing.
pub(super) struct Owners {
    ids: [AtomicU64; LIMITS_MAX],
}

impl Owner {
    /// The owner of a state from a snapshot that does not say.
    pub(super) const UNKNOWN: Self = Self(0);

    /// The owner in a stored tag.
    pub(super) fn from_tag(stored_tag: u64) -> Self {
        #[allow(clippy::cast_possible_truncation, reason = "six bits")]
        return Self((stored_tag & OWNER_MASK) as u8);
    }

    /// A tag as it is stored.
    pub(super) fn stored_tag(self, tag: u64) -> u64 {
        tag & !OWNER_MASK | u64::from(self.0) & OWNER_MASK
    }

    /// A number below [`OWNERS`].
    pub(super) fn index(self) -> usize {
        usize::from(self.number())
    }

    /// The number of its limit, from 1.
    pub(super) fn number(self) -> u8 {
        self.0
    }
}

impl Owners {
    pub(super) fn new() -> Self {
        Self { ids: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// The owner of the states of a counter.
    pub(super) fn owner(&self, counter: CounterId) -> Owner {
        self.owner_by_id(counter.get().max(1))
    }

    /// As [`owner`](Self::owner), for an id that [`ids`](Self::ids) returned.
    pub(super) fn owner_by_id(&self, id: u64) -> Owner {
        #[allow(clippy::cast_possible_truncation, reason = "below OWNERS")]
        let home = (id % LIMITS_MAX as u64) as usize;
        let is_own = |index: &usize| {
            let slot = &self.ids[*index];
            let taken = match slot.load(Ordering::Relaxed) {
                0 => slot
                    .compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed)
                    .unwrap_or_else(|taken| taken),
                taken => taken,
            };
            taken == id || taken == 0
        };
        let index = (0..LIMITS_MAX).map(|step| (home + step) % LIMITS_MAX).find(is_own).unwrap_or(home);
        #[allow(clippy::cast_possible_truncation, reason = "at most LIMITS_MAX")]
        return Owner(index as u8 + 1);
    }

    /// The ids of the limits, in the order of their numbers. Zero if a number is free.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        self.ids.iter().map(|id| id.load(Ordering::Relaxed))
    }
}

/// How many states each owner keeps if a full page evicts `evictions` of them: one after the other from the owner that
/// has the most.
pub(super) fn fair_counts(mut counts: [usize; OWNERS], evictions: usize) -> [usize; OWNERS] {
    for _ in 0..evictions {
        if let Some(most) = counts.iter_mut().max() {
            *most = most.saturating_sub(1);
        }
    }
    counts
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_limits_have_their_own_numbers_and_the_rest_share() {
        let owners = Owners::new();
        let numbers: Vec<Owner> = (100..400).map(|id| owners.owner_by_id(id)).collect();
        let mut own: Vec<usize> = numbers[..LIMITS_MAX].iter().map(|owner| owner.index()).collect();
        own.sort_unstable();
        assert_eq!(own, (1..=LIMITS_MAX).collect::<Vec<_>>());
        assert!(numbers.iter().all(|owner| (1..=LIMITS_MAX).contains(&owner.index())));
        let again: Vec<Owner> = (100..400).map(|id| owners.owner_by_id(id)).collect();
        assert_eq!(numbers, again);
    }

    #[test]
    fn a_stored_tag_keeps_the_owner_and_the_hash() {
        let owner = Owners::new().owner_by_id(77);
        let tag = 0xdead_beef_dead_beef;
        assert_eq!(Owner::from_tag(owner.stored_tag(tag)), owner);
        assert_eq!(owner.stored_tag(tag) & !OWNER_MASK, tag & !OWNER_MASK);
    }

    #[test]
    fn the_owner_with_the_most_pays() {
        let counts = |pairs: &[(usize, usize)]| {
            let mut counts = [0; OWNERS];
            pairs.iter().for_each(|(owner, count)| counts[*owner] = *count);
            counts
        };
        assert_eq!(fair_counts(counts(&[(1, 150), (2, 6)]), 20), counts(&[(1, 130), (2, 6)]));
        assert_eq!(fair_counts(counts(&[(1, 80), (2, 76)]), 20), counts(&[(1, 68), (2, 68)]));
        assert_eq!(fair_counts(counts(&[]), 3), counts(&[]));
    }
}
