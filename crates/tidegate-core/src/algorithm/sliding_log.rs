//! Sliding log: every admitted request is logged, and those of the last W count.
//!
//! This is the exact definition that the other algorithms approximate. An entry that is exactly W old no longer counts.
//! With `min_interval` D the last entry must also be at least D old. With `count_denied` denied attempts are logged
//! too, so a client that keeps trying stays denied.
//!
//! *Worst case:* L in any W. *State:* 16 bytes for each distinct instant that can still matter, at most L + 1.

use super::{CountDenied, LimitAlgorithm, WorstCase, WorstCaseDetail};
use crate::usage_log::Horizon;
use crate::{Nanos, OutcomeKind, Rate, TimedCost, Timestamp, UsageLog, Wait};

/// L per W.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    pub(crate) rate: Rate,
    pub(crate) count_denied: CountDenied,
    pub(crate) min_interval_ns: u64,
}

impl SlidingLog {
    /// Units per window.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The shortest time between two entries, in nanoseconds.
    #[inline]
    pub fn min_interval_ns(&self) -> u64 {
        self.min_interval_ns
    }

    /// L, because every window is counted exactly.
    pub fn worst_case(&self) -> WorstCase {
        let worst_case = WorstCase::in_any_window(self.rate.window_ns(), self.rate.limit());
        match self.min_interval_ns {
            0 => worst_case,
            interval_ns => worst_case.with_detail(WorstCaseDetail::Apart { interval_ns }),
        }
    }

    /// The instant to decide by: never before the newest entry.
    #[inline]
    fn instant(log: &UsageLog, now: Timestamp) -> u64 {
        log.newest().map_or(now.as_nanos(), |newest| newest.max(now.as_nanos()))
    }

    /// The oldest instant in the window that ends at `instant`.
    #[inline]
    fn oldest(&self, instant: u64) -> u64 {
        instant.saturating_sub(self.rate.window_ns() - 1)
    }

    #[inline]
    fn used(&self, log: &UsageLog, now: Timestamp) -> u64 {
        log.used_since(self.oldest(Self::instant(log, now)))
    }
}

impl LimitAlgorithm for SlidingLog {
    type State = UsageLog;

    fn outcome_kind(&self, log: &UsageLog, request: TimedCost) -> OutcomeKind {
        let instant = Self::instant(log, request.now);
        let spaced = log.newest().is_none_or(|newest| instant - newest >= self.min_interval_ns);
        let used = log.used_since(self.oldest(instant));
        OutcomeKind::from_fits(spaced && used.saturating_add(request.cost) <= self.rate.limit())
    }

    fn charge(&self, log: &mut UsageLog, request: TimedCost) {
        let instant = Self::instant(log, request.now);
        log.add(instant, request.cost, Horizon { oldest: self.oldest(instant), limit: self.rate.limit() });
    }

    fn refund(&self, log: &mut UsageLog, request: TimedCost) {
        log.refund_newest(request.cost);
    }

    /// The stamp of the new entry.
    fn counts_from(&self, log: &UsageLog, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(Self::instant(log, now))
    }

    fn refund_charged(&self, log: &mut UsageLog, request: TimedCost, from: Timestamp) {
        log.refund_at(from.as_nanos(), request.cost);
    }

    fn remaining(&self, log: &UsageLog, now: Timestamp) -> u64 {
        self.rate.limit().saturating_sub(self.used(log, now))
    }

    fn wait(&self, log: &UsageLog, request: TimedCost) -> Wait {
        if request.cost > self.rate.limit() {
            return Wait::NEVER;
        }
        let oldest = self.oldest(Self::instant(log, request.now));
        let excess = (log.used_since(oldest) + request.cost).saturating_sub(self.rate.limit());
        let freed_ns = match log.stamp_that_frees(excess, oldest) {
            Some(stamp) if excess > 0 => u128::from(stamp) + u128::from(self.rate.window_ns()),
            _ => 0,
        };
        // Without an interval the newest entry is no reason to wait, even for a caller whose time is before it.
        let last = log.newest().filter(|_| self.min_interval_ns > 0);
        let spaced_ns = last.map_or(0, |newest| u128::from(newest) + u128::from(self.min_interval_ns));
        Wait::of(Nanos::between(request.now, freed_ns.max(spaced_ns)))
    }

    fn reset_after(&self, log: &UsageLog, now: Timestamp) -> Nanos {
        let Some(newest) = log.newest() else { return Nanos::ZERO };
        Nanos::between(now, u128::from(newest) + u128::from(self.rate.window_ns()))
    }

    fn summary(&self, log: &UsageLog, now: Timestamp) -> UsageLog {
        log.summarized(self.used(log, now))
    }

    fn count_denied(&self) -> CountDenied {
        self.count_denied
    }
}
