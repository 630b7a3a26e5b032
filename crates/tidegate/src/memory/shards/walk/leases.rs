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

use super::super::{Held, Shards};
use super::{Large, Lined, PORTION_LINES_MAX};

/// A copy that has as many leases as this times those that were there when it began gets the rest at once. To come to
/// that, all of them have to be renewed while they are copied.
const COPIED_TIMES_MAX: usize = 4;

/// Many leases, copied a portion at a time.
#[derive(Default)]
struct LeasesCopy {
    /// In the order in which they were seen; some twice.
    seen: Vec<LeaseEntry>,
    /// How many may be seen.
    seen_max: Option<usize>,
    first_line: [u64; 3],
}

/// The first line is what is not in any lease: the key's time, the last fence, and no units.
impl Lined for Leases {
    type Line = [u64; 3];

    fn line_count(&self) -> usize {
        1 + self.len()
    }

    fn lines(&self) -> impl Iterator<Item = [u64; 3]> {
        std::iter::once(first_line(self)).chain(self.entries().map(line))
    }

    /// Locks the shard once for each portion.
    fn copy_large(shards: &Shards<Self>, shard: usize, tag: u64) -> Option<Large<[u64; 3]>> {
        let mut copy = LeasesCopy::default();
        loop {
            copy.make_room();
            let locked = shards.lock(shard);
            let Held { state, idle_from } = locked.held.get(&tag)?;
            let (progress, idle_from) = (copy.go_on(state, PORTION_LINES_MAX), *idle_from);
            drop(locked);
            if progress == CopyProgress::Whole {
                return Some(Large { idle_from, lines: copy.into_lines() });
            }
            // The lock is not fair: whoever waits for it gets it only if it is left alone for a moment.
            std::thread::yield_now();
        }
    }
}

impl LeasesCopy {
    /// Makes room for a portion, so that nothing is moved while a lock is held.
    fn make_room(&mut self) {
        self.seen.reserve(PORTION_LINES_MAX);
    }

    /// Copies what comes next of the same leases as before.
    fn go_on(&mut self, leases: &Leases, entries_max: usize) -> CopyProgress {
        let seen_max = *self.seen_max.get_or_insert(leases.len().saturating_mul(COPIED_TIMES_MAX));
        let next = leases.entries_after(self.last_seen());
        let left = next.len();
        let entries_max = if self.seen.len() < seen_max { entries_max } else { left };
        self.seen.extend(next.take(entries_max));
        // The last time it is newer than all leases that were copied.
        self.first_line = first_line(leases);
        if left <= entries_max { CopyProgress::Whole } else { CopyProgress::Unfinished }
    }

    fn last_seen(&self) -> Option<Grant> {
        self.seen.last().map(|lease| lease.grant)
    }

    /// Every lease once, as it was seen last.
    fn into_lines(self) -> Vec<[u64; 3]> {
        let Self { mut seen, first_line, .. } = self;
        // What was seen last of a fence comes first, and is the one that is kept.
        seen.reverse();
        seen.sort_by_key(|lease| lease.grant.fence);
        seen.dedup_by_key(|lease| lease.grant.fence);
        seen.sort_unstable_by_key(|lease| lease.grant);
        std::iter::once(first_line).chain(seen.into_iter().map(line)).collect()
    }
}

fn first_line(leases: &Leases) -> [u64; 3] {
    [leases.written().as_nanos(), leases.last_fence().get(), 0]
}

fn line(LeaseEntry { grant, units }: LeaseEntry) -> [u64; 3] {
    [grant.expires.as_nanos(), grant.fence.get(), units]
}

#[cfg(all(test, not(loom)))]
mod tests;
