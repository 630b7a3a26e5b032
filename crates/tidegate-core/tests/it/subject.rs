//! A limit and the state of one key, whichever kind of state that is: what the tests put questions to.

#![allow(dead_code, reason = "each test binary uses its own part")]

use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{
    Algorithm, TimedCost, Leases, UsageLog, Limit, LimitSpec, Nanos, Outcome, PackedState, ChargeDecision, Timestamp, OutcomeKind,
    Wait,
};

#[derive(Clone, Debug)]
pub struct Subject {
    limit: Limit,
    state: SubjectState,
}

/// All kinds side by side, so that a change of limit needs no conversion. Only the limit's own is ever used.
#[derive(Clone, Debug, Default)]
struct SubjectState {
    packed: PackedState,
    usage_log: UsageLog,
    leases: Leases,
}

/// Puts one question to whichever state the limit counts in.
macro_rules! with_state {
    ($subject:expr, |$algorithm:ident, $state:ident| $answer:expr) => {
        match $subject.limit.algorithm() {
            Algorithm::Packed($algorithm) => {
                let $state = &$subject.state.packed;
                $answer
            }
            Algorithm::UsageLog($algorithm) => {
                let $state = &$subject.state.usage_log;
                $answer
            }
            Algorithm::Leases($algorithm) => {
                let $state = &$subject.state.leases;
                $answer
            }
        }
    };
    ($subject:expr, mut |$algorithm:ident, $state:ident| $answer:expr) => {
        match $subject.limit.algorithm() {
            Algorithm::Packed($algorithm) => {
                let $state = &mut $subject.state.packed;
                $answer
            }
            Algorithm::UsageLog($algorithm) => {
                let $state = &mut $subject.state.usage_log;
                $answer
            }
            Algorithm::Leases($algorithm) => {
                let $state = &mut $subject.state.leases;
                $answer
            }
        }
    };
}

impl Subject {
    pub fn new(limit: Limit) -> Self {
        Self { limit, state: SubjectState::default() }
    }

    /// For specs that are valid by construction.
    pub fn from_spec(spec: &LimitSpec) -> Self {
        Self::new(build(spec))
    }

    /// A key whose state is these words, whether any limit would write them or not.
    pub fn with_words(limit: Limit, words: [u64; 2]) -> Self {
        Self { limit, state: SubjectState { packed: PackedState::from_words(words), ..SubjectState::default() } }
    }

    /// Goes on with the same state under another limit.
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

    pub fn decide(&mut self, ask: TimedCost) -> Outcome {
        with_state!(self, mut |algorithm, state| algorithm.decide(state, ask))
    }

    pub fn outcome_kind(&self, ask: TimedCost) -> OutcomeKind {
        with_state!(self, |algorithm, state| algorithm.outcome_kind(state, ask))
    }

    pub fn charge(&mut self, ask: TimedCost) {
        with_state!(self, mut |algorithm, state| algorithm.charge(state, ask));
    }

    pub fn charge_over_limit(&mut self, ask: TimedCost) {
        with_state!(self, mut |algorithm, state| algorithm.charge_over_limit(state, ask));
    }

    pub fn refund(&mut self, ask: TimedCost) {
        with_state!(self, mut |algorithm, state| algorithm.refund(state, ask));
    }

    pub fn counts_from(&self, now: Timestamp) -> Timestamp {
        with_state!(self, |algorithm, state| algorithm.counts_from(state, now))
    }

    pub fn refund_charged(&mut self, ask: TimedCost, from: Timestamp) {
        with_state!(self, mut |algorithm, state| algorithm.refund_charged(state, ask, from));
    }

    pub fn charge_if_due(&mut self, ask: TimedCost, ruling: ChargeDecision) {
        with_state!(self, mut |algorithm, state| algorithm.charge_if_due(state, ask, ruling));
    }

    pub fn outcome(&self, ask: TimedCost, ruling: ChargeDecision) -> Outcome {
        with_state!(self, |algorithm, state| algorithm.outcome(state, ask, ruling))
    }

    pub fn preview(&self, ask: TimedCost, ruling: ChargeDecision) -> Outcome {
        with_state!(self, |algorithm, state| algorithm.preview(state, ask, ruling))
    }

    pub fn remaining(&self, now: Timestamp) -> u64 {
        with_state!(self, |algorithm, state| algorithm.remaining(state, now))
    }

    pub fn wait(&self, ask: TimedCost) -> Wait {
        with_state!(self, |algorithm, state| algorithm.wait(state, ask))
    }

    pub fn reset_after(&self, now: Timestamp) -> Nanos {
        with_state!(self, |algorithm, state| algorithm.reset_after(state, now))
    }

    pub fn delay(&self, ask: TimedCost) -> Nanos {
        with_state!(self, |algorithm, state| algorithm.delay(state, ask))
    }
}

/// Shorthand for [`Ask`], which tests write a lot of.
pub fn timed_cost(now_ns: u64, cost: u64) -> TimedCost {
    TimedCost { now: Timestamp::from_nanos(now_ns), cost }
}

fn build(spec: &LimitSpec) -> Limit {
    spec.clone().build().unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}
