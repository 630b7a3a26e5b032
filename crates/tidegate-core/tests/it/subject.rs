//! A limit and the state of one key, whichever kind of state that is: what the tests put questions to.

#![allow(dead_code, reason = "each test binary uses its own part")]

use tidegate_core::algorithm::Counting;
use tidegate_core::{
    Algorithm, Ask, Leases, Ledger, Limit, LimitSpec, Nanos, Outcome, Packed, Ruling, Timestamp, Verdict,
    Wait,
};

#[derive(Clone, Debug)]
pub struct Subject {
    limit: Limit,
    state: State,
}

/// All kinds side by side, so that a change of limit needs no conversion. Only the limit's own is ever used.
#[derive(Clone, Debug, Default)]
struct State {
    packed: Packed,
    ledger: Ledger,
    leases: Leases,
}

/// Puts one question to whichever state the limit counts in.
macro_rules! ask {
    ($subject:expr, |$algorithm:ident, $state:ident| $answer:expr) => {
        match $subject.limit.algorithm() {
            Algorithm::Packed($algorithm) => {
                let $state = &$subject.state.packed;
                $answer
            }
            Algorithm::Ledger($algorithm) => {
                let $state = &$subject.state.ledger;
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
            Algorithm::Ledger($algorithm) => {
                let $state = &mut $subject.state.ledger;
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
    pub fn never_seen(limit: Limit) -> Self {
        Self { limit, state: State::default() }
    }

    /// For specs that are valid by construction.
    pub fn of(spec: &LimitSpec) -> Self {
        Self::never_seen(built(spec))
    }

    /// A key whose state is these words, whether any limit would write them or not.
    pub fn with_words(limit: Limit, words: [u64; 2]) -> Self {
        Self { limit, state: State { packed: Packed::from_words(words), ..State::default() } }
    }

    /// Goes on with the same state under another limit.
    pub fn change_limit(&mut self, spec: &LimitSpec) {
        self.limit = built(spec);
    }

    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    pub fn packed(&self) -> Packed {
        self.state.packed
    }

    pub fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    pub fn leases(&self) -> &Leases {
        &self.state.leases
    }

    pub fn decide(&mut self, ask: Ask) -> Outcome {
        ask!(self, mut |algorithm, state| algorithm.decide(state, ask))
    }

    pub fn weigh(&self, ask: Ask) -> Verdict {
        ask!(self, |algorithm, state| algorithm.weigh(state, ask))
    }

    pub fn charge(&mut self, ask: Ask) {
        ask!(self, mut |algorithm, state| algorithm.charge(state, ask));
    }

    pub fn charge_over(&mut self, ask: Ask) {
        ask!(self, mut |algorithm, state| algorithm.charge_over(state, ask));
    }

    pub fn refund(&mut self, ask: Ask) {
        ask!(self, mut |algorithm, state| algorithm.refund(state, ask));
    }

    pub fn counts_from(&self, now: Timestamp) -> Timestamp {
        ask!(self, |algorithm, state| algorithm.counts_from(state, now))
    }

    pub fn refund_charged(&mut self, ask: Ask, from: Timestamp) {
        ask!(self, mut |algorithm, state| algorithm.refund_charged(state, ask, from));
    }

    pub fn settle(&mut self, ask: Ask, ruling: Ruling) {
        ask!(self, mut |algorithm, state| algorithm.settle(state, ask, ruling));
    }

    pub fn report(&self, ask: Ask, ruling: Ruling) -> Outcome {
        ask!(self, |algorithm, state| algorithm.report(state, ask, ruling))
    }

    pub fn preview(&self, ask: Ask, ruling: Ruling) -> Outcome {
        ask!(self, |algorithm, state| algorithm.preview(state, ask, ruling))
    }

    pub fn remaining(&self, now: Timestamp) -> u64 {
        ask!(self, |algorithm, state| algorithm.remaining(state, now))
    }

    pub fn wait(&self, ask: Ask) -> Wait {
        ask!(self, |algorithm, state| algorithm.wait(state, ask))
    }

    pub fn reset_after(&self, now: Timestamp) -> Nanos {
        ask!(self, |algorithm, state| algorithm.reset_after(state, now))
    }

    pub fn delay(&self, ask: Ask) -> Nanos {
        ask!(self, |algorithm, state| algorithm.delay(state, ask))
    }
}

/// Shorthand for [`Ask`], which tests write a lot of.
pub fn ask(now_ns: u64, cost: u64) -> Ask {
    Ask { now: Timestamp::from_nanos(now_ns), cost }
}

fn built(spec: &LimitSpec) -> Limit {
    spec.clone().build().unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}
