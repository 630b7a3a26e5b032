//! A request to one limit, and its outcome.

use crate::{Nanos, Role, Timestamp, Wait};

/// A request to one limit: may `cost` units pass at `now`?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedCost {
    /// The instant of the request.
    pub now: Timestamp,
    /// The units that the request takes. A cost of zero changes nothing and is allowed unless the limit is already
    /// over.
    pub cost: u64,
}

/// Whether a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutcomeKind {
    /// The cost fits.
    Allowed,
    /// The cost does not fit.
    Denied,
}

impl OutcomeKind {
    /// `Allowed` if and only if `fits`.
    #[inline]
    pub(crate) fn from_fits(fits: bool) -> Self {
        if fits { Self::Allowed } else { Self::Denied }
    }
}

/// How a charge was decided: a limit may allow a request that another limit of the plan denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargeDecision {
    /// What this limit says.
    pub outcome: OutcomeKind,
    /// What the enforced limits of the plan say together.
    pub decision: OutcomeKind,
    /// Whether this limit is enforced.
    pub role: Role,
    /// Whether the request is over any limit of the plan, enforced or not, or is denied for another reason.
    pub is_any_over: bool,
}

impl ChargeDecision {
    /// For a plan with one limit, which is enforced.
    #[inline]
    pub const fn of_one(kind: OutcomeKind) -> Self {
        Self {
            outcome: kind,
            decision: kind,
            role: Role::Enforced,
            is_any_over: matches!(kind, OutcomeKind::Denied),
        }
    }

    /// For an enforced limit of a plan that another limit denied.
    #[inline]
    pub const fn denied(outcome: OutcomeKind) -> Self {
        Self { outcome, decision: OutcomeKind::Denied, role: Role::Enforced, is_any_over: true }
    }

    /// Whether the outcome includes a retry time: for an enforced limit if the request is denied, for an observed limit
    /// if the cost does not fit.
    #[inline]
    pub(crate) fn has_retry_after(self) -> bool {
        let kind = match self.role {
            Role::Enforced => self.decision,
            Role::Observed => self.outcome,
        };
        kind == OutcomeKind::Denied
    }
}

/// What one limit of a plan says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// Whether this limit alone would allow the request.
    pub kind: OutcomeKind,
    /// The units that this limit would still admit at this instant, after this request.
    pub remaining: u64,
    /// The shortest wait after which this limit admits the same request, if the key gets no other requests. Zero if the
    /// whole request was allowed, and for an observed limit if the cost fits.
    pub retry_after: Wait,
    /// The shortest wait after which the key is as if it was never seen.
    pub reset_after: Nanos,
    /// How long the request must be held before it goes on. Zero for an observed limit.
    pub delay: Nanos,
    /// The units that this limit has counted beyond L, after this request. Only a fixed window knows it, if it is only
    /// observed or counts denied attempts; zero for other limits.
    pub over: u64,
}
