//! Decisions of one connection, added to the metrics once per read. All threads share the metrics, so each write takes
//! the cache line from the other threads.

use tidegate_core::OutcomeKind;

use crate::serve::metrics::Metrics;

/// Decisions that are not in the metrics yet.
#[derive(Debug, Default)]
pub(crate) struct DecisionCounts {
    allowed: u64,
    denied: u64,
}

impl DecisionCounts {
    #[inline]
    pub fn add(&mut self, kind: OutcomeKind) {
        match kind {
            OutcomeKind::Allowed => self.allowed += 1,
            OutcomeKind::Denied => self.denied += 1,
        }
    }

    /// Adds them to the metrics.
    #[inline]
    pub fn flush(&mut self, metrics: &Metrics) {
        let Self { allowed, denied } = std::mem::take(self);
        for (kind, calls) in [(OutcomeKind::Allowed, allowed), (OutcomeKind::Denied, denied)] {
            if calls > 0 {
                metrics.count_throttled(kind, calls);
            }
        }
    }
}
