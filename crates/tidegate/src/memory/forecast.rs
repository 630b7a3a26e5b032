//! What would be decided later: copies of a plan's states, on which requests that still wait are played out.

use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{Algorithm, TimedCost, Charge, Leases, UsageLog, Nanos, PackedState, Plan, Timestamp, Wait};

use super::MemoryStore;
use super::shards::shard_of;
use super::transaction::PlanVec;

/// Copies of the states that a plan's enforced charges touch, in its order. Those that look on make nobody wait.
#[derive(Clone, Debug)]
pub(crate) struct StateForecast {
    states: PlanVec<ForecastState>,
}

#[derive(Clone, Debug)]
enum ForecastState {
    Packed(PackedState),
    Ledger(UsageLog),
    Leases(Leases),
}

/// A request to play out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForecastRequest {
    pub cost: u64,
    /// It cannot be decided before this instant.
    pub from: Timestamp,
    /// It gives up if it cannot be let go by this one.
    pub deadline: Option<Timestamp>,
}

/// How a request that was played out would end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForecastAdmission {
    /// Let go at this instant, and charged.
    At(Timestamp),
    /// Let go at this instant if it did not give up; not charged.
    TooLate(Timestamp),
    /// Not let go ever; not charged.
    Never,
}

impl MemoryStore {
    /// The states of a plan, to be played with. Nobody knows when leases are given back, so those of a concurrency
    /// limit are good for how long it has to be waited for as things are, and for no more.
    pub(crate) fn forecast(&self, plan: &Plan<'_>) -> StateForecast {
        let state = |charge| {
            let tag = self.seed.tag(charge);
            match charge.counter.algorithm() {
                Algorithm::Packed(_) => ForecastState::Packed(self.read_packed(tag).state),
                Algorithm::UsageLog(_) => {
                    ForecastState::Ledger(self.ledgers.lock(shard_of(tag)).with_state(tag, UsageLog::clone))
                }
                Algorithm::Leases(_) => {
                    ForecastState::Leases(self.leases.lock(shard_of(tag)).with_state(tag, Leases::clone))
                }
            }
        };
        StateForecast { states: plan.enforced().map(state).collect() }
    }

    /// The wait until all enforced limits of a plan admit it, which nothing is charged for, not even an attempt.
    pub(crate) fn wait(&self, plan: &Plan<'_>, now: Timestamp) -> Wait {
        let wait = |charge: &Charge<'_>| {
            let (tag, ask) = (self.seed.tag(charge), TimedCost { now, cost: charge.cost });
            match charge.counter.algorithm() {
                Algorithm::Packed(one) => one.wait(&self.read_packed(tag).state, ask),
                Algorithm::UsageLog(one) => {
                    self.ledgers.lock(shard_of(tag)).with_state(tag, |ledger| one.wait(ledger, ask))
                }
                Algorithm::Leases(one) => {
                    self.leases.lock(shard_of(tag)).with_state(tag, |leases| one.wait(leases, ask))
                }
            }
        };
        plan.enforced().map(wait).max().unwrap_or(Wait::NONE)
    }
}

impl StateForecast {
    /// Whether these are the states of such a plan. One whose limits were changed gets shorter with time.
    pub(crate) fn is_for(&self, plan: &Plan<'_>) -> bool {
        self.states.len() == plan.enforced().count()
    }

    /// Plays a request out that is let go when its delay is over.
    pub(crate) fn admit(&mut self, plan: &Plan<'_>, pending: ForecastRequest) -> ForecastAdmission {
        self.simulate(plan, pending, |states, ask| states.delay(plan, ask))
    }

    /// Plays a request out that is let go when it is admitted, and waits for its delay somewhere else.
    #[cfg(feature = "rules")]
    pub(crate) fn admit_undelayed(&mut self, plan: &Plan<'_>, pending: ForecastRequest) -> ForecastAdmission {
        self.simulate(plan, pending, |_, _| Nanos::ZERO)
    }

    fn simulate(&mut self, plan: &Plan<'_>, pending: ForecastRequest, delay: impl Fn(&Self, TimedCost) -> Nanos) -> ForecastAdmission {
        let cost = pending.cost;
        let Some(wait) = self.wait(plan, TimedCost { now: pending.from, cost }).span() else {
            return ForecastAdmission::Never;
        };
        let ask = TimedCost { now: pending.from.saturating_add(wait), cost };
        let leaves = ask.now.saturating_add(delay(self, ask));
        if pending.deadline.is_some_and(|deadline| leaves > deadline) {
            return ForecastAdmission::TooLate(leaves);
        }
        if cost > 0 {
            self.charge(plan, ask);
        }
        ForecastAdmission::At(leaves)
    }

    /// The wait until all limits of the plan admit the cost, which nothing is charged for.
    pub(crate) fn wait(&self, plan: &Plan<'_>, ask: TimedCost) -> Wait {
        let wait = |(charge, state): (&Charge<'_>, &ForecastState)| match (charge.counter.algorithm(), state) {
            (Algorithm::Packed(one), ForecastState::Packed(state)) => one.wait(state, ask),
            (Algorithm::UsageLog(one), ForecastState::Ledger(state)) => one.wait(state, ask),
            (Algorithm::Leases(one), ForecastState::Leases(state)) => one.wait(state, ask),
            _ => Wait::NONE,
        };
        plan.enforced().zip(&self.states).map(wait).max().unwrap_or(Wait::NONE)
    }

    /// How long the request would be held once it is admitted. Ledgers hold nothing.
    fn delay(&self, plan: &Plan<'_>, ask: TimedCost) -> Nanos {
        let delay = |(charge, state): (&Charge<'_>, &ForecastState)| match (charge.counter.algorithm(), state) {
            (Algorithm::Packed(one), ForecastState::Packed(state)) if ask.cost > 0 => {
                let mut after = *state;
                one.charge(&mut after, ask);
                one.delay(&after, ask)
            }
            _ => Nanos::ZERO,
        };
        plan.enforced().zip(&self.states).map(delay).max().unwrap_or_default()
    }

    fn charge(&mut self, plan: &Plan<'_>, ask: TimedCost) {
        for (charge, state) in plan.enforced().zip(&mut self.states) {
            match (charge.counter.algorithm(), state) {
                (Algorithm::Packed(one), ForecastState::Packed(state)) => one.charge(state, ask),
                (Algorithm::UsageLog(one), ForecastState::Ledger(state)) => one.charge(state, ask),
                _ => {}
            }
        }
    }
}
