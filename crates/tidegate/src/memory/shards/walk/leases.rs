//! The leases of a key as lines, and how many of them are copied without holding anybody up.
//!
//! They stand in the order in which they expire, so a copy goes on behind the last lease that it has: each lock is
//! held for a portion. Meanwhile leases come and go anywhere. One that is held all along and not renewed stays where it
//! is, ahead of the copy or behind it, and is copied once. One that is renewed for longer moves on, to where the copy
//! has not been yet: it may be seen again, and what is seen later is newer. So every lease is in the copy as it was at
//! some instant of the copying, and they are not all from the same one. What may be missed is a lease that is renewed
//! to a *shorter* end just then, for it moves to where the copy has been already; only who asks for a shorter ttl than
//! before does that.

use tidegate_core::{CopyProgress, Grant, LeaseEntry, Leases};

use super::super::{StoredState, Shards};
use super::{LargeStateCopy, AsRows, PORTION_ROWS_MAX};

/// A copy that has as many leases as this times those that were there when it began gets the rest at once. To come to
/// that, all of them have to be renewed while they are copied.
const COPY_FACTOR_MAX: usize = 4;

/// Many leases, copied a portion at a time.
#[derive(Default)]
struct LeasesCopy {
    /// In the order in which they were seen; some twice.
    copied: Vec<LeaseEntry>,
    /// How many may be seen.
    copied_max: Option<usize>,
    first_row: [u64; 3],
}

/// The first line is what is not in any lease: the key's time, the last fence, and no units.
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
            let StoredState { state, idle_from } = locked.states.get(&tag)?;
            let (progress, idle_from) = (copy.copy_next(state, PORTION_ROWS_MAX), *idle_from);
            drop(locked);
            if progress == CopyProgress::Complete {
                return Some(LargeStateCopy { idle_from, rows: copy.into_rows() });
            }
            // The lock is not fair: whoever waits for it gets it only if it is left alone for a moment.
            std::thread::yield_now();
        }
    }
}

impl LeasesCopy {
    /// Makes room for a portion, so that nothing is moved while a lock is held.
    fn reserve_portion(&mut self) {
        self.copied.reserve(PORTION_ROWS_MAX);
    }

    /// Copies what comes next of the same leases as before.
    fn copy_next(&mut self, leases: &Leases, entries_max: usize) -> CopyProgress {
        let seen_max = *self.copied_max.get_or_insert(leases.len().saturating_mul(COPY_FACTOR_MAX));
        let next = leases.entries_after(self.last_copied());
        let left = next.len();
        let entries_max = if self.copied.len() < seen_max { entries_max } else { left };
        self.copied.extend(next.take(entries_max));
        // The last time it is newer than all leases that were copied.
        self.first_row = first_row(leases);
        if left <= entries_max { CopyProgress::Complete } else { CopyProgress::Partial }
    }

    fn last_copied(&self) -> Option<Grant> {
        self.copied.last().map(|lease| lease.grant)
    }

    /// Every lease once, as it was seen last.
    fn into_rows(self) -> Vec<[u64; 3]> {
        let Self { copied: mut seen, first_row: first_line, .. } = self;
        // What was seen last of a fence comes first, and is the one that is kept.
        seen.reverse();
        seen.sort_by_key(|lease| lease.grant.fencing_token);
        seen.dedup_by_key(|lease| lease.grant.fencing_token);
        seen.sort_unstable_by_key(|lease| lease.grant);
        std::iter::once(first_line).chain(seen.into_iter().map(lease_row)).collect()
    }
}

fn first_row(leases: &Leases) -> [u64; 3] {
    [leases.last_written().as_nanos(), leases.last_fencing_token().get(), 0]
}

fn lease_row(LeaseEntry { grant, units }: LeaseEntry) -> [u64; 3] {
    [grant.expires.as_nanos(), grant.fencing_token.get(), units]
}

#[cfg(all(test, not(loom)))]
mod tests;
