//! A copy of a ledger, made a portion at a time while the ledger goes on changing.
//!
//! A log of a high limit is megabytes, and whoever copies it whole keeps everyone else from it for that long.
//! So it is copied from the oldest entry on, a portion at each look, and between two looks it may change. What
//! can change is little: entries are forgotten at the front, added at the back, and the units of the newest
//! ones grow or are taken back; whatever lies between two entries that are still there is as it was. So a look
//! that finds the last entry it copied unchanged, by its stamp and its running total, goes on behind it, and
//! one that does not starts over. What has been forgotten at the front meanwhile is dropped from the copy, and
//! the finished copy is the ledger as it was at the last look.
//!
//! (Unless units were taken back across that last entry and exactly as many written down at its stamp again.
//! The sum is right then, too; some units are as old as they were before they were taken back.)

use super::parts::entries_from_totals;
use super::{CumulativeEntry, UsageLog, UsageEntry};

/// A copy in the making.
#[derive(Clone, Debug, Default)]
pub struct UsageLogCopy {
    entries: Vec<CumulativeEntry>,
    /// Entries that the ledger has forgotten since they were copied.
    dropped: usize,
    /// The running total before the first entry that is not.
    total_before: u64,
    restarts: u32,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyProgress {
    /// It is the ledger as it was at this look.
    Complete,
    /// Another look has to follow.
    Partial,
}

impl UsageLogCopy {
    /// Looks at the ledger and copies at most `entries_max` further entries.
    pub fn copy_next(&mut self, ledger: &UsageLog, entries_max: usize) -> CopyProgress {
        let next = self.next_index(ledger);
        let end = ledger.entries.len().min(next.saturating_add(entries_max));
        self.entries.extend(ledger.entries.range(next..end));
        self.total_before = ledger.total_before;
        if end == ledger.entries.len() { CopyProgress::Complete } else { CopyProgress::Partial }
    }

    /// How often the ledger had changed so much that nothing copied so far was of use.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The entries, oldest first.
    pub fn into_entries(self) -> Vec<UsageEntry> {
        entries_from_totals(self.total_before, self.entries.into_iter().skip(self.dropped)).collect()
    }

    /// The position in the ledger of the first entry that is not copied yet. Drops what is no longer so.
    fn next_index(&mut self, ledger: &UsageLog) -> usize {
        let Some(last) = self.entries.last() else { return 0 };
        let at = ledger.entries.partition_point(|entry| entry.stamp < last.stamp);
        if ledger.entries.get(at) == Some(last) {
            let oldest = ledger.entries.front().map_or(0, |first| first.stamp);
            self.dropped = self.entries.partition_point(|entry| entry.stamp < oldest);
            return at + 1;
        }
        self.entries.clear();
        self.dropped = 0;
        self.restarts += 1;
        0
    }
}
