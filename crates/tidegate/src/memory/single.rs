//! One charge on one packed state, in any case. `fast_path.rs` has the common case.
//!
//! Read under the page's version and decide. Only if there is something to charge, lock the page, which also proves
//! that the state is unchanged since it was read. A denial ends before the lock, and has written nothing.

use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{
    Algorithm, Charge, ChargeDecision, Counter, Decision, OutcomeKind, PackedState, TimedCost, Timestamp,
};

use super::MemoryStore;
use super::fast_path::FastMiss;
use super::owners::OwnedTag;
use super::page::{LockedPage, Page, PageSlot, Version};
use crate::sync::{Ordering, spin_or_yield};

/// A state as it was read, and where.
pub(super) struct PackedRead<'a> {
    page: Page<'a>,
    version: Version,
    pub slot: Option<PageSlot>,
    pub state: PackedState,
}

/// Why a decision could not be made on the first attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RetryReason {
    Contended,
    PageFull,
}

impl MemoryStore {
    #[inline]
    pub(super) fn decide_packed<A: LimitAlgorithm<State = PackedState>>(
        &self,
        counter: &Counter,
        tag: u64,
        algorithm: &A,
        timed_cost: TimedCost,
        miss: FastMiss,
    ) -> Decision {
        // The fast path has read the state of most keys that are over their limit. Nothing is charged to them.
        if let FastMiss::Read(state) = miss {
            let charge_decision = ChargeDecision::of_one(algorithm.outcome_kind(&state, timed_cost));
            if !algorithm.is_charged(timed_cost, charge_decision) {
                return Decision::of_one(algorithm.outcome(&state, timed_cost, charge_decision));
            }
        }
        // No loop here: a loop would occupy registers in the common case.
        let (state, kind) = match self.try_decide(counter, tag, algorithm, timed_cost) {
            Ok(decided) => decided,
            Err(reason) => self.decide_locked(counter, tag, algorithm, timed_cost, reason),
        };
        // Build the decision here: passed to a function, it would not be a constant.
        Decision::of_one(algorithm.outcome(&state, timed_cost, ChargeDecision::of_one(kind)))
    }

    /// Changes the state of a key, atomically. A key without a state is left as it is.
    pub(super) fn update_packed(&self, tag: u64, change: impl Fn(&mut PackedState)) {
        retry_until_some(|| {
            let read = self.try_read_packed(tag)?;
            let mut state = read.state;
            change(&mut state);
            if let Some(slot) = read.slot
                && state != read.state
            {
                read.page.lock_unchanged(read.version)?.set_state(slot, state);
            }
            Some(())
        });
    }

    /// Counts units that were used elsewhere since `from`, whether they fit or not. Returns the state after that. Does
    /// nothing for an algorithm without a packed state.
    pub(crate) fn count_since(&self, charge: &Charge<'_>, from: Timestamp, now: Timestamp) -> PackedState {
        let Algorithm::Packed(algorithm) = charge.counter.algorithm() else { return PackedState::NEVER_SEEN };
        let (tag, timed_cost) = (self.seed.tag_of_charge(charge), TimedCost { now, cost: charge.cost });
        loop {
            let number = self.table.page_number(tag);
            let page = self.table.page(number).lock();
            if self.table.page_number(tag) != number {
                continue;
            }
            let slot = page.find(tag);
            let before = slot.map_or(PackedState::NEVER_SEEN, |slot| page.state(slot));
            let mut state = before;
            if charge.cost > 0 {
                algorithm.count_since(&mut state, timed_cost, from);
            }
            let new_key = || NewKey { counter: charge.counter, tag, now };
            if state == before || self.try_write_packed(page, slot, state, new_key).is_some() {
                return state;
            }
            self.make_room(tag, now);
        }
    }

