//! What is asked of one limit, and what it answers.

use crate::{Nanos, Role, Timestamp, Wait};

/// One question to one limit: may `cost` units pass at `now`?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedCost {
    /// The instant of the request.
    pub now: Timestamp,
    /// The units it takes. Zero changes nothing and is allowed unless the limit is over already.
    pub cost: u64,
}

/// Whether a request may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutcomeKind {
    /// It fits.
    Allowed,
    /// It does not fit.
    Denied,
}

impl OutcomeKind {
    /// `Allowed` if and only if `fits`.
    #[inline]
    pub(crate) fn from_fits(fits: bool) -> Self {
        if fits { Self::Allowed } else { Self::Denied }
    }
}

/// What became of an ask: a limit may let a request pass that another one denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargeDecision {
    /// What this limit says.
    pub outcome: OutcomeKind,
    /// What all limits of the request that are enforced say together.
    pub decision: OutcomeKind,
    /// Whether this limit is one of them.
    pub role: Role,
}

impl ChargeDecision {
    /// The ruling on a request that touches one limit, which is enforced.
    #[inline]
    pub const fn of_one(verdict: OutcomeKind) -> Self {
        Self { outcome: verdict, decision: verdict, role: Role::Enforced }
    }

    /// Whether the caller gets to hear when to come again: if the request does not pass or, from a limit that looks
    /// on, if it would not.
    #[inline]
    pub(crate) fn has_retry_after(self) -> bool {
        let said = match self.role {
            Role::Enforced => self.decision,
            Role::Observed => self.outcome,
        };
        said == OutcomeKind::Denied
    }
}

/// The answer of one limit in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// Whether this limit, alone, lets the request pass.
    pub kind: OutcomeKind,
    /// The units this limit would still admit at this instant, after this request.
    pub remaining: u64,
    /// The least wait after which this limit admits the same request, if nothing else comes for the key. Zero
    /// if the request as a whole was allowed; of a limit that only looks on, zero if it fits.
    pub retry_after: Wait,
    /// The least wait after which the key is as if never seen.
    pub reset_after: Nanos,
    /// How long the request is to be held before it goes on. A limit that only looks on holds nothing.
    pub delay: Nanos,
}
