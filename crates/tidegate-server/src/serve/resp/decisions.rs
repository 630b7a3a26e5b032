//! Decisions of one connection, counted once for all that was read at once: what they are counted in is written to by all
//! threads, and each write of one takes it away from the others.

use tidegate_core::OutcomeKind;

use crate::serve::metrics::Metrics;

/// Decisions that are not counted yet.
#[derive(Debug, Default)]
pub(super) struct DecisionCounts {
    allowed: u64,
    denied: u64,
}

impl DecisionCounts {
    /// There was one more.
    #[inline]
    pub fn add(&mut self, verdict: OutcomeKind) {
        match verdict {
            OutcomeKind::Allowed => self.allowed += 1,
            OutcomeKind::Denied => self.denied += 1,
        }
    }

    /// Counts them.
    #[inline]
    pub fn flush(&mut self, metrics: &Metrics) {
        let Self { allowed, denied } = std::mem::take(self);
        for (verdict, calls) in [(OutcomeKind::Allowed, allowed), (OutcomeKind::Denied, denied)] {
            if calls > 0 {
                metrics.count_throttled(verdict, calls);
            }
        }
    }
}
