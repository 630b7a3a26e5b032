//! Copies a usage log in portions while the log keeps changing.
//!
//! The log of a high limit has megabytes. Copying it in one go would lock out requests for that long. So each step
//! copies one portion, starting at the oldest entry, and the log may change between two steps. Changes are limited:
//! entries are dropped at the front and added at the back, and the units of the newest entries grow or are refunded.
//! Everything between two entries that still exist is unchanged. So if the last copied entry still has the same stamp
//! and running total, the next step continues after it. Otherwise the copy starts over. Entries that the log dropped
//! meanwhile are removed from the copy. The finished copy equals the log at the last step.
//!
//! There is one exception: units were refunded across that last entry, and then exactly as many were added at its
//! stamp. The sum is still right then, but some units have the age that they had before the refund.

use super::entries::entries_from_totals;
use super::log::CumulativeEntry;
use super::{UsageEntry, UsageLog};

/// An unfinished copy.
#[derive(Clone, Debug, Default)]
pub struct UsageLogCopy {
    entries: Vec<CumulativeEntry>,
    /// Entries that the log has dropped since they were copied.
    dropped: usize,
    /// The running total before the first entry that the log still has.
    total_before: u64,
    restarts: u32,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyProgress {
    /// The copy equals the log at this step.
    Complete,
    /// More steps are needed.
    Partial,
}

impl UsageLogCopy {
    /// Copies at most `entries_max` further entries.
    pub fn copy_next(&mut self, log: &UsageLog, entries_max: usize) -> CopyProgress {
        let next = self.next_index(log);
        let end = log.entries.len().min(next.saturating_add(entries_max));
        self.entries.extend(log.entries.range(next..end));
        self.total_before = log.total_before;
        if end == log.entries.len() { CopyProgress::Complete } else { CopyProgress::Partial }
    }

    /// How often the log had changed so much that the copy had to start over.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The entries, oldest first.
    pub fn into_entries(self) -> Vec<UsageEntry> {
        entries_from_totals(self.total_before, self.entries.into_iter().skip(self.dropped)).collect()
    }

    /// The index in the log of the first entry that is not copied yet. Removes entries that are no longer in the log.
    fn next_index(&mut self, log: &UsageLog) -> usize {
        let Some(last) = self.entries.last() else { return 0 };
        let index = log.entries.partition_point(|entry| entry.stamp < last.stamp);
        if log.entries.get(index) == Some(last) {
            let oldest = log.entries.front().map_or(0, |first| first.stamp);
            self.dropped = self.entries.partition_point(|entry| entry.stamp < oldest);
            return index + 1;
        }
        self.entries.clear();
        self.dropped = 0;
        self.restarts += 1;
        0
    }
}
