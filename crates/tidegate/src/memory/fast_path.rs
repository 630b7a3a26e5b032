//! One unit of a key that the table has: the fast path of nearly every decision.
//!
//! It is `single.rs` with everything left out that the common case does not need. What remains is: find the slot, compute
//! the new state in 64 bits (the counter's `FastPath`), lock the page, write two words, unlock it.
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

use std::hint::black_box;

use tidegate_core::{Charge, Counter, Decision, IntoKey, PackedState, Role, TimedCost, Timestamp};

use super::MemoryStore;

/// How many keys are loaded together. A core waits for about this many cache misses at a time.
const BATCH_KEYS: usize = 16;

/// Why the fast path did not decide. It changed nothing.
#[derive(Clone, Copy)]
pub(super) enum FastMiss {
    /// The key was not found, or another thread was writing its page.
    Unread,
    /// The key has this state, and the unit is not admitted by it, or not in this path.
    Read(PackedState),
}

impl MemoryStore {
    /// Decides the charge with this tag, and passes the decision to `decided`.
    ///
    /// One function, in which each miss leaves the block: a `Result` that is passed on would keep the values of both
    /// cases in registers. `decided` is called in both cases, so that the common decision is built where it belongs.
    #[inline(always)]
    pub(super) fn check_tagged<R>(
        &self,
        charge: &Charge<'_>,
        tag: u64,
        now: Timestamp,
        decided: impl FnOnce(Decision) -> R,
    ) -> R {
        let miss = 'miss: {
            // Most callers pass a constant cost and role, so these checks cost them nothing.
            let is_unit = charge.cost == 1 && charge.role == Role::Enforced;
            let Some(path) = charge.counter.fast_path().filter(|_| is_unit) else {
                break 'miss FastMiss::Unread;
            };
            let page = self.table.page_of(tag);
            let Some(version) = page.version() else { break 'miss FastMiss::Unread };
            let Some(slot) = page.find_words(tag) else { break 'miss FastMiss::Unread };
            let state = slot.state();
            let Some(charged) = path.charge(state, now) else {
                break 'miss if page.is_unchanged(version) {
                    FastMiss::Read(state)
                } else {
                    FastMiss::Unread
                };
            };
            let Some(mut locked) = page.lock_unchanged(version) else { break 'miss FastMiss::Unread };
            locked.set_words(slot, charged.state);
            drop(locked);
            return decided(Decision::of_one(path.outcome(&charged)));
        };
        // By value: a reference would make every caller build the charge in memory.
        decided(self.check_charge_slow(*charge, tag, now, miss))
    }

    /// Loads the memory that a charge on this key needs first. The processor then waits for it together with other loads that it
    /// has begun.
    #[cfg(feature = "rules")]
    #[inline]
    pub(crate) fn touch(&self, counter: &Counter, key: &[u8]) {
        let tag = self.seed.tag(counter.id(), key);
        black_box(self.table.page_of(tag).touch(tag));
    }

    /// Decides a charge on each key, in order, as [`check_charge`](Self::check_charge) does.
    ///
    /// Before it decides about a batch of keys, it loads the memory of all of them, without a branch. The processor waits for
    /// these loads together. In a decision it waits for each of them: the lock of a page lets no later load begin.
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
            let mut touched = 0;
            for (tag, key) in tags.iter_mut().zip(batch) {
                *tag = self.seed.tag(counter.id(), key.key_bytes().as_ref());
                touched ^= self.table.page_of(*tag).touch(*tag);
            }
            black_box(touched);
            for (tag, key) in tags.into_iter().zip(batch) {
                let key = key.key_bytes();
                let charge = Charge::new(key.as_ref(), counter, cost);
                self.check_tagged(&charge, tag, now, &mut decided);
            }
        }
    }
}