    /// Reads a packed state. Writes nothing.
    pub(super) fn read_packed(&self, tag: u64) -> PackedRead<'_> {
        retry_until_some(|| self.try_read_packed(tag))
    }

    /// Finds a slot for a key that is not in its page. None if the page has to [make room](Self::make_room) first.
    pub(super) fn claim_slot(
        &self,
        page: &LockedPage<'_>,
        tag: u64,
        now: Timestamp,
        reserved: &[PageSlot],
    ) -> Option<PageSlot> {
        page.find_slot_for(tag, self.idle_before(now), reserved)
    }

    /// Makes room in the full page of `tag`. No page may be locked.
    #[cold]
    pub(super) fn make_room(&self, tag: u64, now: Timestamp) {
        let evicted = self.table.make_room(tag, self.idle_before(now), &self.budget);
        if evicted > 0 {
            self.live_evictions.fetch_add(evicted, Ordering::Relaxed);
        }
    }

    /// Puts a key into the slot that was found for it.
    pub(super) fn put_packed(
        &self,
        page: &mut LockedPage<'_>,
        slot: PageSlot,
        key: OwnedTag,
        state: PackedState,
        now: Timestamp,
    ) {
        let OwnedTag { tag, owner } = key;
        if page.would_evict_live(slot, tag, self.idle_before(now)) {
            self.live_evictions.fetch_add(1, Ordering::Relaxed);
        }
        page.put(slot, owner.stored_tag(tag), state);
    }

    /// As [`try_decide`](Self::try_decide), but locks the page first: where threads contend for a page, a state that is
    /// read before the lock has usually changed.
    #[cold]
    #[inline(never)]
    fn decide_locked<A: LimitAlgorithm<State = PackedState>>(
        &self,
        counter: &Counter,
        tag: u64,
        algorithm: &A,
        timed_cost: TimedCost,
        reason: RetryReason,
    ) -> (PackedState, OutcomeKind) {
        if reason == RetryReason::Contended {
            spin_or_yield(&mut 0);
        }
        loop {
            let number = self.table.page_number(tag);
            let page = self.table.page(number).lock();
            if self.table.page_number(tag) != number {
                continue;
            }
            let slot = page.find(tag);
            let mut state = slot.map_or(PackedState::NEVER_SEEN, |slot| page.state(slot));
            let kind = algorithm.outcome_kind(&state, timed_cost);
            if !algorithm.is_charged(timed_cost, ChargeDecision::of_one(kind)) {
                return (state, kind);
            }
            algorithm.charge(&mut state, timed_cost);
            let new_key = || NewKey { counter, tag, now: timed_cost.now };
            if self.try_write_packed(page, slot, state, new_key).is_some() {
                return (state, kind);
            }
            self.make_room(tag, timed_cost.now);
        }
    }

    #[inline(always)]
    fn try_decide<A: LimitAlgorithm<State = PackedState>>(
        &self,
        counter: &Counter,
        tag: u64,
        algorithm: &A,
        timed_cost: TimedCost,
    ) -> Result<(PackedState, OutcomeKind), RetryReason> {
        let read = self.try_read_packed(tag).ok_or(RetryReason::Contended)?;
        let mut state = read.state;
        let kind = algorithm.outcome_kind(&state, timed_cost);
        if algorithm.is_charged(timed_cost, ChargeDecision::of_one(kind)) {
            // The lock waits for all work before it, so do as little as possible there.
            let page = read.page.lock_unchanged(read.version).ok_or(RetryReason::Contended)?;
            algorithm.charge(&mut state, timed_cost);
            // A closure: only a new key needs it.
            let new_key = || NewKey { counter, tag, now: timed_cost.now };
            self.try_write_packed(page, read.slot, state, new_key).ok_or(RetryReason::PageFull)?;
        }
        Ok((state, kind))
    }

    /// Reads a packed state. None if another thread is writing its page.
    #[inline(always)]
    fn try_read_packed(&self, tag: u64) -> Option<PackedRead<'_>> {
        let number = self.table.page_number(tag);
        let page = self.table.page(number);
        let version = page.version()?;
        if self.table.page_number(tag) != number {
            return None;
        }
        let slot = page.find(tag);
        let state = slot.map_or(PackedState::NEVER_SEEN, |slot| page.state(slot));
        page.is_unchanged(version).then_some(PackedRead { page, version, slot, state })
    }

    /// Writes a state to its slot, or to a new one. None if there is no room yet.
    #[inline(always)]
    fn try_write_packed<'k>(
        &self,
        mut page: LockedPage<'_>,
        slot: Option<PageSlot>,
        state: PackedState,
        new_key: impl FnOnce() -> NewKey<'k>,
    ) -> Option<()> {
        match slot {
            Some(slot) => page.set_state(slot, state),
            None => self.try_insert_packed(page, state, &new_key())?,
        }
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn try_insert_packed(
        &self,
        mut page: LockedPage<'_>,
        state: PackedState,
        &NewKey { counter, tag, now }: &NewKey<'_>,
    ) -> Option<()> {
        let slot = self.claim_slot(&page, tag, now, &[])?;
        self.put_packed(&mut page, slot, self.owned_tag(counter, tag), state, now);
        Some(())
    }
}

/// A key that is not in the store.
struct NewKey<'a> {
    counter: &'a Counter,
    tag: u64,
    now: Timestamp,
}

/// Retries until no other thread interferes.
fn retry_until_some<R>(attempt: impl Fn() -> Option<R>) -> R {
    let mut step = 0;
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        spin_or_yield(&mut step);
    }
}
