//! A ledger taken apart, to be kept elsewhere, and put together again.

use std::collections::VecDeque;
use std::fmt;

use super::{CumulativeEntry, UsageLog};
use crate::rate::UNITS_MAX;

/// The most units that one entry holds: one more than the limit, which is over whatever the excess.
const ENTRY_UNITS_MAX: u64 = UNITS_MAX + 1;
/// The most units that a ledger holds. All but the first entry are no more than the limit together; with more,
/// the first would have been forgotten.
const USAGE_LOG_UNITS_MAX: u64 = UNITS_MAX + ENTRY_UNITS_MAX;

/// One line of a ledger: so much was used then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageEntry {
    /// A time in nanoseconds (`sliding_log`) or a sub-window's number (`sub_windows`).
    pub stamp: u64,
    /// What was used, at least one.
    pub units: u64,
}

/// Why entries make no ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageLogError {
    /// A stamp is not later than the one before it.
    OutOfOrder,
    /// An entry holds nothing, or it or all of them hold more than any limit would let them.
    UnitsOutOfRange,
}

impl UsageLog {
    /// The entries, oldest first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = UsageEntry> {
        entries_from_totals(self.total_before, self.entries.iter().copied())
    }

    /// The ledger of these entries, which decides as the one that they are from did.
    pub fn from_entries(entries: impl IntoIterator<Item = UsageEntry>) -> Result<Self, UsageLogError> {
        let entries = entries.into_iter();
        let mut kept: VecDeque<CumulativeEntry> = VecDeque::with_capacity(entries.size_hint().0);
        let mut sum: u64 = 0;
        for UsageEntry { stamp, units } in entries {
            if kept.back().is_some_and(|newest| newest.stamp >= stamp) {
                return Err(UsageLogError::OutOfOrder);
            }
            sum = sum.saturating_add(units);
            if !(1..=ENTRY_UNITS_MAX).contains(&units) || sum > USAGE_LOG_UNITS_MAX {
                return Err(UsageLogError::UnitsOutOfRange);
            }
            kept.push_back(CumulativeEntry { stamp, total: sum });
        }
        Ok(Self { entries: kept, total_before: 0 })
    }
}

/// Running totals as what each added.
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
    /// What is wrong with them.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfOrder => "the entries of a ledger are not in the order of time",
            Self::UnitsOutOfRange => "an entry of a ledger holds less or more units than it can",
        }
    }
}

impl fmt::Display for UsageLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for UsageLogError {}
