//! The merged answer to a request.

use std::ops::Deref;

use crate::{Nanos, Outcome, Verdict, Wait};

/// What a request gets to hear: the outcomes of all its limits as one, and which limit decided.
///
/// Reads like the [`Outcome`] it merges to: `decision.remaining` is the least that any limit still admits,
/// `decision.retry_after` when all of them would admit the same request, `decision.reset_after` when all of its
/// keys are as if never seen, `decision.delay` the longest any of them asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    merged: Outcome,
    /// The place in the plan of the limit that decided: of a denial the one that asks for the longest wait,
    /// else the one with the least left.
    pub decided_by: usize,
}

impl Decision {
    /// The answer of a plan of one limit.
    #[inline]
    pub fn of_one(outcome: Outcome) -> Self {
        Self { merged: outcome, decided_by: 0 }
    }

    /// Merges the outcomes of a plan; an empty plan allows everything.
    pub fn merge(outcomes: &[Outcome]) -> Self {
        let everything = Outcome {
            verdict: Verdict::Allowed,
            remaining: u64::MAX,
            retry_after: Wait::NONE,
            reset_after: Nanos::ZERO,
            delay: Nanos::ZERO,
        };
        let merged = outcomes.iter().fold(everything, |merged, outcome| Outcome {
            verdict: merged.verdict.max(outcome.verdict),
            remaining: merged.remaining.min(outcome.remaining),
            retry_after: merged.retry_after.max(outcome.retry_after),
            reset_after: merged.reset_after.max(outcome.reset_after),
            delay: merged.delay.max(outcome.delay),
        });
        let decides = |outcome: &Outcome| match merged.verdict {
            Verdict::Denied => outcome.retry_after == merged.retry_after,
            Verdict::Allowed => outcome.remaining == merged.remaining,
        };
        Self { merged, decided_by: outcomes.iter().position(decides).unwrap_or(0) }
    }

    /// The same with another wait: for who knows that a limit which denied it goes out of force before that.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Wait) -> Self {
        self.merged.retry_after = retry_after;
        self
    }

    /// Whether the request passes.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.merged.verdict == Verdict::Allowed
    }
}

impl Deref for Decision {
    type Target = Outcome;

    #[inline]
    fn deref(&self) -> &Outcome {
        &self.merged
    }
}
