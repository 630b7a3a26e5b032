//! Sliding log: every admitted request is written down, and those of the last W are counted.
//!
//! The definition that the other algorithms approximate. An entry exactly W old is out. With `min_interval` D
//! the last entry must also be at least D old; with `count_denied` denied attempts are written down as well,
//! so that a client that does not let up stays out.
//!
//! *Worst case:* L in any W. *State:* 16 bytes for each distinct instant that can still matter, at most L + 1.

use super::LimitAlgorithm;
use crate::usage_log::Horizon;
use crate::{TimedCost, UsageLog, Nanos, Rate, Timestamp, OutcomeKind, Wait};

/// L per W.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    pub(crate) rate: Rate,
    pub(crate) count_denied: bool,
    pub(crate) min_interval_ns: u64,
}

impl SlidingLog {
    /// Units per window.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The least time between two entries, in nanoseconds.
    #[inline]
    pub fn min_interval_ns(&self) -> u64 {
        self.min_interval_ns
    }

    /// The instant that counts: never before the newest entry.
    #[inline]
    fn instant(ledger: &UsageLog, now: Timestamp) -> u64 {
        ledger.newest().map_or(now.as_nanos(), |newest| newest.max(now.as_nanos()))
    }

    /// The oldest instant inside the window that ends at `instant`.
    #[inline]
    fn oldest(&self, instant: u64) -> u64 {
        instant.saturating_sub(self.rate.window_ns() - 1)
    }

    #[inline]
    fn used(&self, ledger: &UsageLog, now: Timestamp) -> u64 {
        ledger.used_since(self.oldest(Self::instant(ledger, now)))
    }
}

impl LimitAlgorithm for SlidingLog {
    type State = UsageLog;

    fn outcome_kind(&self, ledger: &UsageLog, ask: TimedCost) -> OutcomeKind {
        let instant = Self::instant(ledger, ask.now);
        let spaced = ledger.newest().is_none_or(|newest| instant - newest >= self.min_interval_ns);
        let used = ledger.used_since(self.oldest(instant));
        OutcomeKind::from_fits(spaced && used.saturating_add(ask.cost) <= self.rate.limit())
    }

    fn charge(&self, ledger: &mut UsageLog, ask: TimedCost) {
        let instant = Self::instant(ledger, ask.now);
        ledger.add(instant, ask.cost, Horizon { oldest: self.oldest(instant), limit: self.rate.limit() });
    }

    fn refund(&self, ledger: &mut UsageLog, ask: TimedCost) {
        ledger.refund_newest(ask.cost);
    }

    /// The stamp of its entry.
    fn counts_from(&self, ledger: &UsageLog, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(Self::instant(ledger, now))
    }

    fn refund_charged(&self, ledger: &mut UsageLog, ask: TimedCost, from: Timestamp) {
        ledger.refund_at(from.as_nanos(), ask.cost);
    }

    fn remaining(&self, ledger: &UsageLog, now: Timestamp) -> u64 {
        self.rate.limit().saturating_sub(self.used(ledger, now))
    }

    fn wait(&self, ledger: &UsageLog, ask: TimedCost) -> Wait {
        if ask.cost > self.rate.limit() {
            return Wait::NEVER;
        }
        let oldest = self.oldest(Self::instant(ledger, ask.now));
        let excess = (ledger.used_since(oldest) + ask.cost).saturating_sub(self.rate.limit());
        let freed_ns = match ledger.stamp_that_frees(excess, oldest) {
            Some(stamp) if excess > 0 => u128::from(stamp) + u128::from(self.rate.window_ns()),
            _ => 0,
        };
        // Without an interval the newest entry is no reason to wait, not even for a caller whose time is before it.
        let last = ledger.newest().filter(|_| self.min_interval_ns > 0);
        let spaced_ns = last.map_or(0, |newest| u128::from(newest) + u128::from(self.min_interval_ns));
        Wait::of(Nanos::between(ask.now, freed_ns.max(spaced_ns)))
    }

    fn reset_after(&self, ledger: &UsageLog, now: Timestamp) -> Nanos {
        let Some(newest) = ledger.newest() else { return Nanos::ZERO };
        Nanos::between(now, u128::from(newest) + u128::from(self.rate.window_ns()))
    }

    fn summary(&self, ledger: &UsageLog, now: Timestamp) -> UsageLog {
        ledger.summarized(self.used(ledger, now))
    }

    fn counts_denied(&self) -> bool {
        self.count_denied
    }
}
