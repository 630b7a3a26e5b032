//! The merged outcomes of a plan.

use crate::{Nanos, Outcome, OutcomeKind, Wait};

/// The outcomes of all limits of a plan as one, and which limit decided.
///
/// ```
/// use tidegate_core::{Decision, Nanos, Outcome, OutcomeKind, Wait};
///
/// let minute = Outcome {
///     kind: OutcomeKind::Allowed,
///     remaining: 7,
///     retry_after: Wait::NONE,
///     reset_after: Nanos::new(60_000_000_000),
///     delay: Nanos::ZERO,
///     over: 0,
/// };
/// let hour = Outcome { remaining: 3, reset_after: Nanos::new(3_600_000_000_000), ..minute };
/// let decision = Decision::merge(&[minute, hour]);
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining, 3);
/// assert_eq!(decision.reset_after, hour.reset_after);
/// assert_eq!(decision.decided_by, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an unused decision limits nothing"]
#[non_exhaustive]
pub struct Decision {
    /// Whether the request passes.
    pub kind: OutcomeKind,
    /// The smallest number of units that any limit still admits, after this request.
    pub remaining: u64,
    /// The wait after which all limits would admit the same request. [`Wait::NONE`] if the request passes.
    pub retry_after: Wait,
    /// The wait after which all keys of the request are as if they were never seen.
    pub reset_after: Nanos,
    /// The longest delay of any limit.
    pub delay: Nanos,
    /// The most units that any limit has counted beyond L, if the limit knows it.
    pub over: u64,
    /// The index in the plan of the limit that decided. If the request is denied, this is the limit with the longest
    /// wait, otherwise the limit with the least remaining.
    pub decided_by: usize,
    /// Whether the decision was made without the shared store, because the store did not answer. Always false for a
    /// store in memory.
    pub degraded: bool,
    /// Whether a lease was refused because the memory for leases is full. Then the request is denied although it is
    /// within its limits, and nothing was charged.
    pub lease_memory_full: bool,
    /// Whether the shared store was charged, but fewer of its replicas have the charge than it should wait for. If the
    /// store fails over now, the charge may be lost.
    pub unreplicated: bool,
}

impl Decision {
    /// The decision of a plan with one limit.
    #[inline]
    pub fn of_one(outcome: Outcome) -> Self {
        Self::new(outcome, 0)
    }

    /// Merges the outcomes of a plan. An empty plan allows everything.
    pub fn merge(outcomes: &[Outcome]) -> Self {
        let empty_plan = Outcome {
            kind: OutcomeKind::Allowed,
            remaining: u64::MAX,
            retry_after: Wait::NONE,
            reset_after: Nanos::ZERO,
            delay: Nanos::ZERO,
            over: 0,
        };
        let merged = outcomes.iter().fold(empty_plan, |merged, outcome| Outcome {
            kind: merged.kind.max(outcome.kind),
            remaining: merged.remaining.min(outcome.remaining),
            retry_after: merged.retry_after.max(outcome.retry_after),
            reset_after: merged.reset_after.max(outcome.reset_after),
            delay: merged.delay.max(outcome.delay),
            over: merged.over.max(outcome.over),
        });
        let decides = |outcome: &Outcome| match merged.kind {
            OutcomeKind::Denied => outcome.retry_after == merged.retry_after,
            OutcomeKind::Allowed => outcome.remaining == merged.remaining,
        };
        Self::new(merged, outcomes.iter().position(decides).unwrap_or(0))
    }

    #[inline]
    fn new(outcome: Outcome, decided_by: usize) -> Self {
        let Outcome { kind, remaining, retry_after, reset_after, delay, over } = outcome;
        Self {
            kind,
            remaining,
            retry_after,
            reset_after,
            delay,
            over,
            decided_by,
            degraded: false,
            lease_memory_full: false,
            unreplicated: false,
        }
    }

    /// The same decision with another wait. For a caller that knows that the limit that denied stops being enforced
    /// before the wait ends.
    pub fn with_retry_after(self, retry_after: Wait) -> Self {
        Self { retry_after, ..self }
    }

    /// Whether the request passes.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.kind == OutcomeKind::Allowed
    }

    /// The number of whole seconds after which the same request would pass, rounded up: the value of a `Retry-After`
    /// header. `None` if the request passes now, or never.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        let denied = (self.kind == OutcomeKind::Denied).then_some(self.retry_after);
        denied.and_then(Wait::span).map(Nanos::seconds_rounded_up)
    }

    /// The merged outcome, without the index of the limit that decided.
    #[inline]
    pub fn outcome(&self) -> Outcome {
        let Self { kind, remaining, retry_after, reset_after, delay, over, .. } = *self;
        Outcome { kind, remaining, retry_after, reset_after, delay, over }
    }
}
