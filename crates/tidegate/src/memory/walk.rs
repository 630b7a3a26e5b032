//! A walk over all states of a kind while decisions continue.
//!
//! A shard is locked for one portion at a time, and the walk alternates between shards, so a thread that waits for a
//! shard waits for one portion. Within a shard the walk goes by position, from the last to the first. No state that
//! exists throughout the walk is missed: a state that was not copied yet stays below the position that the walk has
//! reached. A new state is added at the end and moves none. When a state is removed, the last one takes its position,
//! which is lower. So a copied state may be seen again, and the later one is newer. A state that was added during the
//! walk may or may not be seen.
//!
//! A state that is larger than a portion is copied in several: a usage log with [`UsageLogCopy`], the leases of a key
//! as described in `walk_leases.rs`.

use std::collections::VecDeque;

use tidegate_core::{CopyProgress, Timestamp, UsageEntry, UsageLog, UsageLogCopy};

use super::shards::{SHARDS, ShardedState, Shards, StoredState};

/// Rows that are copied while a shard is locked: 64 KiB of usage logs, 96 KiB of leases.
pub(super) const PORTION_ROWS_MAX: usize = 4096;
/// The cost of visiting a state, as a number of copied rows: two cache lines to wait for.
const VISIT_COST_ROWS: usize = 16;
/// A large usage log that changed during this many copies is copied under one lock. For that it has to drop or refund a
/// portion's worth of entries within microseconds.
const COPY_RESTARTS_MAX: u32 = 8;

/// A state as rows of numbers, all of the same length.
pub(super) trait AsRows: ShardedState {
    type Row: Copy + Default + AsRef<[u64]> + AsMut<[u64]>;

    fn row_count(&self) -> usize;

    fn rows(&self) -> impl Iterator<Item = Self::Row>;

    /// Copies a state that is larger than a portion. None if it was removed meanwhile.
    fn copy_large(shards: &Shards<Self>, shard: usize, tag: u64) -> Option<LargeStateCopy<Self::Row>>;
}

/// A copy of a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateCopy<'a, L> {
    pub tag: u64,
    pub idle_from: Timestamp,
    pub rows: &'a [L],
}

/// A copy of a state that is larger than a portion.
pub(super) struct LargeStateCopy<L> {
    pub(super) idle_from: Timestamp,
    pub(super) rows: Vec<L>,
}

/// Where the walk is in a shard.
struct WalkPosition {
    shard: usize,
    /// Positions below this one are not visited yet.
    unvisited: usize,
}

/// What was copied while a shard was locked.
struct Portion<L> {
    states: Vec<StateHeader>,
    /// The rows of all states, one after the other.
    rows: Vec<L>,
    /// A state that is too large for a portion.
    large_tag: Option<u64>,
}

struct StateHeader {
    tag: u64,
    idle_from: Timestamp,
    row_count: usize,
}

impl<S: AsRows> Shards<S> {
    /// Passes a copy of every state that is not idle at `now` to `visit`, until it fails.
    pub(super) fn walk<E>(
        &self,
        now: Timestamp,
        mut visit: impl FnMut(StateCopy<'_, S::Row>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut positions: VecDeque<WalkPosition> =
            (0..SHARDS).map(|shard| WalkPosition { shard, unvisited: usize::MAX }).collect();
        let mut portion = Portion { states: Vec::new(), rows: Vec::new(), large_tag: None };
        while let Some(mut position) = positions.pop_front() {
            self.copy_portion(&mut position, now, &mut portion);
            portion.visit(&mut visit)?;
            if let Some(tag) = portion.large_tag
                && let Some(LargeStateCopy { idle_from, rows }) = S::copy_large(self, position.shard, tag)
            {
                visit(StateCopy { tag, idle_from, rows: &rows })?;
            }
            if position.unvisited > 0 {
                positions.push_back(position);
            }
        }
        Ok(())
    }

    /// Copies a portion. Locks the shard once.
    fn copy_portion(&self, position: &mut WalkPosition, now: Timestamp, portion: &mut Portion<S::Row>) {
        portion.clear();
        let shard = self.lock(position.shard);
        let mut unvisited = position.unvisited.min(shard.states.len());
        let mut rows_left = PORTION_ROWS_MAX;
        while let Some(at) = unvisited.checked_sub(1)
            && let Some((tag, stored)) = shard.states.get_index(at)
        {
            let is_idle = stored.idle_from <= now;
            let row_count = if is_idle { 0 } else { stored.state.row_count() };
            let is_large = row_count > PORTION_ROWS_MAX;
            if !is_large && row_count > rows_left || rows_left == 0 {
                break;
            }
            unvisited = at;
            if is_large {
                portion.large_tag = Some(*tag);
                break;
            }
            if !is_idle {
                portion.add(*tag, stored);
            }
            rows_left = rows_left.saturating_sub(row_count.max(VISIT_COST_ROWS));
        }
        position.unvisited = unvisited;
    }
}

impl AsRows for UsageLog {
    type Row = [u64; 2];

    fn row_count(&self) -> usize {
        self.len()
    }

    fn rows(&self) -> impl Iterator<Item = [u64; 2]> {
        self.entries().map(usage_row)
    }

    /// Locks the shard once for each portion.
    fn copy_large(shards: &Shards<Self>, shard: usize, tag: u64) -> Option<LargeStateCopy<[u64; 2]>> {
        let mut copy = UsageLogCopy::default();
        loop {
            let in_portions = copy.restarts() < COPY_RESTARTS_MAX;
            let entries_max = if in_portions { PORTION_ROWS_MAX } else { usize::MAX };
            let locked = shards.lock(shard);
            let StoredState { state, idle_from, .. } = locked.states.get(&tag)?;
            let (progress, idle_from) = (copy.copy_next(state, entries_max), *idle_from);
            drop(locked);
            if progress == CopyProgress::Complete {
                return Some(LargeStateCopy {
                    idle_from,
                    rows: copy.into_entries().into_iter().map(usage_row).collect(),
                });
            }
            // The lock is not fair: another thread gets it only if it is free for a moment.
            std::thread::yield_now();
        }
    }
}

fn usage_row(UsageEntry { stamp, units }: UsageEntry) -> [u64; 2] {
    [stamp, units]
}

impl<L: Copy> Portion<L> {
    fn clear(&mut self) {
        self.states.clear();
        self.rows.clear();
        self.large_tag = None;
    }

    fn add<S: AsRows<Row = L>>(&mut self, tag: u64, stored: &StoredState<S>) {
        self.rows.extend(stored.state.rows());
        self.states.push(StateHeader {
            tag,
            idle_from: stored.idle_from,
            row_count: stored.state.row_count(),
        });
    }

    fn visit<E>(&self, visit: &mut impl FnMut(StateCopy<'_, L>) -> Result<(), E>) -> Result<(), E> {
        let mut rest = self.rows.as_slice();
        for StateHeader { tag, idle_from, row_count } in &self.states {
            let (rows, after) = rest.split_at(*row_count);
            rest = after;
            visit(StateCopy { tag: *tag, idle_from: *idle_from, rows })?;
        }
        Ok(())
    }
}
