//! A walk over all ledgers while decisions go on.
//!
//! A shard is locked for one portion at a time, and the shards take turns, so whoever waits for one waits for a
//! portion and not for the walk. Within a shard the walk goes by position, from the last to the first. No ledger
//! that is there all along is missed: one that was not copied yet stays below the position that the walk has
//! come down to. A new one is added behind all others and moves none; when one is removed, the last one takes
//! its place, which is a lower one. So a ledger that was copied may come up again, and what is seen later is
//! newer; one that was added during the walk may be seen or not.
//!
//! A ledger that is larger than a portion is copied in several, as [`LedgerCopy`] has it.

use std::collections::VecDeque;

use tidegate_core::{CopyProgress, LedgerCopy, LedgerEntry, Timestamp};

use super::{Held, Ledgers, SHARDS};

/// Entries that are copied while a shard is locked: 64 KiB.
const PORTION_ENTRIES_MAX: usize = 4096;
/// What it takes to look at a ledger, counted as that many entries copied: two lines of memory to wait for.
const LOOK_ENTRIES: usize = 16;
/// A large ledger that changed under each of so many copies is copied at once. To change so much it has to lose
/// or take back a portion's worth within microseconds.
const STARTS_MAX: u32 = 8;

/// A copy of a ledger.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Copied<'a> {
    pub tag: u64,
    pub idle_from: Timestamp,
    pub entries: &'a [LedgerEntry],
}

/// Where the walk is in a shard.
struct Place {
    shard: usize,
    /// Positions below this one are still to be visited.
    unvisited: usize,
}

/// What was copied while a shard was locked.
#[derive(Default)]
struct Portion {
    ledgers: Vec<Head>,
    /// Of all of them, one after the other.
    entries: Vec<LedgerEntry>,
    /// One that is too large for a portion.
    large: Option<u64>,
}

struct Head {
    tag: u64,
    idle_from: Timestamp,
    entries: usize,
}

impl Ledgers {
    /// Hands a copy of every ledger that is not idle at `now` to `visit`, until that fails.
    pub(in crate::memory) fn walk<E>(
        &self,
        now: Timestamp,
        mut visit: impl FnMut(Copied<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut places: VecDeque<Place> =
            (0..SHARDS).map(|shard| Place { shard, unvisited: usize::MAX }).collect();
        let mut portion = Portion::default();
        while let Some(mut place) = places.pop_front() {
            self.copy_portion(&mut place, now, &mut portion);
            portion.visit(&mut visit)?;
            if let Some(tag) = portion.large
                && let Some((idle_from, entries)) = self.copy_large(place.shard, tag)
            {
                visit(Copied { tag, idle_from, entries: &entries })?;
            }
            if place.unvisited > 0 {
                places.push_back(place);
            }
        }
        Ok(())
    }

    /// Locks the shard once.
    fn copy_portion(&self, place: &mut Place, now: Timestamp, portion: &mut Portion) {
        portion.clear();
        let shard = self.lock(place.shard);
        let mut unvisited = place.unvisited.min(shard.held.len());
        let mut entries_left = PORTION_ENTRIES_MAX;
        while let Some(at) = unvisited.checked_sub(1)
            && let Some((tag, held)) = shard.held.get_index(at)
        {
            let is_idle = held.idle_from <= now;
            let entries = if is_idle { 0 } else { held.ledger.len() };
            let is_large = entries > PORTION_ENTRIES_MAX;
            if !is_large && entries > entries_left || entries_left == 0 {
                break;
            }
            unvisited = at;
            if is_large {
                portion.large = Some(*tag);
                break;
            }
            if !is_idle {
                portion.add(*tag, held);
            }
            entries_left = entries_left.saturating_sub(entries.max(LOOK_ENTRIES));
        }
        place.unvisited = unvisited;
    }

    /// Locks the shard once for each portion; none if the ledger is gone meanwhile.
    fn copy_large(&self, shard: usize, tag: u64) -> Option<(Timestamp, Vec<LedgerEntry>)> {
        let mut copy = LedgerCopy::default();
        loop {
            let patient = copy.times_started_over() < STARTS_MAX;
            let entries_max = if patient { PORTION_ENTRIES_MAX } else { usize::MAX };
            let locked = self.lock(shard);
            let Held { ledger, idle_from } = locked.held.get(&tag)?;
            let (progress, idle_from) = (copy.go_on(ledger, entries_max), *idle_from);
            drop(locked);
            if progress == CopyProgress::Whole {
                return Some((idle_from, copy.into_entries()));
            }
            // The lock is not fair: whoever waits for it gets it only if it is left alone for a moment.
            std::thread::yield_now();
        }
    }
}

impl Portion {
    fn clear(&mut self) {
        self.ledgers.clear();
        self.entries.clear();
        self.large = None;
    }

    fn add(&mut self, tag: u64, held: &Held) {
        self.entries.extend(held.ledger.entries());
        self.ledgers.push(Head { tag, idle_from: held.idle_from, entries: held.ledger.len() });
    }

    fn visit<E>(&self, visit: &mut impl FnMut(Copied<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut rest = self.entries.as_slice();
        for Head { tag, idle_from, entries: count } in &self.ledgers {
            let (entries, after) = rest.split_at(*count);
            rest = after;
            visit(Copied { tag: *tag, idle_from: *idle_from, entries })?;
        }
        Ok(())
    }
}
