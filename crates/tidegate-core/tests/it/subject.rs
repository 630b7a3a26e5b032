//! The test subject: a limit and the state of one key, for any kind of state.

#![allow(dead_code, reason = "each test binary uses its own part")]

use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{
    Algorithm, ChargeDecision, Leases, Limit, LimitSpec, Nanos, Outcome, OutcomeKind, PackedState, TimedCost,
    Timestamp, UsageLog, Wait,
};

#[derive(Clone, Debug)]
pub struct Subject {
    limit: Limit,
    state: SubjectState,
}

/// All kinds of state side by side, so that a change of limit needs no conversion. Only the kind of the limit is used.
#[derive(Clone, Debug, Default)]
struct SubjectState {
    packed: PackedState,
    usage_log: UsageLog,
    leases: Leases,
}

/// Calls a method with the state that the limit uses.
macro_rules! with_state {
    ($subject:expr, |$algorithm:ident, $state:ident| $result:expr) => {
        match $subject.limit.algorithm() {
            Algorithm::Packed($algorithm) => {
                let $state = &$subject.state.packed;
                $result
            }
            Algorithm::UsageLog($algorithm) => {
                let $state = &$subject.state.usage_log;
                $result
            }
            Algorithm::Leases($algorithm) => {
                let $state = &$subject.state.leases;
                $result
            }
        }
    };
    ($subject:expr, mut |$algorithm:ident, $state:ident| $result:expr) => {
        match $subject.limit.algorithm() {
            Algorithm::Packed($algorithm) => {
                let $state = &mut $subject.state.packed;
                $result
            }
            Algorithm::UsageLog($algorithm) => {
                let $state = &mut $subject.state.usage_log;
                $result
            }
            Algorithm::Leases($algorithm) => {
                let $state = &mut $subject.state.leases;
                $result
            }
        }
    };
}

impl Subject {
    pub fn new(limit: Limit) -> Self {
        Self { limit, state: SubjectState::default() }
    }

    /// For specs that are known to be valid.
    pub fn from_spec(spec: &LimitSpec) -> Self {
        Self::new(build(spec))
    }

    /// A key with these words as its state, even if no limit would write them.
    pub fn with_words(limit: Limit, words: [u64; 2]) -> Self {
        Self {
            limit,
            state: SubjectState { packed: PackedState::from_words(words), ..SubjectState::default() },
        }
    }

    /// Keeps the state and changes the limit.
    pub fn change_limit(&mut self, spec: &LimitSpec) {
        self.limit = build(spec);
    }

    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    pub fn packed(&self) -> PackedState {
        self.state.packed
    }

    pub fn usage_log(&self) -> &UsageLog {
        &self.state.usage_log
    }

    pub fn leases(&self) -> &Leases {
        &self.state.leases
    }

    pub fn decide(&mut self, request: TimedCost) -> Outcome {
        with_state!(self, mut |algorithm, state| algorithm.decide(state, request))
    }

    pub fn outcome_kind(&self, request: TimedCost) -> OutcomeKind {
        with_state!(self, |algorithm, state| algorithm.outcome_kind(state, request))
    }

    pub fn charge(&mut self, request: TimedCost) {
        with_state!(self, mut |algorithm, state| algorithm.charge(state, request));
    }

    pub fn charge_over_limit(&mut self, request: TimedCost) {
        with_state!(self, mut |algorithm, state| algorithm.charge_over_limit(state, request));
    }

    pub fn refund(&mut self, request: TimedCost) {
        with_state!(self, mut |algorithm, state| algorithm.refund(state, request));
    }

    pub fn counts_from(&self, now: Timestamp) -> Timestamp {
        with_state!(self, |algorithm, state| algorithm.counts_from(state, now))
    }

    pub fn refund_charged(&mut self, request: TimedCost, from: Timestamp) {
        with_state!(self, mut |algorithm, state| algorithm.refund_charged(state, request, from));
    }

    pub fn charge_if_due(&mut self, request: TimedCost, charge_decision: ChargeDecision) {
        with_state!(self, mut |algorithm, state| algorithm.charge_if_due(state, request, charge_decision));
    }

    pub fn outcome(&self, request: TimedCost, charge_decision: ChargeDecision) -> Outcome {
        with_state!(self, |algorithm, state| algorithm.outcome(state, request, charge_decision))
    }

    pub fn preview(&self, request: TimedCost, charge_decision: ChargeDecision) -> Outcome {
        with_state!(self, |algorithm, state| algorithm.preview(state, request, charge_decision))
    }

    pub fn remaining(&self, now: Timestamp) -> u64 {
        with_state!(self, |algorithm, state| algorithm.remaining(state, now))
    }

    pub fn wait(&self, request: TimedCost) -> Wait {
        with_state!(self, |algorithm, state| algorithm.wait(state, request))
    }

    pub fn reset_after(&self, now: Timestamp) -> Nanos {
        with_state!(self, |algorithm, state| algorithm.reset_after(state, now))
    }

    pub fn delay(&self, request: TimedCost) -> Nanos {
        with_state!(self, |algorithm, state| algorithm.delay(state, request))
    }
}

/// Shorthand for [`TimedCost`].
pub fn timed_cost(now_ns: u64, cost: u64) -> TimedCost {
    TimedCost { now: Timestamp::from_nanos(now_ns), cost }
}

fn build(spec: &LimitSpec) -> Limit {
    spec.clone().build().unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}
