//! The log itself.

use std::collections::VecDeque;

/// How many units were used, and when. `Default` is a key that was never seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageLog {
    pub(super) entries: VecDeque<CumulativeEntry>,
    /// The running total before the first entry.
    pub(super) total_before: u64,
}

/// Which entries can still matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon {
    /// The oldest stamp that counts.
    pub oldest: u64,
    /// The limit that the entries count towards.
    pub limit: u64,
}

/// An entry as the log stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CumulativeEntry {
    /// A time in nanoseconds (`sliding_log`) or a sub-window's number (`sub_windows`).
    pub stamp: u64,
    /// The units of this entry and of all before it.
    pub total: u64,
}

/// A refund of units that are not the newest is made only if it rewrites at most this many entries, including their
/// own. The script on Redis has the same bound, because Redis serves no other client meanwhile.
const REWRITE_ENTRIES_MAX: usize = 1_024;

impl UsageLog {
    /// A log of one entry: `units` at the newest stamp.
    pub(crate) fn summarized(&self, units: u64) -> Self {
        let entries =
            self.newest().map(|stamp| CumulativeEntry { stamp, total: units }).into_iter().collect();
        Self { entries, total_before: 0 }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the log has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The units in all entries.
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

    /// The stamp of the entry that must leave, with all entries before it, to free at least `units` of what was used at
    /// `oldest` or later.
    pub(crate) fn stamp_that_frees(&self, units: u64, oldest: u64) -> Option<u64> {
        let total_before = self.total_before_stamp(oldest);
        let index = self
            .entries
            .partition_point(|entry| entry.stamp < oldest || entry.total.wrapping_sub(total_before) < units);
        self.entries.get(index).map(|entry| entry.stamp)
    }

    /// Adds `units` at `stamp`, which must not be before the newest entry. Drops entries that cannot matter any more to
    /// a limit of `limit` that looks back to `oldest`.
    ///
    /// These are entries before `oldest`, and entries that a later burst hides. While an entry is in a window, so are
    /// all entries after it. If those exceed the limit, the window is over the limit with or without the entry. For the
    /// same reason one entry never holds more than the limit plus one.
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
            let units = last.total.wrapping_sub(before).saturating_add(units).min(limit + 1);
            last.total = before.wrapping_add(units);
        }
        while let (Some(first), Some(last)) = (self.entries.front(), self.entries.back())
            && last.total.wrapping_sub(first.total) > limit
        {
            self.drop_first();
        }
    }

    /// Gives back `units`, newest first.
    pub(crate) fn refund_newest(&mut self, mut units: u64) {
        while let Some(&CumulativeEntry { stamp, total }) = self.entries.back() {
            let entry_units = total.wrapping_sub(self.total_before_last());
            self.entries.pop_back();
            if entry_units > units {
                self.entries.push_back(CumulativeEntry { stamp, total: total.wrapping_sub(units) });
                return;
            }
            units -= entry_units;
        }
    }

    /// Gives back up to `units` of those at `stamp`. Gives back nothing if that would rewrite more than
    /// `REWRITE_ENTRIES_MAX` entries.
    pub(crate) fn refund_at(&mut self, stamp: u64, units: u64) {
        let index = self.entries.partition_point(|entry| entry.stamp < stamp);
        let Some(entry) = self.entries.get(index).filter(|entry| entry.stamp == stamp) else { return };
        if self.entries.len() - index > REWRITE_ENTRIES_MAX {
            return;
        }
        let entry_units = entry.total.wrapping_sub(self.total_before_entry(index));
        let refunded = units.min(entry_units);
        for entry in self.entries.range_mut(index..) {
            entry.total = entry.total.wrapping_sub(refunded);
        }
        if refunded == entry_units {
            self.entries.remove(index);
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

    fn total_before_entry(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.total_before, |before| self.entries[before].total)
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.entries.pop_front() {
            self.total_before = first.total;
        }
    }
}
