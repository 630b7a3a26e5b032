//! The leases of a key as rows, and how many leases are copied without blocking other threads for long.
//!
//! Leases are ordered by expiry, so a copy continues after the last lease that it has, and the lock is held for one
//! portion at a time. Meanwhile leases may be added and removed anywhere. A lease that is held throughout and not
//! renewed keeps its position and is copied once. A lease that is renewed for longer moves towards the end, where the
//! copy has not been yet. It may be seen again, and the later state is newer. So the copy has every lease as it was at
//! some instant, but not all at the same instant. One kind may be missed: a lease that is renewed to a *shorter* end
//! during the copy, because it moves to where the copy has already been. That happens only if its holder asks for a
//! shorter ttl than before.

use tidegate_core::{CopyProgress, Grant, LeaseEntry, Leases};

use super::shards::{Shards, StoredState};
use super::walk::{AsRows, LargeStateCopy, PORTION_ROWS_MAX};

/// If a copy has this many times the leases that existed when it began, it copies the rest under one lock. That happens
/// only if all of them are renewed during the copy.
const COPY_FACTOR_MAX: usize = 4;

/// Many leases, copied one portion at a time.
#[derive(Default)]
struct LeasesCopy {
    /// In the order in which they were copied. Some are there twice.
    copied: Vec<LeaseEntry>,
    /// How many may be copied in portions.
    copied_max: Option<usize>,
    first_row: [u64; 3],
}

/// The first row is what is in no lease: the key's time, the last fencing token, and zero units.
impl AsRows for Leases {
    type Row = [u64; 3];

    fn row_count(&self) -> usize {
        1 + self.len()
    }

    fn rows(&self) -> impl Iterator<Item = [u64; 3]> {
        std::iter::once(first_row(self)).chain(self.entries().map(lease_row))
    }

    /// Locks the shard once for each portion.
    fn copy_large(shards: &Shards<Self>, shard: usize, tag: u64) -> Option<LargeStateCopy<[u64; 3]>> {
        let mut copy = LeasesCopy::default();
        loop {
            copy.reserve_portion();
            let locked = shards.lock(shard);
            let StoredState { state, idle_from, .. } = locked.states.get(&tag)?;
            let (progress, idle_from) = (copy.copy_next(state, PORTION_ROWS_MAX), *idle_from);
            drop(locked);
            if progress == CopyProgress::Complete {
                return Some(LargeStateCopy { idle_from, rows: copy.into_rows() });
            }
            // The lock is not fair: another thread gets it only if it is free for a moment.
            std::thread::yield_now();
        }
    }
}

impl LeasesCopy {
    /// Reserves space for a portion, so that nothing is moved while the lock is held.
    fn reserve_portion(&mut self) {
        self.copied.reserve(PORTION_ROWS_MAX);
    }

    /// Copies the next leases.
    fn copy_next(&mut self, leases: &Leases, entries_max: usize) -> CopyProgress {
        let copied_max = *self.copied_max.get_or_insert(leases.len().saturating_mul(COPY_FACTOR_MAX));
        let next = leases.entries_after(self.last_copied());
        let left = next.len();
        let entries_max = if self.copied.len() < copied_max { entries_max } else { left };
        self.copied.extend(next.take(entries_max));
        // After the last portion, it is newer than all copied leases.
        self.first_row = first_row(leases);
        if left <= entries_max { CopyProgress::Complete } else { CopyProgress::Partial }
    }

    fn last_copied(&self) -> Option<Grant> {
        self.copied.last().map(|lease| lease.grant)
    }

    /// Every lease once, as it was copied last.
    fn into_rows(self) -> Vec<[u64; 3]> {
        let Self { mut copied, first_row, .. } = self;
        // After `reverse`, the last copy of each lease comes first, and `dedup` keeps it.
        copied.reverse();
        copied.sort_by_key(|lease| lease.grant.fencing_token);
        copied.dedup_by_key(|lease| lease.grant.fencing_token);
        copied.sort_unstable_by_key(|lease| lease.grant);
        std::iter::once(first_row).chain(copied.into_iter().map(lease_row)).collect()
    }
}

fn first_row(leases: &Leases) -> [u64; 3] {
    [leases.last_written().as_nanos(), leases.last_fencing_token().get(), 0]
}

fn lease_row(LeaseEntry { grant, units }: LeaseEntry) -> [u64; 3] {
    [grant.expires.as_nanos(), grant.fencing_token.get(), units]
}

#[cfg(test)]
#[path = "walk_leases_tests.rs"]
mod tests;
