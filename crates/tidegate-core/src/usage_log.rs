//! The variable-size state: what was used, and when, oldest first.
//!
//! An entry holds the running total up to and including itself, so the use of any suffix is one subtraction
//! and the entry whose departure frees enough is one binary search: neither a decision nor its retry time
//! depends on how many entries there are. Totals wrap; their differences never do, for a ledger holds less
//! than 2^42 units.

mod copy;
mod parts;

use std::collections::VecDeque;

pub use copy::{CopyProgress, UsageLogCopy};
pub use parts::{UsageEntry, UsageLogError};

/// Units that are not the newest are taken back only if no more entries than this are to be written anew, themselves
/// included. A script on Redis does the same, and nobody else is served meanwhile.
const REWRITE_ENTRIES_MAX: usize = 1_024;

/// What was used, and when. `Default` is a key never seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageLog {
    entries: VecDeque<CumulativeEntry>,
    /// The running total before the first entry.
    total_before: u64,
}

/// What decides whether an entry can still matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon {
    /// The oldest stamp that counts.
    pub oldest: u64,
    /// The limit it counts towards.
    pub limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CumulativeEntry {
    /// A time in nanoseconds (`sliding_log`) or a sub-window's number (`sub_windows`).
    stamp: u64,
    total: u64,
}

impl UsageLog {
    /// A ledger of one entry: `units`, at the newest stamp.
    pub(crate) fn summarized(&self, units: u64) -> Self {
        let entries = self.newest().map(|stamp| CumulativeEntry { stamp, total: units }).into_iter().collect();
        Self { entries, total_before: 0 }
    }

    /// Entries kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Units written down and not forgotten.
    pub fn units(&self) -> u64 {
        self.entries.back().map_or(0, |last| last.total.wrapping_sub(self.total_before))
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<CumulativeEntry>()
    }

    /// The stamp of the newest entry.
    #[inline]
    pub(crate) fn newest(&self) -> Option<u64> {
        self.entries.back().map(|entry| entry.stamp)
    }

    /// Units used at stamp `oldest` or later.
    #[inline]
    pub(crate) fn used_since(&self, oldest: u64) -> u64 {
        match self.entries.back() {
            Some(last) if last.stamp >= oldest => last.total.wrapping_sub(self.total_before_stamp(oldest)),
            _ => 0,
        }
    }

    /// The stamp of the entry whose departure, and that of all before it, frees at least `units` of what was
    /// used at `oldest` or later.
    pub(crate) fn stamp_that_frees(&self, units: u64, oldest: u64) -> Option<u64> {
        let gone = self.total_before_stamp(oldest);
        let at = self
            .entries
            .partition_point(|entry| entry.stamp < oldest || entry.total.wrapping_sub(gone) < units);
        self.entries.get(at).map(|entry| entry.stamp)
    }

    /// Writes down `units` at `stamp`, which is not before the newest entry, and forgets what cannot matter any
    /// more to a limit of `limit` that looks back to `oldest`.
    ///
    /// That is what is older, and what is buried: while an entry is in a window, so is all that came after it,
    /// and if that is more than the limit, the window is over with or without the entry. More than the limit
    /// in one entry is over whatever the excess.
    pub(crate) fn add(&mut self, stamp: u64, units: u64, Horizon { oldest, limit }: Horizon) {
        while self.entries.front().is_some_and(|entry| entry.stamp < oldest) {
            self.drop_first();
        }
        if self.newest().is_none_or(|newest| newest < stamp) {
            let total = self.entries.back().map_or(self.total_before, |entry| entry.total);
            self.entries.push_back(CumulativeEntry { stamp, total });
        }
        let before = self.total_before_last();
        if let Some(last) = self.entries.back_mut() {
            let held = last.total.wrapping_sub(before).saturating_add(units).min(limit + 1);
            last.total = before.wrapping_add(held);
        }
        while let (Some(first), Some(last)) = (self.entries.front(), self.entries.back())
            && last.total.wrapping_sub(first.total) > limit
        {
            self.drop_first();
        }
    }

    /// Takes `units` back, newest first.
    pub(crate) fn refund_newest(&mut self, mut units: u64) {
        while let Some(&CumulativeEntry { stamp, total }) = self.entries.back() {
            let held = total.wrapping_sub(self.total_before_last());
            self.entries.pop_back();
            if held > units {
                self.entries.push_back(CumulativeEntry { stamp, total: total.wrapping_sub(units) });
                return;
            }
            units -= held;
        }
    }

    /// Takes `units` back of those at `stamp`, no more than there are. If so many entries came after them that it would
    /// take long, nothing.
    pub(crate) fn refund_at(&mut self, stamp: u64, units: u64) {
        let at = self.entries.partition_point(|entry| entry.stamp < stamp);
        let later = self.entries.len() - at;
        let Some(entry) = self.entries.get(at).filter(|entry| entry.stamp == stamp) else { return };
        if later > REWRITE_ENTRIES_MAX {
            return;
        }
        let held = entry.total.wrapping_sub(self.total_before_entry(at));
        let units = units.min(held);
        for entry in self.entries.range_mut(at..) {
            entry.total = entry.total.wrapping_sub(units);
        }
        if units == held {
            self.entries.remove(at);
        }
    }

    /// The running total before the first entry at `oldest` or later.
    #[inline]
    fn total_before_stamp(&self, oldest: u64) -> u64 {
        if self.entries.front().is_none_or(|entry| entry.stamp >= oldest) {
            return self.total_before;
        }
        let first_live = self.entries.partition_point(|entry| entry.stamp < oldest);
        self.entries[first_live - 1].total
    }

    fn total_before_last(&self) -> u64 {
        self.total_before_entry(self.entries.len().saturating_sub(1))
    }

    fn total_before_entry(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(self.total_before, |before| self.entries[before].total)
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.entries.pop_front() {
            self.total_before = first.total;
        }
    }
}
