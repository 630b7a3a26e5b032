//! One charge on one packed state: the short way that nearly every decision takes.
//!
//! Read under the page's version, decide, and only if there is something to charge lock the page, which at the
//! same time proves that what was read still holds. A denial ends before the lock and has written nothing.

use tidegate_core::algorithm::Counting;
use tidegate_core::{Ask, Decision, Packed, Ruling, Timestamp, Verdict};

use super::MemoryStore;
use super::page::{Locked, Page, Room, Slot, Version};
use super::table::Pressure;
use crate::sync::{Ordering, pause};

/// A state as it was read, and where from.
pub(super) struct Seen<'a> {
    page: Page<'a>,
    version: Version,
    pub slot: Option<Slot>,
    pub state: Packed,
}

/// What kept a decision from being settled at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    OtherThread,
    NoRoom,
}

impl MemoryStore {
    #[inline]
    pub(super) fn decide_packed<A: Counting<State = Packed>>(
        &self,
        tag: u64,
        algorithm: &A,
        ask: Ask,
    ) -> Decision {
        // Straight through, as nearly always: a loop around it would keep its own things in registers.
        let (state, verdict) = match self.try_settle(tag, algorithm, ask) {
            Ok(settled) => settled,
            Err(obstacle) => self.settle_locked(tag, algorithm, ask, obstacle),
        };
        // The ruling is made here and not handed on, so that nothing has to look at what is known of it.
        Decision::of_one(algorithm.report(&state, ask, Ruling::alone(verdict)))
    }

    /// Changes the state of a key that was seen, atomically. One that was not has nothing to change.
    pub(super) fn update_packed(&self, tag: u64, change: impl Fn(&mut Packed)) {
        keep_trying(|| {
            let seen = self.try_read(tag)?;
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
    pub(super) fn read(&self, tag: u64) -> Seen<'_> {
        keep_trying(|| self.try_read(tag))
    }

    /// A slot for a key that its page does not hold; none if the page is to be relieved first.
    pub(super) fn claim(&self, page: &Locked<'_>, wanted: &Wanted<'_>) -> Option<Slot> {
        let idle_before = self.idle_before(wanted.now);
        match page.room_for(wanted.tag, idle_before, wanted.taken) {
            Room::Slot(slot) => Some(slot),
            Room::Full { nearest_reset } => {
                // Known without trying: nothing here is idle, and there is no memory for another page.
                let hopeless = !page.may_hold_idle(idle_before) && self.table.is_at_max(&self.budget);
                // A page that is not full and yet has no room has given it to other charges of the plan.
                let crowded = !page.is_full();
                let gives_up = wanted.pressure == Pressure::Exhausted || hopeless || crowded;
                gives_up.then_some(nearest_reset)
            }
        }
    }

    /// Puts a key into a slot that was claimed for it.
    pub(super) fn put(&self, page: &mut Locked<'_>, slot: Slot, tag: u64, state: Packed, now: Timestamp) {
        if page.displaces_live(slot, tag, self.idle_before(now)) {
            self.live_evictions.fetch_add(1, Ordering::Relaxed);
        }
        page.put(slot, tag, state);
    }

    /// The same as [`try_settle`](Self::try_settle) under the page's lock from the start: where threads meet on a
    /// page, who reads first and locks later has mostly read in vain.
    #[cold]
    #[inline(never)]
    fn settle_locked<A: Counting<State = Packed>>(
        &self,
        tag: u64,
        algorithm: &A,
        ask: Ask,
        obstacle: Obstacle,
    ) -> (Packed, Verdict) {
        if obstacle == Obstacle::OtherThread {
            pause(&mut 0);
        }
        let mut pressure = Pressure::Bearable;
        loop {
            let number = self.table.page_of(tag);
            let page = self.table.page(number).lock();
            if self.table.page_of(tag) != number {
                continue;
            }
            let slot = page.find(tag);
            let mut state = slot.map_or(Packed::NEVER_SEEN, |slot| page.state(slot));
            let verdict = algorithm.weigh(&state, ask);
            if !algorithm.is_charged(ask, verdict) {
                return (state, verdict);
            }
            algorithm.charge(&mut state, ask);
            let wanted = || Wanted { tag, now: ask.now, taken: &[], pressure };
            if self.try_write(page, slot, state, wanted).is_some() {
                return (state, verdict);
            }
            pressure = self.table.relieve(tag, self.idle_before(ask.now), &self.budget);
        }
    }

    #[inline(always)]
    fn try_settle<A: Counting<State = Packed>>(
        &self,
        tag: u64,
        algorithm: &A,
        ask: Ask,
    ) -> Result<(Packed, Verdict), Obstacle> {
        let seen = self.try_read(tag).ok_or(Obstacle::OtherThread)?;
        let mut state = seen.state;
        let verdict = algorithm.weigh(&state, ask);
        if algorithm.is_charged(ask, verdict) {
            // The lock waits for all that comes before it, so nothing does that need not.
            let page = seen.page.lock_unchanged(seen.version).ok_or(Obstacle::OtherThread)?;
            algorithm.charge(&mut state, ask);
            // What a new key needs is put together only for one.
            let wanted = || Wanted { tag, now: ask.now, taken: &[], pressure: Pressure::Bearable };
            self.try_write(page, seen.slot, state, wanted).ok_or(Obstacle::NoRoom)?;
        }
        Ok((state, verdict))
    }

    /// Reads a packed state; none if another thread is writing its page.
    #[inline(always)]
    fn try_read(&self, tag: u64) -> Option<Seen<'_>> {
        let number = self.table.page_of(tag);
        let page = self.table.page(number);
        let version = page.version()?;
        if self.table.page_of(tag) != number {
            return None;
        }
        let slot = page.find(tag);
        let state = slot.map_or(Packed::NEVER_SEEN, |slot| page.state(slot));
        page.is_still(version).then_some(Seen { page, version, slot, state })
    }

    /// Writes a state to its slot, or to a new one; none if there is no room yet.
    #[inline(always)]
    fn try_write<'w>(
        &self,
        mut page: Locked<'_>,
        slot: Option<Slot>,
        state: Packed,
        wanted: impl FnOnce() -> Wanted<'w>,
    ) -> Option<()> {
        match slot {
            Some(slot) => page.set_state(slot, state),
            None => self.try_write_new(page, state, &wanted())?,
        }
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn try_write_new(&self, mut page: Locked<'_>, state: Packed, wanted: &Wanted<'_>) -> Option<()> {
        let slot = self.claim(&page, wanted)?;
        self.put(&mut page, slot, wanted.tag, state, wanted.now);
        Some(())
    }
}

/// A slot that is wanted.
pub(super) struct Wanted<'a> {
    pub tag: u64,
    pub now: Timestamp,
    /// Slots of the same page that other charges of the plan have.
    pub taken: &'a [Slot],
    /// Whether the page could be relieved.
    pub pressure: Pressure,
}

/// Tries until no other thread comes in the way.
fn keep_trying<R>(attempt: impl Fn() -> Option<R>) -> R {
    let mut step = 0;
    loop {
        if let Some(answer) = attempt() {
            return answer;
        }
        pause(&mut step);
    }
}
