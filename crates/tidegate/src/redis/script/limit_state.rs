//! One charge of an order and the state of its key: what the core says of them.

use tidegate_core::algorithm::{Concurrency, LimitAlgorithm, UsageLogAlgorithm, PackedAlgorithm};
use tidegate_core::{
    Algorithm, TimedCost, Grant, Leases, UsageLog, Outcome, PackedState, Role, ChargeDecision, Timestamp, OutcomeKind,
};

use super::key_state::KeyState;
use super::term::{LEASE_UNITS_MAX, NANOS_PER_MICRO};
use crate::Outcomes;
use crate::grant::GrantPart;
use crate::redis::plan::RedisCharge;

/// A limit and what it has counted for a key.
pub(super) enum LimitState<'a> {
    Packed(&'a PackedAlgorithm, &'a PackedState),
    Ledger(&'a UsageLogAlgorithm, &'a UsageLog),
    Leases(&'a Concurrency, &'a Leases),
}

/// The same, to be changed.
pub(super) enum LimitStateMut<'a> {
    Packed(&'a PackedAlgorithm, &'a mut PackedState),
    Ledger(&'a UsageLogAlgorithm, &'a mut UsageLog),
    Leases(&'a Concurrency, &'a mut Leases),
}

/// What the outcomes of charges on these states are, if that is to be the fate of the request. States are those before it,
/// one for each charge; one that is missing is of a key never seen.
pub(in crate::redis) fn preview_outcomes(
    charges: &[RedisCharge],
    states: &[KeyState],
    at: Timestamp,
    fate: OutcomeKind,
) -> Outcomes {
    let never_seen: Vec<KeyState> =
        charges.iter().skip(states.len()).map(|charge| KeyState::never_seen(&charge.algorithm)).collect();
    let states = states.iter().chain(&never_seen);
    let lines = || {
        charges
            .iter()
            .zip(states.clone())
            .filter_map(|(charge, state)| Some((charge, LimitState::new(&charge.algorithm, state)?)))
    };
    let grant = plan_grant(lines(), at, fate).map(|part| part.grant(None));
    let preview = |(charge, line): (&RedisCharge, LimitState<'_>)| {
        let ask = TimedCost { now: at, cost: charge.cost };
        let ruling = ChargeDecision { outcome: line.outcome_kind(ask), decision: fate, role: charge.role };
        line.preview(ask, ruling, grant)
    };
    lines().map(preview).collect()
}

/// From when on a charge counts that was made at an instant, by the state before it, as the script is told it: in whole
/// microseconds, and not later than it is.
pub(in crate::redis) fn counts_from(charge: &RedisCharge, state: &KeyState, at: Timestamp) -> Timestamp {
    let from = match LimitState::new(&charge.algorithm, state) {
        Some(LimitState::Packed(one, state)) => one.counts_from(state, at),
        Some(LimitState::Ledger(one, state)) => one.counts_from(state, at),
        Some(LimitState::Leases(..)) | None => at,
    };
    whole_micros(from)
}

/// An instant as the script is told it. An earlier one gives back less.
pub(in crate::redis) fn whole_micros(instant: Timestamp) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanos() / NANOS_PER_MICRO * NANOS_PER_MICRO)
}

/// What the concurrency limits of a plan with this fate say of its lease; none if it takes none.
pub(super) fn plan_grant<'a>(
    lines: impl Iterator<Item = (&'a RedisCharge, LimitState<'a>)>,
    at: Timestamp,
    fate: OutcomeKind,
) -> Option<GrantPart> {
    let part = |(charge, line): (&RedisCharge, LimitState<'_>)| match line {
        LimitState::Leases(one, leases) => {
            let is_charged = one.is_charged(TimedCost { now: at, cost: charge.cost }, fate);
            is_charged.then(|| GrantPart::new(one, leases, charge.role, at))
        }
        _ => None,
    };
    lines.filter_map(part).reduce(GrantPart::merge)
}

/// What all limits that are enforced say together.
pub(super) fn decision_of(weighed: impl Iterator<Item = (OutcomeKind, Role)>) -> OutcomeKind {
    let enforced = weighed.filter(|(_, role)| *role == Role::Enforced).map(|(verdict, _)| verdict);
    enforced.max().unwrap_or(OutcomeKind::Allowed)
}

