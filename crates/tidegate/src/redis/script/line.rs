//! One charge of an order and the state of its key: what the core says of them.

use tidegate_core::algorithm::{Concurrency, Counting, LedgerAlgorithm, PackedAlgorithm};
use tidegate_core::{
    Algorithm, Ask, Grant, Leases, Ledger, Outcome, Packed, Role, Ruling, Timestamp, Verdict,
};

use super::states::KeyState;
use super::term::{LEASE_UNITS_MAX, NANOS_PER_MICRO};
use crate::Outcomes;
use crate::grant::GrantPart;
use crate::redis::order::OrderCharge;

/// A limit and what it has counted for a key.
pub(super) enum Line<'a> {
    Packed(&'a PackedAlgorithm, &'a Packed),
    Ledger(&'a LedgerAlgorithm, &'a Ledger),
    Leases(&'a Concurrency, &'a Leases),
}

/// The same, to be changed.
pub(super) enum LineMut<'a> {
    Packed(&'a PackedAlgorithm, &'a mut Packed),
    Ledger(&'a LedgerAlgorithm, &'a mut Ledger),
    Leases(&'a Concurrency, &'a mut Leases),
}

/// What the outcomes of charges on these states are, if that is to be the fate of the request. States are those before it,
/// one for each charge; one that is missing is of a key never seen.
pub(in crate::redis) fn outcomes_of(
    charges: &[OrderCharge],
    states: &[KeyState],
    at: Timestamp,
    fate: Verdict,
) -> Outcomes {
    let never_seen: Vec<KeyState> =
        charges.iter().skip(states.len()).map(|charge| KeyState::never_seen(&charge.algorithm)).collect();
    let states = states.iter().chain(&never_seen);
    let lines = || {
        charges
            .iter()
            .zip(states.clone())
            .filter_map(|(charge, state)| Some((charge, Line::of(&charge.algorithm, state)?)))
    };
    let grant = grant(lines(), at, fate).map(|part| part.grant(None));
    let preview = |(charge, line): (&OrderCharge, Line<'_>)| {
        let ask = Ask { now: at, cost: charge.cost };
        let ruling = Ruling { verdict: line.weigh(ask), fate, role: charge.role };
        line.preview(ask, ruling, grant)
    };
    lines().map(preview).collect()
}

/// From when on a charge counts that was made at an instant, by the state before it, as the script is told it: in whole
/// microseconds, and not later than it is.
pub(in crate::redis) fn counts_from(charge: &OrderCharge, state: &KeyState, at: Timestamp) -> Timestamp {
    let from = match Line::of(&charge.algorithm, state) {
        Some(Line::Packed(one, state)) => one.counts_from(state, at),
        Some(Line::Ledger(one, state)) => one.counts_from(state, at),
        Some(Line::Leases(..)) | None => at,
    };
    whole_micros(from)
}

/// An instant as the script is told it. An earlier one gives back less.
pub(in crate::redis) fn whole_micros(instant: Timestamp) -> Timestamp {
    Timestamp::from_nanos(instant.as_nanos() / NANOS_PER_MICRO * NANOS_PER_MICRO)
}

/// What the concurrency limits of a plan with this fate say of its lease; none if it takes none.
pub(super) fn grant<'a>(
    lines: impl Iterator<Item = (&'a OrderCharge, Line<'a>)>,
    at: Timestamp,
    fate: Verdict,
) -> Option<GrantPart> {
    let part = |(charge, line): (&OrderCharge, Line<'_>)| match line {
        Line::Leases(one, leases) => {
            let is_charged = one.is_charged(Ask { now: at, cost: charge.cost }, fate);
            is_charged.then(|| GrantPart::of(one, leases, charge.role, at))
        }
        _ => None,
    };
    lines.filter_map(part).reduce(GrantPart::and)
}

/// What all limits that are enforced say together.
pub(super) fn fate(weighed: impl Iterator<Item = (Verdict, Role)>) -> Verdict {
    let enforced = weighed.filter(|(_, role)| *role == Role::Enforced).map(|(verdict, _)| verdict);
    enforced.max().unwrap_or(Verdict::Allowed)
}

impl<'a> Line<'a> {
    /// None if the state is not of the kind that the limit keeps.
    #[inline]
    pub fn of(algorithm: &'a Algorithm, state: &'a KeyState) -> Option<Self> {
        match (algorithm, state) {
            (Algorithm::Packed(one), KeyState::Packed(state)) => Some(Self::Packed(one, state)),
            (Algorithm::Ledger(one), KeyState::Ledger(state)) => Some(Self::Ledger(one, state)),
            (Algorithm::Leases(one), KeyState::Leases(state)) => Some(Self::Leases(one, state)),
            _ => None,
        }
    }

    #[inline]
    pub fn weigh(&self, ask: Ask) -> Verdict {
        match self {
            Self::Packed(one, state) => one.weigh(state, ask),
            Self::Ledger(one, state) => one.weigh(state, ask),
            Self::Leases(one, state) => one.weigh(state, ask),
        }
    }

    /// The outcome, changing nothing. The lease is that of the plan.
    pub fn preview(&self, ask: Ask, ruling: Ruling, grant: Option<Grant>) -> Outcome {
        match self {
            Self::Packed(one, state) => one.preview(state, ask, ruling),
            Self::Ledger(one, state) => one.preview(state, ask, ruling),
            Self::Leases(one, leases) => match grant {
                Some(grant) if one.is_charged(ask, ruling.fate) => {
                    // Only when to retry depends on more than the sketch shows.
                    let mut after = match ruling.verdict {
                        Verdict::Allowed => one.sketch(leases, ask.now),
                        Verdict::Denied => (*leases).clone(),
                    };
                    hold(&mut after, grant, ask);
                    one.report(&after, ask, ruling)
                }
                _ => one.report(leases, ask, ruling),
            },
        }
    }
}

impl<'a> LineMut<'a> {
    /// None if the state is not of the kind that the limit keeps.
    #[inline]
    pub fn of(algorithm: &'a Algorithm, state: &'a mut KeyState) -> Option<Self> {
        match (algorithm, state) {
            (Algorithm::Packed(one), KeyState::Packed(state)) => Some(Self::Packed(one, state)),
            (Algorithm::Ledger(one), KeyState::Ledger(state)) => Some(Self::Ledger(one, state)),
            (Algorithm::Leases(one), KeyState::Leases(state)) => Some(Self::Leases(one, state)),
            _ => None,
        }
    }

    /// Charges the request if it is to be, and says what there is then. The lease is that of the plan.
    #[inline]
    pub fn settle(self, ask: Ask, ruling: Ruling, grant: Option<Grant>) -> Outcome {
        match self {
            Self::Packed(one, state) => {
                one.settle(state, ask, ruling);
                one.report(state, ask, ruling)
            }
            Self::Ledger(one, state) => {
                one.settle(state, ask, ruling);
                one.report(state, ask, ruling)
            }
            Self::Leases(one, state) => {
                if let Some(grant) = grant
                    && one.is_charged(ask, ruling.fate)
                {
                    hold(state, grant, ask);
                }
                one.report(state, ask, ruling)
            }
        }
    }

    /// Gives back what counts from an instant on, if that is known. Leases are given back by whoever holds them.
    pub fn refund(self, ask: Ask, counts_from: Option<Timestamp>) {
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
fn hold(leases: &mut Leases, grant: Grant, ask: Ask) {
    leases.hold(grant, ask.cost.min(LEASE_UNITS_MAX), ask.now);
}
