//! The merged answer to a request.

use crate::{Nanos, Outcome, Verdict, Wait};

/// What a request gets to hear: the outcomes of all its limits as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request passes. It does if every limit lets it.
    pub verdict: Verdict,
    /// The place in the plan of the limit that decided: of a denial the one that asks for the longest wait,
    /// else the one with the least left.
    pub decided_by: usize,
    /// The least that any limit still admits.
    pub remaining: u64,
    /// When all limits would admit the same request, if nothing else came; zero if this one passes.
    pub retry_after: Wait,
    /// When all keys are as if never seen.
    pub reset_after: Nanos,
    /// How long the request is to be held before it goes on.
    pub delay: Nanos,
}

impl Decision {
    /// The answer of a plan of one limit.
    #[inline]
    pub fn of_one(outcome: Outcome) -> Self {
        Self {
            verdict: outcome.verdict,
            decided_by: 0,
            remaining: outcome.remaining,
            retry_after: outcome.retry_after,
            reset_after: outcome.reset_after,
            delay: outcome.delay,
        }
    }

    /// Merges the outcomes of a plan; an empty plan allows everything.
    pub fn merge(outcomes: &[Outcome]) -> Self {
        let everything = Self {
            verdict: Verdict::Allowed,
            decided_by: 0,
            remaining: u64::MAX,
            retry_after: Wait::NONE,
            reset_after: Nanos::ZERO,
            delay: Nanos::ZERO,
        };
        let mut merged = outcomes.iter().fold(everything, |merged, outcome| Self {
            verdict: merged.verdict.max(outcome.verdict),
            decided_by: 0,
            remaining: merged.remaining.min(outcome.remaining),
            retry_after: merged.retry_after.max(outcome.retry_after),
            reset_after: merged.reset_after.max(outcome.reset_after),
            delay: merged.delay.max(outcome.delay),
        });
        let decides = |outcome: &Outcome| match merged.verdict {
            Verdict::Denied => outcome.retry_after == merged.retry_after,
            Verdict::Allowed => outcome.remaining == merged.remaining,
        };
        merged.decided_by = outcomes.iter().position(decides).unwrap_or(0);
        merged
    }

    /// Whether the request passes.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }
}
