//! Decisions of one connection, counted once for all that was read at once: what they are counted in is written to by all
//! threads, and each write of one takes it away from the others.

use tidegate_core::Verdict;

use crate::serve::metrics::Metrics;

/// Decisions that are not counted yet.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    allowed: u64,
    denied: u64,
}

impl Decisions {
    /// There was one more.
    #[inline]
    pub fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Allowed => self.allowed += 1,
            Verdict::Denied => self.denied += 1,
        }
    }

    /// Counts them.
    #[inline]
    pub fn count(&mut self, metrics: &Metrics) {
        let Self { allowed, denied } = std::mem::take(self);
        for (verdict, calls) in [(Verdict::Allowed, allowed), (Verdict::Denied, denied)] {
            if calls > 0 {
                metrics.throttled(verdict, calls);
            }
        }
    }
}
