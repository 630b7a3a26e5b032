//! Sub-window counters: the sliding log with time rounded to W/n.
//!
//! Between the log's exactness and a counter's size. The current sub-window is floor(t·n/W); what counts is the
//! cost in it and in the n - 1 before it. Those span less than W, so a request can see neither the start of
//! its own window nor what was used there: `strict`, the default, counts one more sub-window and never lets
//! more than L through in any W.
//!
//! *Worst case:* strict L in any W; not strict up to 2L in W, L in W - W/n. *State:* 16 bytes for each
//! sub-window in use, at most n + 1 of them.

use super::LimitAlgorithm;
use crate::usage_log::Horizon;
use crate::{TimedCost, UsageLog, Nanos, Rate, Timestamp, OutcomeKind, Wait};

/// Sub-windows if a limit does not say how many.
pub const SUB_WINDOWS_DEFAULT: u32 = 60;
/// The most sub-windows a window may have.
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

    /// n.
    #[inline]
    pub fn sub_windows(&self) -> u32 {
        self.sub_windows
    }

    /// Whether one more sub-window counts, so that no W has more than L.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// The number of the sub-window that an instant is in.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "n is less than W, so the number is less than t")]
    fn number_at(&self, instant: Timestamp) -> u64 {
        let window = u128::from(self.rate.window_ns());
        (u128::from(instant.as_nanos()) * u128::from(self.sub_windows) / window) as u64
    }

    /// The number of the sub-window that counts: never before the newest in use.
    #[inline]
    fn number(&self, ledger: &UsageLog, now: Timestamp) -> u64 {
        let number = self.number_at(now);
        ledger.newest().map_or(number, |newest| newest.max(number))
    }

    /// How many sub-windows before the current one still count.
    #[inline]
    fn earlier_counted(&self) -> u64 {
        if self.strict { u64::from(self.sub_windows) } else { u64::from(self.sub_windows) - 1 }
    }

    #[inline]
    fn oldest(&self, number: u64) -> u64 {
        number.saturating_sub(self.earlier_counted())
    }

    #[inline]
    fn used(&self, ledger: &UsageLog, now: Timestamp) -> u64 {
        ledger.used_since(self.oldest(self.number(ledger, now)))
    }

    /// The first instant at which sub-window `number` no longer counts.
    fn expires_at_ns(&self, number: u64) -> u128 {
        let first = u128::from(number) + u128::from(self.earlier_counted()) + 1;
        (first * u128::from(self.rate.window_ns())).div_ceil(u128::from(self.sub_windows))
    }
}

impl LimitAlgorithm for SubWindows {
    type State = UsageLog;

    fn outcome_kind(&self, ledger: &UsageLog, ask: TimedCost) -> OutcomeKind {
        OutcomeKind::from_fits(self.used(ledger, ask.now).saturating_add(ask.cost) <= self.rate.limit())
    }

    fn charge(&self, ledger: &mut UsageLog, ask: TimedCost) {
        let number = self.number(ledger, ask.now);
        ledger.add(number, ask.cost, Horizon { oldest: self.oldest(number), limit: self.rate.limit() });
    }

    fn refund(&self, ledger: &mut UsageLog, ask: TimedCost) {
        ledger.refund_newest(ask.cost);
    }

    /// From the sub-window of that instant. What was charged while time had stepped back is in a later one, and then
    /// older units are taken or none.
    fn refund_charged(&self, ledger: &mut UsageLog, ask: TimedCost, from: Timestamp) {
        ledger.refund_at(self.number_at(from), ask.cost);
    }

    fn remaining(&self, ledger: &UsageLog, now: Timestamp) -> u64 {
        self.rate.limit().saturating_sub(self.used(ledger, now))
    }

    fn wait(&self, ledger: &UsageLog, ask: TimedCost) -> Wait {
        if ask.cost > self.rate.limit() {
            return Wait::NEVER;
        }
        let oldest = self.oldest(self.number(ledger, ask.now));
        let excess = (ledger.used_since(oldest) + ask.cost).saturating_sub(self.rate.limit());
        match ledger.stamp_that_frees(excess, oldest) {
            Some(number) if excess > 0 => Wait::of(Nanos::between(ask.now, self.expires_at_ns(number))),
            _ => Wait::NONE,
        }
    }

    fn reset_after(&self, ledger: &UsageLog, now: Timestamp) -> Nanos {
        match ledger.newest() {
            Some(newest) => Nanos::between(now, self.expires_at_ns(newest)),
            None => Nanos::ZERO,
        }
    }

    fn summary(&self, ledger: &UsageLog, now: Timestamp) -> UsageLog {
        ledger.summarized(self.used(ledger, now))
    }
}
