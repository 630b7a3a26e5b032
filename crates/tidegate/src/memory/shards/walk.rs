//! A walk over all states of a kind while decisions go on.
//!
//! A shard is locked for one portion at a time, and the shards take turns, so whoever waits for one waits for a
//! portion and not for the walk. Within a shard the walk goes by position, from the last to the first. No state
//! that is there all along is missed: one that was not copied yet stays below the position that the walk has
//! come down to. A new one is added behind all others and moves none; when one is removed, the last one takes
//! its place, which is a lower one. So a state that was copied may come up again, and what is seen later is
//! newer; one that was added during the walk may be seen or not.
//!
//! A state that is larger than a portion is copied in several: a ledger as [`LedgerCopy`] has it, the leases of a key
//! as [`leases`] has it.

mod leases;

use std::collections::VecDeque;

use tidegate_core::{CopyProgress, Ledger, LedgerCopy, LedgerEntry, Timestamp};

use super::{Held, Kept, SHARDS, Shards};

/// Lines that are copied while a shard is locked: 64 KiB of ledgers, 96 of leases.
const PORTION_LINES_MAX: usize = 4096;
/// What it takes to look at a state, counted as that many lines copied: two lines of memory to wait for.
const LOOK_LINES: usize = 16;
/// A large ledger that changed under each of so many copies is copied at once. To change so much it has to lose
/// or take back a portion's worth within microseconds.
const STARTS_MAX: u32 = 8;

/// A state as lines of numbers, all of the same length.
pub(in crate::memory) trait Lined: Kept {
    type Line: Copy + Default + AsRef<[u64]> + AsMut<[u64]>;

    fn line_count(&self) -> usize;

    fn lines(&self) -> impl Iterator<Item = Self::Line>;

    /// Copies a state that is larger than a portion; none if it is gone meanwhile.
    fn copy_large(shards: &Shards<Self>, shard: usize, tag: u64) -> Option<Large<Self::Line>>;
}

/// A copy of a state.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Copied<'a, L> {
    pub tag: u64,
    pub idle_from: Timestamp,
    pub lines: &'a [L],
}

/// A copy of a large one.
pub(in crate::memory) struct Large<L> {
    idle_from: Timestamp,
    lines: Vec<L>,
}

/// Where the walk is in a shard.
struct Place {
    shard: usize,
    /// Positions below this one are still to be visited.
    unvisited: usize,
}

/// What was copied while a shard was locked.
struct Portion<L> {
    states: Vec<Head>,
    /// Of all of them, one after the other.
    lines: Vec<L>,
    /// One that is too large for a portion.
    large: Option<u64>,
}

struct Head {
    tag: u64,
    idle_from: Timestamp,
    lines: usize,
}

impl<S: Lined> Shards<S> {
    /// Hands a copy of every state that is not idle at `now` to `visit`, until that fails.
    pub(in crate::memory) fn walk<E>(
        &self,
        now: Timestamp,
        mut visit: impl FnMut(Copied<'_, S::Line>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut places: VecDeque<Place> =
            (0..SHARDS).map(|shard| Place { shard, unvisited: usize::MAX }).collect();
        let mut portion = Portion { states: Vec::new(), lines: Vec::new(), large: None };
        while let Some(mut place) = places.pop_front() {
            self.copy_portion(&mut place, now, &mut portion);
            portion.visit(&mut visit)?;
            if let Some(tag) = portion.large
                && let Some(Large { idle_from, lines }) = S::copy_large(self, place.shard, tag)
            {
                visit(Copied { tag, idle_from, lines: &lines })?;
            }
            if place.unvisited > 0 {
                places.push_back(place);
            }
        }
        Ok(())
    }

    /// Locks the shard once.
    fn copy_portion(&self, place: &mut Place, now: Timestamp, portion: &mut Portion<S::Line>) {
        portion.clear();
        let shard = self.lock(place.shard);
        let mut unvisited = place.unvisited.min(shard.held.len());
        let mut lines_left = PORTION_LINES_MAX;
        while let Some(at) = unvisited.checked_sub(1)
            && let Some((tag, held)) = shard.held.get_index(at)
        {
            let is_idle = held.idle_from <= now;
            let lines = if is_idle { 0 } else { held.state.line_count() };
            let is_large = lines > PORTION_LINES_MAX;
            if !is_large && lines > lines_left || lines_left == 0 {
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
            lines_left = lines_left.saturating_sub(lines.max(LOOK_LINES));
        }
        place.unvisited = unvisited;
    }
}

impl Lined for Ledger {
    type Line = [u64; 2];

    fn line_count(&self) -> usize {
        self.len()
    }

    fn lines(&self) -> impl Iterator<Item = [u64; 2]> {
        self.entries().map(line)
    }

    /// Locks the shard once for each portion.
    fn copy_large(shards: &Shards<Self>, shard: usize, tag: u64) -> Option<Large<[u64; 2]>> {
        let mut copy = LedgerCopy::default();
        loop {
            let patient = copy.times_started_over() < STARTS_MAX;
            let entries_max = if patient { PORTION_LINES_MAX } else { usize::MAX };
            let locked = shards.lock(shard);
            let Held { state, idle_from } = locked.held.get(&tag)?;
            let (progress, idle_from) = (copy.go_on(state, entries_max), *idle_from);
            drop(locked);
            if progress == CopyProgress::Whole {
                return Some(Large { idle_from, lines: copy.into_entries().into_iter().map(line).collect() });
            }
            // The lock is not fair: whoever waits for it gets it only if it is left alone for a moment.
            std::thread::yield_now();
        }
    }
}

fn line(LedgerEntry { stamp, units }: LedgerEntry) -> [u64; 2] {
    [stamp, units]
}

impl<L: Copy> Portion<L> {
    fn clear(&mut self) {
        self.states.clear();
        self.lines.clear();
        self.large = None;
    }

    fn add<S: Lined<Line = L>>(&mut self, tag: u64, held: &Held<S>) {
        self.lines.extend(held.state.lines());
        self.states.push(Head { tag, idle_from: held.idle_from, lines: held.state.line_count() });
    }

    fn visit<E>(&self, visit: &mut impl FnMut(Copied<'_, L>) -> Result<(), E>) -> Result<(), E> {
        let mut rest = self.lines.as_slice();
        for Head { tag, idle_from, lines: count } in &self.states {
            let (lines, after) = rest.split_at(*count);
            rest = after;
            visit(Copied { tag: *tag, idle_from: *idle_from, lines })?;
        }
        Ok(())
    }
}
