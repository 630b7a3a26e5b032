//! Forecasts: copies of a plan's states, on which the requests of a queue are simulated.

use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{
    Algorithm, Charge, Leases, Nanos, PackedState, Plan, TimedCost, Timestamp, UsageLog, Wait,
};

use super::MemoryStore;
use super::shards::shard_of;
use super::transaction::PlanVec;

/// Copies of the states of a plan's enforced charges, in its order. Observed charges cause no wait.
#[derive(Clone, Debug)]
pub(crate) struct StateForecast {
    states: PlanVec<ForecastState>,
}

#[derive(Clone, Debug)]
enum ForecastState {
    Packed(PackedState),
    UsageLog(UsageLog),
    Leases(Leases),
}

/// A request to simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForecastRequest {
    pub cost: u64,
    /// It cannot be decided before this instant.
    pub from: Timestamp,
    /// It must leave by this instant.
    pub deadline: Option<Timestamp>,
}

/// The result of a simulated request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForecastAdmission {
    /// It leaves at this instant, and is charged.
    At(Timestamp),
    /// It would leave at this instant, after its deadline. It is not charged.
    TooLate(Timestamp),
    /// It can never leave. It is not charged.
    Never,
}

impl MemoryStore {
    /// Copies the states of a plan. Leases can be released at any time, so the copies of a concurrency limit give only
    /// the current wait.
    pub(crate) fn forecast(&self, plan: &Plan<'_>) -> StateForecast {
        let state = |charge| {
            let tag = self.seed.tag_of_charge(charge);
            match charge.counter.algorithm() {
                Algorithm::Packed(_) => ForecastState::Packed(self.read_packed(tag).state),
                Algorithm::UsageLog(_) => ForecastState::UsageLog(
                    self.usage_logs.lock(shard_of(tag)).with_state(tag, UsageLog::clone),
                ),
                Algorithm::Leases(_) => {
                    ForecastState::Leases(self.leases.lock(shard_of(tag)).with_state(tag, Leases::clone))
                }
            }
        };
        StateForecast { states: plan.enforced().map(state).collect() }
    }

    /// The wait until all enforced limits of a plan admit it. Charges nothing, and does not count as an attempt.
    pub(crate) fn wait(&self, plan: &Plan<'_>, now: Timestamp) -> Wait {
        let wait = |charge: &Charge<'_>| {
            let (tag, timed_cost) = (self.seed.tag_of_charge(charge), TimedCost { now, cost: charge.cost });
            match charge.counter.algorithm() {
                Algorithm::Packed(one) => one.wait(&self.read_packed(tag).state, timed_cost),
                Algorithm::UsageLog(one) => {
                    self.usage_logs.lock(shard_of(tag)).with_state(tag, |log| one.wait(log, timed_cost))
                }
                Algorithm::Leases(one) => {
                    self.leases.lock(shard_of(tag)).with_state(tag, |leases| one.wait(leases, timed_cost))
                }
            }
        };
        plan.enforced().map(wait).max().unwrap_or(Wait::NONE)
    }
}

impl StateForecast {
    /// Whether these are the states of this plan. The number of charges suffices, because a plan only loses superseded
    /// limits.
    pub(crate) fn is_for(&self, plan: &Plan<'_>) -> bool {
        self.states.len() == plan.enforced().count()
    }

    /// Simulates a request that leaves when its delay is over.
    pub(crate) fn admit(&mut self, plan: &Plan<'_>, request: ForecastRequest) -> ForecastAdmission {
        self.simulate(plan, request, |states, timed_cost| states.delay(plan, timed_cost))
    }

    /// Simulates a request that leaves when it is admitted. Its caller waits for the delay.
    #[cfg(feature = "rules")]
    pub(crate) fn admit_undelayed(&mut self, plan: &Plan<'_>, request: ForecastRequest) -> ForecastAdmission {
        self.simulate(plan, request, |_, _| Nanos::ZERO)
    }

    fn simulate(
        &mut self,
        plan: &Plan<'_>,
        request: ForecastRequest,
        delay: impl Fn(&Self, TimedCost) -> Nanos,
    ) -> ForecastAdmission {
        let cost = request.cost;
        let Some(wait) = self.wait(plan, TimedCost { now: request.from, cost }).span() else {
            return ForecastAdmission::Never;
        };
        let timed_cost = TimedCost { now: request.from.saturating_add(wait), cost };
        let leaves_at = timed_cost.now.saturating_add(delay(self, timed_cost));
        if request.deadline.is_some_and(|deadline| leaves_at > deadline) {
            return ForecastAdmission::TooLate(leaves_at);
        }
        if cost > 0 {
            self.charge(plan, timed_cost);
        }
        ForecastAdmission::At(leaves_at)
    }

    /// The wait until all limits of the plan admit the cost. Charges nothing.
    pub(crate) fn wait(&self, plan: &Plan<'_>, timed_cost: TimedCost) -> Wait {
        let wait = |(charge, state): (&Charge<'_>, &ForecastState)| match (charge.counter.algorithm(), state)
        {
            (Algorithm::Packed(one), ForecastState::Packed(state)) => one.wait(state, timed_cost),
            (Algorithm::UsageLog(one), ForecastState::UsageLog(state)) => one.wait(state, timed_cost),
            (Algorithm::Leases(one), ForecastState::Leases(state)) => one.wait(state, timed_cost),
            _ => Wait::NONE,
        };
        plan.enforced().zip(&self.states).map(wait).max().unwrap_or(Wait::NONE)
    }

    /// How long the request is delayed after its admission. Usage logs have no delay.
    fn delay(&self, plan: &Plan<'_>, timed_cost: TimedCost) -> Nanos {
        let delay = |(charge, state): (&Charge<'_>, &ForecastState)| match (charge.counter.algorithm(), state)
        {
            (Algorithm::Packed(one), ForecastState::Packed(state)) if timed_cost.cost > 0 => {
                let mut after = *state;
                one.charge(&mut after, timed_cost);
                one.delay(&after, timed_cost)
            }
            _ => Nanos::ZERO,
        };
        plan.enforced().zip(&self.states).map(delay).max().unwrap_or_default()
    }

    fn charge(&mut self, plan: &Plan<'_>, timed_cost: TimedCost) {
        for (charge, state) in plan.enforced().zip(&mut self.states) {
            match (charge.counter.algorithm(), state) {
                (Algorithm::Packed(one), ForecastState::Packed(state)) => one.charge(state, timed_cost),
                (Algorithm::UsageLog(one), ForecastState::UsageLog(state)) => one.charge(state, timed_cost),
                _ => {}
            }
        }
    }
}
