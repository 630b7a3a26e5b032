//! The result of a decision.

use tidegate_core::{ChargedAt, Nanos, Timestamp};

use super::{ActiveRules, Answer, StageTimes};
use crate::{Lease, Refusal, Refused};

/// A decided request.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct DecideOutput {
    /// The answer, as of when the request was decided. It may carry a `delay`, which was not waited for.
    pub answer: Answer,
    /// How long the request waited, from when it was made until it was due.
    pub waited: Nanos,
    /// The lease, if the request asked for [one](super::Engine::lease).
    pub lease: Option<Lease>,
    /// When the request was charged, for a [refund](super::Engine::refund). None if the store did not decide it, because it
    /// did not answer or no limit applies.
    pub charged_at: Option<ChargedAt>,
    /// How long the stages took, if they were timed.
    pub stages: Option<StageTimes>,
    pub(super) refusal: Option<Refusal>,
}

/// How [`Engine::decide_by`](super::Engine::decide_by) and [`Engine::decide_with`](super::Engine::decide_with) decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecideOptions {
    /// A reading of the engine's clock that several requests share. It must be taken after the request arrived. Without
    /// it, and for a request that waits or that another store than memory decides, the engine reads the clock.
    pub at: Option<Timestamp>,
    /// Whether to time the [stages](DecideOutput::stages), which costs a few readings of the clock.
    pub is_timed: bool,
}

impl DecideOutput {
    /// Why the request did not wait, or stopped waiting, if a limit with the action `delay` denied it.
    pub fn refused(&self) -> Option<Refused> {
        self.refusal.map(Refused::from)
    }

    /// The initial value, before the request is decided by these rules.
    #[inline]
    pub(super) fn undecided(rules: ActiveRules) -> Self {
        let answer = Answer::undecided(rules);
        Self { answer, waited: Nanos::ZERO, refusal: None, lease: None, charged_at: None, stages: None }
    }
}
