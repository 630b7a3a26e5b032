//! Leaky bucket as a queue: what comes in bursts leaves evenly.
//!
//! Turner's bucket the other way up (1986): units leave in arrival order at least W/L apart, one that can
//! leave at once does not wait, and at most Q wait. An admitted request carries the delay until its last unit
//! leaves; whoever asked holds it for that long.
//!
//! With TAT the instant at which the next unit could leave, the units that wait at t number
//! ceil((TAT - t)·L/W) - 1, and c more fit if and only if (TAT - t)·L/W + c <= Q + 1. That is GCRA with a burst
//! of Q + 1, plus the delay.
//!
//! *Worst case:* Q + 1 admitted at once; what leaves never exceeds L per W. *State:* 16 bytes.

use super::{LimitAlgorithm, Gcra};
use crate::{TimedCost, Nanos, PackedState, Rate, Timestamp, OutcomeKind, Wait};

/// L per W, queue Q.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    departures: Gcra,
    queue: u64,
}

impl LeakyBucket {
    pub(crate) fn new(rate: Rate, queue: u64) -> Self {
        Self { departures: Gcra::new(rate, queue + 1), queue }
    }

    /// Units per window.
    pub fn rate(&self) -> Rate {
        self.departures.rate()
    }

    /// The same as a burst of Q + 1, which has the same state.
    #[inline]
    pub fn as_gcra(&self) -> &Gcra {
        &self.departures
    }

    /// The most units that may wait.
    pub fn queue(&self) -> u64 {
        self.queue
    }
}

impl LimitAlgorithm for LeakyBucket {
    type State = PackedState;

    #[inline]
    fn outcome_kind(&self, state: &PackedState, ask: TimedCost) -> OutcomeKind {
        self.departures.outcome_kind(state, ask)
    }

    #[inline]
    fn charge(&self, state: &mut PackedState, ask: TimedCost) {
        self.departures.charge(state, ask);
    }

    fn charge_over_limit(&self, state: &mut PackedState, ask: TimedCost) {
        self.departures.charge_over_limit(state, ask);
    }

    fn refund(&self, state: &mut PackedState, ask: TimedCost) {
        self.departures.refund(state, ask);
    }

    fn counts_from(&self, state: &PackedState, now: Timestamp) -> Timestamp {
        self.departures.counts_from(state, now)
    }

    fn refund_charged(&self, state: &mut PackedState, ask: TimedCost, from: Timestamp) {
        self.departures.refund_charged(state, ask, from);
    }

    #[inline]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        self.departures.remaining(state, now)
    }

    fn wait(&self, state: &PackedState, ask: TimedCost) -> Wait {
        self.departures.wait(state, ask)
    }

    #[inline]
    fn reset_after(&self, state: &PackedState, now: Timestamp) -> Nanos {
        self.departures.reset_after(state, now)
    }

    #[inline]
    fn delay(&self, state: &PackedState, ask: TimedCost) -> Nanos {
        self.departures.newest_departure_after(state, ask.now)
    }
}
