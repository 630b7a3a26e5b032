//! Sub-window counters: the sliding log with time rounded to W/n.
//!
//! More exact than a counter, smaller than a log. The current sub-window is floor(t·n/W). The cost in it and in the n -
//! 1 sub-windows before it counts. They span less than W, so a request does not see what was used at the very start of
//! its window. `strict`, the default, counts one more sub-window and never admits more than L in any W.
//!
//! *Worst case:* strict, L in any W; not strict, up to 2L in W and L in W - W/n. *State:* 16 bytes for each sub-window
//! in use, at most n + 1 of them.

use super::{LimitAlgorithm, WorstCase, WorstCaseDetail};
use crate::usage_log::Horizon;
use crate::{Nanos, OutcomeKind, Rate, TimedCost, Timestamp, UsageLog, Wait};

/// The number of sub-windows if a limit does not set it.
pub const SUB_WINDOWS_DEFAULT: u32 = 60;
/// The largest number of sub-windows.
pub const SUB_WINDOWS_MAX: u32 = 1 << 16;

/// L per W in n sub-windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubWindows {
    pub(crate) rate: Rate,
    pub(crate) sub_windows: u32,
    pub(crate) strict: bool,
}

impl SubWindows {
    /// Units per window.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The number of sub-windows, n.
    #[inline]
    pub fn sub_windows(&self) -> u32 {
        self.sub_windows
    }

    /// Whether one more sub-window counts, so that no W has more than L.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// L if strict. Otherwise L in the last nanosecond of a sub-window count only until n - 1 further sub-windows have
    /// passed, and then L fit again.
    pub fn worst_case(&self) -> WorstCase {
        let (limit, window_ns) = (self.rate.limit(), self.rate.window_ns());
        if self.strict {
            return WorstCase::in_any_window(window_ns, limit);
        }
        let span_ns = window_ns - window_ns.div_ceil(u64::from(self.sub_windows));
        WorstCase::in_any_window(window_ns, 2 * limit).with_detail(match span_ns {
            0 => WorstCaseDetail::None,
            span_ns => WorstCaseDetail::Shorter { units: limit, span_ns },
        })
    }

    /// The number of the sub-window that contains an instant.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "n is less than W, so the number is less than t")]
    fn number_at(&self, instant: Timestamp) -> u64 {
        let window = u128::from(self.rate.window_ns());
        (u128::from(instant.as_nanos()) * u128::from(self.sub_windows) / window) as u64
    }

    /// The number of the sub-window to count in: never before the newest one in use.
    #[inline]
    fn number(&self, log: &UsageLog, now: Timestamp) -> u64 {
        let number = self.number_at(now);
        log.newest().map_or(number, |newest| newest.max(number))
    }

    /// The number of sub-windows before the current one that still count.
    #[inline]
    fn earlier_counted(&self) -> u64 {
        if self.strict { u64::from(self.sub_windows) } else { u64::from(self.sub_windows) - 1 }
    }

    #[inline]
    fn oldest(&self, number: u64) -> u64 {
        number.saturating_sub(self.earlier_counted())
    }

    #[inline]
    fn used(&self, log: &UsageLog, now: Timestamp) -> u64 {
        log.used_since(self.oldest(self.number(log, now)))
    }

    /// The first instant at which sub-window `number` no longer counts.
    fn expires_at_ns(&self, number: u64) -> u128 {
        let first = u128::from(number) + u128::from(self.earlier_counted()) + 1;
        (first * u128::from(self.rate.window_ns())).div_ceil(u128::from(self.sub_windows))
    }
}

impl LimitAlgorithm for SubWindows {
    type State = UsageLog;

    fn outcome_kind(&self, log: &UsageLog, request: TimedCost) -> OutcomeKind {
        OutcomeKind::from_fits(self.used(log, request.now).saturating_add(request.cost) <= self.rate.limit())
    }

    fn charge(&self, log: &mut UsageLog, request: TimedCost) {
        let number = self.number(log, request.now);
        log.add(number, request.cost, Horizon { oldest: self.oldest(number), limit: self.rate.limit() });
    }

    fn refund(&self, log: &mut UsageLog, request: TimedCost) {
        log.refund_newest(request.cost);
    }

    /// Refunds from the sub-window of that instant. A charge made while time had stepped back is in a later sub-window.
    /// Then older units are refunded, or none.
    fn refund_charged(&self, log: &mut UsageLog, request: TimedCost, from: Timestamp) {
        log.refund_at(self.number_at(from), request.cost);
    }

    fn remaining(&self, log: &UsageLog, now: Timestamp) -> u64 {
        self.rate.limit().saturating_sub(self.used(log, now))
    }

    fn wait(&self, log: &UsageLog, request: TimedCost) -> Wait {
        if request.cost > self.rate.limit() {
            return Wait::NEVER;
        }
        let oldest = self.oldest(self.number(log, request.now));
        let excess = (log.used_since(oldest) + request.cost).saturating_sub(self.rate.limit());
        match log.stamp_that_frees(excess, oldest) {
            Some(number) if excess > 0 => Wait::of(Nanos::between(request.now, self.expires_at_ns(number))),
            _ => Wait::NONE,
        }
    }

    fn reset_after(&self, log: &UsageLog, now: Timestamp) -> Nanos {
        match log.newest() {
            Some(newest) => Nanos::between(now, self.expires_at_ns(newest)),
            None => Nanos::ZERO,
        }
    }

    fn summary(&self, log: &UsageLog, now: Timestamp) -> UsageLog {
        log.summarized(self.used(log, now))
    }
}
