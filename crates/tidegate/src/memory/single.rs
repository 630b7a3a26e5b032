//! One charge on one packed state: the short way that nearly every decision takes.
//!
//! Read under the page's version, decide, and only if there is something to charge lock the page, which at the
//! same time proves that what was read still holds. A denial ends before the lock and has written nothing.

use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{TimedCost, Decision, PackedState, ChargeDecision, Timestamp, OutcomeKind};

use super::MemoryStore;
use super::page::{LockedPage, Page, SlotSearch, PageSlot, Version};
use super::table::PagePressure;
use crate::sync::{Ordering, pause};

/// A state as it was read, and where from.
pub(super) struct PackedRead<'a> {
    page: Page<'a>,
    version: Version,
    pub slot: Option<PageSlot>,
    pub state: PackedState,
}

/// What kept a decision from being settled at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RetryReason {
    Contended,
    PageFull,
}

impl MemoryStore {
    #[inline]
    pub(super) fn decide_packed<A: LimitAlgorithm<State = PackedState>>(
        &self,
        tag: u64,
        algorithm: &A,
        ask: TimedCost,
    ) -> Decision {
        // Straight through, as nearly always: a loop around it would keep its own things in registers.
        let (state, verdict) = match self.try_decide(tag, algorithm, ask) {
            Ok(settled) => settled,
            Err(obstacle) => self.decide_locked(tag, algorithm, ask, obstacle),
        };
        // The ruling is made here and not handed on, so that nothing has to look at what is known of it.
        Decision::of_one(algorithm.outcome(&state, ask, ChargeDecision::of_one(verdict)))
    }

    /// Changes the state of a key that was seen, atomically. One that was not has nothing to change.
    pub(super) fn update_packed(&self, tag: u64, change: impl Fn(&mut PackedState)) {
        retry_until_some(|| {
            let seen = self.try_read_packed(tag)?;
            let mut state = seen.state;
            change(&mut state);
            if let Some(slot) = seen.slot
                && state != seen.state
            {
                seen.page.lock_unchanged(seen.version)?.set_state(slot, state);
            }
            Some(())
        });
    }

