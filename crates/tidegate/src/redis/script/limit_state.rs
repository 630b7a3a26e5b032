//! A limit with the state of its key: runs the core's algorithms on them.

use tidegate_core::algorithm::{Concurrency, LimitAlgorithm, PackedAlgorithm, UsageLogAlgorithm};
use tidegate_core::{
    Algorithm, ChargeDecision, Grant, Leases, Outcome, OutcomeKind, PackedState, Role, TimedCost, Timestamp,
    UsageLog,
};

use super::key_state::KeyState;
use super::term::{LEASE_UNITS_MAX, NANOS_PER_MICRO};
use crate::Outcomes;
use crate::leases::grant::GrantPart;
use crate::redis::plan::RedisCharge;

/// A limit and its state for a key.
pub(super) enum LimitState<'a> {
    Packed(&'a PackedAlgorithm, &'a PackedState),
    UsageLog(&'a UsageLogAlgorithm, &'a UsageLog),
    Leases(&'a Concurrency, &'a Leases),
}

/// The same, with a mutable state.
pub(super) enum LimitStateMut<'a> {
    Packed(&'a PackedAlgorithm, &'a mut PackedState),
    UsageLog(&'a UsageLogAlgorithm, &'a mut UsageLog),
    Leases(&'a Concurrency, &'a mut Leases),
}

/// The outcomes of charges on these states, given the decision on the whole plan. The states are those before
/// the plan, one for each charge. A missing state means a key never seen.
pub(crate) fn preview_outcomes(
    charges: &[RedisCharge],
    states: &[KeyState],
    at: Timestamp,
    decision: OutcomeKind,
) -> Outcomes {
    let never_seen: Vec<KeyState> =
        charges.iter().skip(states.len()).map(|charge| KeyState::never_seen(&charge.algorithm)).collect();
    let states = states.iter().chain(&never_seen);
    let limit_states = || {
        charges
            .iter()
            .zip(states.clone())
            .filter_map(|(charge, state)| Some((charge, LimitState::new(&charge.algorithm, state)?)))
    };
    let grant = plan_grant(limit_states(), at, decision).map(|grant_part| grant_part.grant(None));
    let timed_cost = |charge: &RedisCharge| TimedCost { now: at, cost: charge.cost };
    let is_over = |(charge, limit_state): (&RedisCharge, LimitState<'_>)| {
        limit_state.outcome_kind(timed_cost(charge)) == OutcomeKind::Denied
    };
    let is_any_over = decision == OutcomeKind::Denied || limit_states().any(is_over);
    let preview = |(charge, limit_state): (&RedisCharge, LimitState<'_>)| {
        let timed_cost = timed_cost(charge);
        let outcome = limit_state.outcome_kind(timed_cost);
        let charge_decision = ChargeDecision { outcome, decision, role: charge.role, is_any_over };
        limit_state.preview(timed_cost, charge_decision, grant)
    };
    limit_states().map(preview).collect()
}

/// When a charge made at `at` starts to count, from the state before it. In whole microseconds, as the script
/// reads it, and not later than `at`.
pub(crate) fn counts_from(charge: &RedisCharge, state: &KeyState, at: Timestamp) -> Timestamp {
    let from = match LimitState::new(&charge.algorithm, state) {
        Some(LimitState::Packed(algorithm, state)) => algorithm.counts_from(state, at),
        Some(LimitState::UsageLog(algorithm, state)) => algorithm.counts_from(state, at),
        Some(LimitState::Leases(..)) | None => at,
    };
    whole_micros(from)
}

/// An instant in whole microseconds, as the script reads it. It is rounded down: an earlier instant refunds
/// less.
pub(crate) fn whole_micros(instant: Timestamp) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanos() / NANOS_PER_MICRO * NANOS_PER_MICRO)
}

/// The lease that the concurrency limits of a plan grant under this decision; none if the plan takes none.
pub(super) fn plan_grant<'a>(
    limit_states: impl Iterator<Item = (&'a RedisCharge, LimitState<'a>)>,
    at: Timestamp,
    decision: OutcomeKind,
) -> Option<GrantPart> {
    let grant_part = |(charge, limit_state): (&RedisCharge, LimitState<'_>)| match limit_state {
        LimitState::Leases(algorithm, leases) => {
            // Leases count no denied attempts.
            (charge.cost > 0 && decision == OutcomeKind::Allowed)
                .then(|| GrantPart::new(algorithm, leases, charge.role, at))
        }
        _ => None,
    };
    limit_states.filter_map(grant_part).reduce(GrantPart::merge)
}

/// The merged decision of all enforced limits.
pub(super) fn decision_of(outcomes: impl Iterator<Item = (OutcomeKind, Role)>) -> OutcomeKind {
    let enforced = outcomes.filter(|(_, role)| *role == Role::Enforced).map(|(outcome, _)| outcome);
    enforced.max().unwrap_or(OutcomeKind::Allowed)
}

