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

use tidegate_core::{CopyProgress, UsageLog, UsageLogCopy, UsageEntry, Timestamp};

use super::{StoredState, ShardedState, SHARDS, Shards};

/// Lines that are copied while a shard is locked: 64 KiB of ledgers, 96 of leases.
const PORTION_ROWS_MAX: usize = 4096;
/// What it takes to look at a state, counted as that many lines copied: two lines of memory to wait for.
const VISIT_COST_ROWS: usize = 16;
/// A large ledger that changed under each of so many copies is copied at once. To change so much it has to lose
/// or take back a portion's worth within microseconds.
const COPY_RESTARTS_MAX: u32 = 8;

/// A state as lines of numbers, all of the same length.
pub(in crate::memory) trait AsRows: ShardedState {
    type Row: Copy + Default + AsRef<[u64]> + AsMut<[u64]>;

    fn row_count(&self) -> usize;

    fn rows(&self) -> impl Iterator<Item = Self::Row>;

    /// Copies a state that is larger than a portion; none if it is gone meanwhile.
    fn copy_large(shards: &Shards<Self>, shard: usize, tag: u64) -> Option<LargeStateCopy<Self::Row>>;
}

/// A copy of a state.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct StateCopy<'a, L> {
    pub tag: u64,
    pub idle_from: Timestamp,
    pub rows: &'a [L],
}

/// A copy of a large one.
pub(in crate::memory) struct LargeStateCopy<L> {
    idle_from: Timestamp,
    rows: Vec<L>,
}

/// Where the walk is in a shard.
struct WalkPosition {
    shard: usize,
    /// Positions below this one are still to be visited.
    unvisited: usize,
}

/// What was copied while a shard was locked.
struct Portion<L> {
    states: Vec<StateHeader>,
    /// Of all of them, one after the other.
    rows: Vec<L>,
    /// One that is too large for a portion.
    large_tag: Option<u64>,
}

struct StateHeader {
    tag: u64,
    idle_from: Timestamp,
    row_count: usize,
}

impl<S: AsRows> Shards<S> {
    /// Hands a copy of every state that is not idle at `now` to `visit`, until that fails.
    pub(in crate::memory) fn walk<E>(
        &self,
        now: Timestamp,
        mut visit: impl FnMut(StateCopy<'_, S::Row>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut places: VecDeque<WalkPosition> =
            (0..SHARDS).map(|shard| WalkPosition { shard, unvisited: usize::MAX }).collect();
        let mut portion = Portion { states: Vec::new(), rows: Vec::new(), large_tag: None };
        while let Some(mut place) = places.pop_front() {
            self.copy_portion(&mut place, now, &mut portion);
            portion.visit(&mut visit)?;
            if let Some(tag) = portion.large_tag
                && let Some(LargeStateCopy { idle_from, rows: lines }) = S::copy_large(self, place.shard, tag)
            {
                visit(StateCopy { tag, idle_from, rows: &lines })?;
            }
            if place.unvisited > 0 {
                places.push_back(place);
            }
        }
        Ok(())
    }

    /// Locks the shard once.
    fn copy_portion(&self, place: &mut WalkPosition, now: Timestamp, portion: &mut Portion<S::Row>) {
        portion.clear();
        let shard = self.lock(place.shard);
        let mut unvisited = place.unvisited.min(shard.states.len());
        let mut lines_left = PORTION_ROWS_MAX;
        while let Some(at) = unvisited.checked_sub(1)
            && let Some((tag, held)) = shard.states.get_index(at)
        {
            let is_idle = held.idle_from <= now;
            let lines = if is_idle { 0 } else { held.state.row_count() };
            let is_large = lines > PORTION_ROWS_MAX;
            if !is_large && lines > lines_left || lines_left == 0 {
                break;
            }
            unvisited = at;
            if is_large {
                portion.large_tag = Some(*tag);
                break;
            }
            if !is_idle {
                portion.add(*tag, held);
            }
            lines_left = lines_left.saturating_sub(lines.max(VISIT_COST_ROWS));
        }
        place.unvisited = unvisited;
    }
}

impl AsRows for UsageLog {
    type Row = [u64; 2];

    fn row_count(&self) -> usize {
        self.len()
    }

    fn rows(&self) -> impl Iterator<Item = [u64; 2]> {
        self.entries().map(ledger_row)
    }

    /// Locks the shard once for each portion.
    fn copy_large(shards: &Shards<Self>, shard: usize, tag: u64) -> Option<LargeStateCopy<[u64; 2]>> {
        let mut copy = UsageLogCopy::default();
        loop {
            let patient = copy.restarts() < COPY_RESTARTS_MAX;
            let entries_max = if patient { PORTION_ROWS_MAX } else { usize::MAX };
            let locked = shards.lock(shard);
            let StoredState { state, idle_from } = locked.states.get(&tag)?;
            let (progress, idle_from) = (copy.copy_next(state, entries_max), *idle_from);
            drop(locked);
            if progress == CopyProgress::Complete {
                return Some(LargeStateCopy { idle_from, rows: copy.into_entries().into_iter().map(ledger_row).collect() });
            }
            // The lock is not fair: whoever waits for it gets it only if it is left alone for a moment.
            std::thread::yield_now();
        }
    }
}

fn ledger_row(UsageEntry { stamp, units }: UsageEntry) -> [u64; 2] {
    [stamp, units]
}

impl<L: Copy> Portion<L> {
    fn clear(&mut self) {
        self.states.clear();
        self.rows.clear();
        self.large_tag = None;
    }

    fn add<S: AsRows<Row = L>>(&mut self, tag: u64, held: &StoredState<S>) {
        self.rows.extend(held.state.rows());
        self.states.push(StateHeader { tag, idle_from: held.idle_from, row_count: held.state.row_count() });
    }

    fn visit<E>(&self, visit: &mut impl FnMut(StateCopy<'_, L>) -> Result<(), E>) -> Result<(), E> {
        let mut rest = self.rows.as_slice();
        for StateHeader { tag, idle_from, row_count: count } in &self.states {
            let (lines, after) = rest.split_at(*count);
            rest = after;
            visit(StateCopy { tag: *tag, idle_from: *idle_from, rows: lines })?;
        }
        Ok(())
    }
}