    /// Reads a packed state, writing nothing anywhere.
    pub(super) fn read_packed(&self, tag: u64) -> PackedRead<'_> {
        retry_until_some(|| self.try_read_packed(tag))
    }

    /// A slot for a key that its page does not hold; none if the page is to be relieved first.
    pub(super) fn claim_slot(&self, page: &LockedPage<'_>, wanted: &SlotRequest<'_>) -> Option<PageSlot> {
        let idle_before = self.idle_before(wanted.now);
        match page.find_slot_for(wanted.tag, idle_before, wanted.reserved) {
            SlotSearch::Usable(slot) => Some(slot),
            SlotSearch::Full { nearest_reset } => {
                // Known without trying: nothing here is idle, and there is no memory for another page.
                let hopeless = !page.may_hold_idle(idle_before) && self.table.is_at_capacity(&self.budget);
                // A page that is not full and yet has no room has given it to other charges of the plan.
                let crowded = !page.is_full();
                let gives_up = wanted.pressure == PagePressure::Exhausted || hopeless || crowded;
                gives_up.then_some(nearest_reset)
            }
        }
    }

    /// Puts a key into a slot that was claimed for it.
    pub(super) fn put_packed(&self, page: &mut LockedPage<'_>, slot: PageSlot, tag: u64, state: PackedState, now: Timestamp) {
        if page.would_evict_live(slot, tag, self.idle_before(now)) {
            self.live_evictions.fetch_add(1, Ordering::Relaxed);
        }
        page.put(slot, tag, state);
    }

    /// The same as [`try_settle`](Self::try_settle) under the page's lock from the start: where threads meet on a
    /// page, who reads first and locks later has mostly read in vain.
    #[cold]
    #[inline(never)]
    fn decide_locked<A: LimitAlgorithm<State = PackedState>>(
        &self,
        tag: u64,
        algorithm: &A,
        ask: TimedCost,
        obstacle: RetryReason,
    ) -> (PackedState, OutcomeKind) {
        if obstacle == RetryReason::Contended {
            pause(&mut 0);
        }
        let mut pressure = PagePressure::Normal;
        loop {
            let number = self.table.page_of(tag);
            let page = self.table.page(number).lock();
            if self.table.page_of(tag) != number {
                continue;
            }
            let slot = page.find(tag);
            let mut state = slot.map_or(PackedState::NEVER_SEEN, |slot| page.state(slot));
            let verdict = algorithm.outcome_kind(&state, ask);
            if !algorithm.is_charged(ask, verdict) {
                return (state, verdict);
            }
            algorithm.charge(&mut state, ask);
            let wanted = || SlotRequest { tag, now: ask.now, reserved: &[], pressure };
            if self.try_write_packed(page, slot, state, wanted).is_some() {
                return (state, verdict);
            }
            pressure = self.table.make_room(tag, self.idle_before(ask.now), &self.budget);
        }
    }

    #[inline(always)]
    fn try_decide<A: LimitAlgorithm<State = PackedState>>(
        &self,
        tag: u64,
        algorithm: &A,
        ask: TimedCost,
    ) -> Result<(PackedState, OutcomeKind), RetryReason> {
        let seen = self.try_read_packed(tag).ok_or(RetryReason::Contended)?;
        let mut state = seen.state;
        let verdict = algorithm.outcome_kind(&state, ask);
        if algorithm.is_charged(ask, verdict) {
            // The lock waits for all that comes before it, so nothing does that need not.
            let page = seen.page.lock_unchanged(seen.version).ok_or(RetryReason::Contended)?;
            algorithm.charge(&mut state, ask);
            // What a new key needs is put together only for one.
            let wanted = || SlotRequest { tag, now: ask.now, reserved: &[], pressure: PagePressure::Normal };
            self.try_write_packed(page, seen.slot, state, wanted).ok_or(RetryReason::PageFull)?;
        }
        Ok((state, verdict))
    }

    /// Reads a packed state; none if another thread is writing its page.
    #[inline(always)]
    fn try_read_packed(&self, tag: u64) -> Option<PackedRead<'_>> {
        let number = self.table.page_of(tag);
        let page = self.table.page(number);
        let version = page.version()?;
        if self.table.page_of(tag) != number {
            return None;
        }
        let slot = page.find(tag);
        let state = slot.map_or(PackedState::NEVER_SEEN, |slot| page.state(slot));
        page.is_unchanged(version).then_some(PackedRead { page, version, slot, state })
    }

    /// Writes a state to its slot, or to a new one; none if there is no room yet.
    #[inline(always)]
    fn try_write_packed<'w>(
        &self,
        mut page: LockedPage<'_>,
        slot: Option<PageSlot>,
        state: PackedState,
        wanted: impl FnOnce() -> SlotRequest<'w>,
    ) -> Option<()> {
        match slot {
            Some(slot) => page.set_state(slot, state),
            None => self.try_insert_packed(page, state, &wanted())?,
        }
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn try_insert_packed(&self, mut page: LockedPage<'_>, state: PackedState, wanted: &SlotRequest<'_>) -> Option<()> {
        let slot = self.claim_slot(&page, wanted)?;
        self.put_packed(&mut page, slot, wanted.tag, state, wanted.now);
        Some(())
    }
}

/// A slot that is wanted.
pub(super) struct SlotRequest<'a> {
    pub tag: u64,
    pub now: Timestamp,
    /// Slots of the same page that other charges of the plan have.
    pub reserved: &'a [PageSlot],
    /// Whether the page could be relieved.
    pub pressure: PagePressure,
}

/// Tries until no other thread comes in the way.
fn retry_until_some<R>(attempt: impl Fn() -> Option<R>) -> R {
    let mut step = 0;
    loop {
        if let Some(answer) = attempt() {
            return answer;
        }
        pause(&mut step);
    }
}
