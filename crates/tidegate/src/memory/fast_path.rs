//! One unit of a key that the table has: the fast path of nearly every decision.
//!
//! It is `single.rs` with everything left out that the common case does not need. What remains is: find the slot, compute
//! the new state in 64 bits (the counter's [`FastPath`]), lock the page, write two words, unlock it.
//!
//! **Why it is safe.** `single.rs` looks up the page twice, because a page that was split meanwhile may have lost the key.
//! Here the key was found, and a key is only ever in its own page: a split removes the keys that move while the page is
//! locked. So a key that is found under an even version is in the right page at that version. `single.rs` also checks the
//! version after reading. Here the swap that locks the page is that check: it fails if the version has changed since.
//! `loom_tests.rs` runs both under loom. Whatever does not fit (a denial, a new key or window, contention) changes nothing
//! and is decided by `single.rs`.
//!
//! **Why it is fast.** A processor runs some 13 instructions per nanosecond here, and waits for memory otherwise. Fewer
//! instructions also let it begin the next decision while this one waits for a cache miss, so a short path gains most with
//! many keys. Everything is inlined into the caller, so a caller that reads only `is_allowed` does not compute the rest.

use tidegate_core::algorithm::{FastCharge, FastPath};
use tidegate_core::{Charge, Counter, Decision, IntoKey, TimedCost, Timestamp};

use super::MemoryStore;
use super::page::{Page, SlotWords, Version};

/// How many keys are loaded together. A core waits for about this many cache misses at a time.
const BATCH_KEYS: usize = 16;

/// Where a key was found.
#[derive(Clone, Copy)]
struct FoundSlot<'a> {
    page: Page<'a>,
    slot: SlotWords<'a>,
}

impl MemoryStore {
    /// Charges one unit to the key with this tag. `None` if nothing was changed, and `single.rs` must decide.
    #[inline(always)]
    pub(super) fn try_charge_unit(&self, path: &FastPath, tag: u64, now: Timestamp) -> Option<FastCharge> {
        let page = self.table.page_of(tag);
        let version = page.version()?;
        FoundSlot { page, slot: page.find_words(tag)? }.try_charge(version, path, now)
    }

    /// Decides a charge on each key, in order, as [`check_charge`](Self::check_charge) does.
    ///
    /// It first finds all keys of a batch, and then decides. The processor waits for the memory of all of them together. If
    /// it decided at once, it would wait for each key: the lock of a page lets no later load begin.
    #[inline]
    pub(crate) fn check_keys<K: IntoKey>(
        &self,
        counter: &Counter,
        keys: &[K],
        TimedCost { now, cost }: TimedCost,
        mut decided: impl FnMut(Decision),
    ) {
        for batch in keys.chunks(BATCH_KEYS) {
            let mut tags = [0; BATCH_KEYS];
            for (tag, key) in tags.iter_mut().zip(batch) {
                *tag = self.seed.tag(counter.id(), key.key_bytes().as_ref());
            }
            let mut found = [None; BATCH_KEYS];
            for (found, tag) in found.iter_mut().zip(&tags[..batch.len()]) {
                let page = self.table.page_of(*tag);
                *found = page.find_words(*tag).map(|slot| FoundSlot { page, slot });
            }
            for ((key, tag), found) in batch.iter().zip(tags).zip(found) {
                let path = counter.fast_path().filter(|_| cost == 1);
                let charged = found.zip(path).and_then(|(found, path)| {
                    let charge = found.try_charge_if_still(tag, path, now)?;
                    Some(Decision::of_one(path.outcome(&charge)))
                });
                decided(match charged {
                    Some(decision) => decision,
                    None => {
                        self.check_tagged(&Charge::new(key.key_bytes().as_ref(), counter, cost), tag, now)
                    }
                });
            }
        }
    }
}

impl FoundSlot<'_> {
    /// Charges one unit to the slot, if the page still has the version under which the slot was found.
    #[inline(always)]
    fn try_charge(self, version: Version, path: &FastPath, now: Timestamp) -> Option<FastCharge> {
        let charge = path.charge(self.slot.state(), now)?;
        self.page.lock_unchanged(version)?.set_words(self.slot, charge.state);
        Some(charge)
    }

    /// As [`try_charge`](Self::try_charge), if the slot still has this key.
    #[inline(always)]
    fn try_charge_if_still(self, tag: u64, path: &FastPath, now: Timestamp) -> Option<FastCharge> {
        let version = self.page.version()?;
        if self.slot.is_of(tag) { self.try_charge(version, path, now) } else { None }
    }
}