impl<'a> LimitState<'a> {
    /// None if the state is not of the kind that the limit keeps.
    #[inline]
    pub fn new(algorithm: &'a Algorithm, state: &'a KeyState) -> Option<Self> {
        match (algorithm, state) {
            (Algorithm::Packed(one), KeyState::Packed(state)) => Some(Self::Packed(one, state)),
            (Algorithm::UsageLog(one), KeyState::Ledger(state)) => Some(Self::Ledger(one, state)),
            (Algorithm::Leases(one), KeyState::Leases(state)) => Some(Self::Leases(one, state)),
            _ => None,
        }
    }

    #[inline]
    pub fn outcome_kind(&self, ask: TimedCost) -> OutcomeKind {
        match self {
            Self::Packed(one, state) => one.outcome_kind(state, ask),
            Self::Ledger(one, state) => one.outcome_kind(state, ask),
            Self::Leases(one, state) => one.outcome_kind(state, ask),
        }
    }

    /// The outcome, changing nothing. The lease is that of the plan.
    pub fn preview(&self, ask: TimedCost, ruling: ChargeDecision, grant: Option<Grant>) -> Outcome {
        match self {
            Self::Packed(one, state) => one.preview(state, ask, ruling),
            Self::Ledger(one, state) => one.preview(state, ask, ruling),
            Self::Leases(one, leases) => match grant {
                Some(grant) if one.is_charged(ask, ruling.decision) => {
                    // Only when to retry depends on more than the sketch shows.
                    let mut after = match ruling.outcome {
                        OutcomeKind::Allowed => one.summary(leases, ask.now),
                        OutcomeKind::Denied => (*leases).clone(),
                    };
                    hold(&mut after, grant, ask);
                    one.outcome(&after, ask, ruling)
                }
                _ => one.outcome(leases, ask, ruling),
            },
        }
    }
}

impl<'a> LimitStateMut<'a> {
    /// None if the state is not of the kind that the limit keeps.
    #[inline]
    pub fn new(algorithm: &'a Algorithm, state: &'a mut KeyState) -> Option<Self> {
        match (algorithm, state) {
            (Algorithm::Packed(one), KeyState::Packed(state)) => Some(Self::Packed(one, state)),
            (Algorithm::UsageLog(one), KeyState::Ledger(state)) => Some(Self::Ledger(one, state)),
            (Algorithm::Leases(one), KeyState::Leases(state)) => Some(Self::Leases(one, state)),
            _ => None,
        }
    }

    /// Charges the request if it is to be, and says what there is then. The lease is that of the plan.
    #[inline]
    pub fn charge(self, ask: TimedCost, ruling: ChargeDecision, grant: Option<Grant>) -> Outcome {
        match self {
            Self::Packed(one, state) => {
                one.charge_if_due(state, ask, ruling);
                one.outcome(state, ask, ruling)
            }
            Self::Ledger(one, state) => {
                one.charge_if_due(state, ask, ruling);
                one.outcome(state, ask, ruling)
            }
            Self::Leases(one, state) => {
                if let Some(grant) = grant
                    && one.is_charged(ask, ruling.decision)
                {
                    hold(state, grant, ask);
                }
                one.outcome(state, ask, ruling)
            }
        }
    }

    /// Gives back what counts from an instant on, if that is known. Leases are given back by whoever holds them.
    pub fn refund(self, ask: TimedCost, counts_from: Option<Timestamp>) {
        match (self, counts_from) {
            (Self::Packed(one, state), Some(from)) => one.refund_charged(state, ask, from),
            (Self::Packed(one, state), None) => one.refund(state, ask),
            (Self::Ledger(one, state), Some(from)) => one.refund_charged(state, ask, from),
            (Self::Ledger(one, state), None) => one.refund(state, ask),
            (Self::Leases(..), _) => {}
        }
    }
}

/// More than every limit is more than every limit: so much is written down.
fn hold(leases: &mut Leases, grant: Grant, ask: TimedCost) {
    leases.acquire(grant, ask.cost.min(LEASE_UNITS_MAX), ask.now);
}
