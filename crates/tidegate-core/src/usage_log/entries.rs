//! Converts a usage log to plain entries, to store them elsewhere, and back.

use std::collections::VecDeque;
use std::fmt;

use super::UsageLog;
use super::log::CumulativeEntry;
use crate::rate::UNITS_MAX;

/// The most units in one entry: one more than the limit. More would make no difference.
const ENTRY_UNITS_MAX: u64 = UNITS_MAX + 1;
/// The most units in a log. All entries except the first hold at most the limit together; otherwise the first would
/// have been dropped.
const USAGE_LOG_UNITS_MAX: u64 = UNITS_MAX + ENTRY_UNITS_MAX;

/// One entry of a usage log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageEntry {
    /// A time in nanoseconds (`sliding_log`) or a sub-window's number (`sub_windows`).
    pub stamp: u64,
    /// The units used, at least one.
    pub units: u64,
}

/// Why entries are not a valid usage log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageLogError {
    /// A stamp is not later than the one before it.
    OutOfOrder,
    /// An entry holds no units, or the entries hold more units than any limit allows.
    UnitsOutOfRange,
}

impl UsageLog {
    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = UsageEntry> {
        entries_from_totals(self.total_before, self.entries.iter().copied())
    }

    /// Restores a log from its entries. It decides as the original did.
    pub fn from_entries(entries: impl IntoIterator<Item = UsageEntry>) -> Result<Self, UsageLogError> {
        let entries = entries.into_iter();
        let mut cumulative: VecDeque<CumulativeEntry> = VecDeque::with_capacity(entries.size_hint().0);
        let mut total: u64 = 0;
        for UsageEntry { stamp, units } in entries {
            if cumulative.back().is_some_and(|newest| newest.stamp >= stamp) {
                return Err(UsageLogError::OutOfOrder);
            }
            total = total.saturating_add(units);
            if !(1..=ENTRY_UNITS_MAX).contains(&units) || total > USAGE_LOG_UNITS_MAX {
                return Err(UsageLogError::UnitsOutOfRange);
            }
            cumulative.push_back(CumulativeEntry { stamp, total });
        }
        Ok(Self { entries: cumulative, total_before: 0 })
    }
}

/// Converts running totals to the units of each entry.
pub(super) fn entries_from_totals(
    total_before: u64,
    entries: impl ExactSizeIterator<Item = CumulativeEntry>,
) -> impl ExactSizeIterator<Item = UsageEntry> {
    let mut before = total_before;
    entries.map(move |CumulativeEntry { stamp, total }| {
        let units = total.wrapping_sub(before);
        before = total;
        UsageEntry { stamp, units }
    })
}

impl UsageLogError {
    /// What is wrong with the entries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfOrder => "the entries of a usage log are not in the order of time",
            Self::UnitsOutOfRange => "an entry of a usage log holds too few or too many units",
        }
    }
}

impl fmt::Display for UsageLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for UsageLogError {}