impl<'a> LimitState<'a> {
    /// None if the limit keeps another kind of state.
    #[inline]
    pub fn new(algorithm: &'a Algorithm, state: &'a KeyState) -> Option<Self> {
        match (algorithm, state) {
            (Algorithm::Packed(algorithm), KeyState::Packed(state)) => Some(Self::Packed(algorithm, state)),
            (Algorithm::UsageLog(algorithm), KeyState::UsageLog(state)) => {
                Some(Self::UsageLog(algorithm, state))
            }
            (Algorithm::Leases(algorithm), KeyState::Leases(state)) => Some(Self::Leases(algorithm, state)),
            _ => None,
        }
    }

    #[inline]
    pub fn outcome_kind(&self, timed_cost: TimedCost) -> OutcomeKind {
        match self {
            Self::Packed(algorithm, state) => algorithm.outcome_kind(state, timed_cost),
            Self::UsageLog(algorithm, state) => algorithm.outcome_kind(state, timed_cost),
            Self::Leases(algorithm, state) => algorithm.outcome_kind(state, timed_cost),
        }
    }

    /// The outcome, without changing the state. `grant` is the lease of the plan.
    pub fn preview(
        &self,
        timed_cost: TimedCost,
        charge_decision: ChargeDecision,
        grant: Option<Grant>,
    ) -> Outcome {
        match self {
            Self::Packed(algorithm, state) => algorithm.preview(state, timed_cost, charge_decision),
            Self::UsageLog(algorithm, state) => algorithm.preview(state, timed_cost, charge_decision),
            Self::Leases(algorithm, leases) => match grant {
                Some(grant) if algorithm.is_charged(timed_cost, charge_decision) => {
                    // A summary has everything except what the time to retry depends on.
                    let mut after = match charge_decision.outcome {
                        OutcomeKind::Allowed => algorithm.summary(leases, timed_cost.now),
                        OutcomeKind::Denied => (*leases).clone(),
                    };
                    hold(&mut after, grant, timed_cost);
                    algorithm.outcome(&after, timed_cost, charge_decision)
                }
                _ => algorithm.outcome(leases, timed_cost, charge_decision),
            },
        }
    }
}

impl<'a> LimitStateMut<'a> {
    /// None if the limit keeps another kind of state.
    #[inline]
    pub fn new(algorithm: &'a Algorithm, state: &'a mut KeyState) -> Option<Self> {
        match (algorithm, state) {
            (Algorithm::Packed(algorithm), KeyState::Packed(state)) => Some(Self::Packed(algorithm, state)),
            (Algorithm::UsageLog(algorithm), KeyState::UsageLog(state)) => {
                Some(Self::UsageLog(algorithm, state))
            }
            (Algorithm::Leases(algorithm), KeyState::Leases(state)) => Some(Self::Leases(algorithm, state)),
            _ => None,
        }
    }

    /// Charges the request if it is due, and returns the outcome. `grant` is the lease of the plan.
    #[inline]
    pub fn charge(
        self,
        timed_cost: TimedCost,
        charge_decision: ChargeDecision,
        grant: Option<Grant>,
    ) -> Outcome {
        match self {
            Self::Packed(algorithm, state) => {
                algorithm.charge_if_due(state, timed_cost, charge_decision);
                algorithm.outcome(state, timed_cost, charge_decision)
            }
            Self::UsageLog(algorithm, state) => {
                algorithm.charge_if_due(state, timed_cost, charge_decision);
                algorithm.outcome(state, timed_cost, charge_decision)
            }
            Self::Leases(algorithm, state) => {
                if let Some(grant) = grant
                    && algorithm.is_charged(timed_cost, charge_decision)
                {
                    hold(state, grant, timed_cost);
                }
                algorithm.outcome(state, timed_cost, charge_decision)
            }
        }
    }

    /// Charges units that were used elsewhere since an instant. Only packed states can be counted.
    pub fn count_since(self, timed_cost: TimedCost, from: Timestamp) {
        if let Self::Packed(algorithm, state) = self {
            algorithm.count_since(state, timed_cost, from);
        }
    }

    /// Refunds a charge that counts from an instant on, if that is known. Leases are released by their owners
    /// instead.
    pub fn refund(self, timed_cost: TimedCost, counts_from: Option<Timestamp>) {
        match (self, counts_from) {
            (Self::Packed(algorithm, state), Some(from)) => algorithm.refund_charged(state, timed_cost, from),
            (Self::Packed(algorithm, state), None) => algorithm.refund(state, timed_cost),
            (Self::UsageLog(algorithm, state), Some(from)) => {
                algorithm.refund_charged(state, timed_cost, from);
            }
            (Self::UsageLog(algorithm, state), None) => algorithm.refund(state, timed_cost),
            (Self::Leases(..), _) => {}
        }
    }
}

/// Stores at most this many units: they are more than every limit, and so decide the same.
fn hold(leases: &mut Leases, grant: Grant, timed_cost: TimedCost) {
    leases.acquire(grant, timed_cost.cost.min(LEASE_UNITS_MAX), timed_cost.now);
}
