//! Leaky bucket as a queue: bursts come in, units leave evenly.
//!
//! Turner's bucket (1986) seen from the other side. Units leave in the order of arrival, at least W/L apart. A unit
//! that can leave immediately does not wait. At most Q units wait. An admitted request has a delay until its last unit
//! leaves, and the caller must hold it for that long.
//!
//! With TAT the instant at which the next unit could leave, ceil((TAT - t)·L/W) - 1 units wait at t, and c more fit if
//! and only if (TAT - t)·L/W + c <= Q + 1. That is GCRA with a burst of Q + 1, plus the delay.
//!
//! *Worst case:* Q + 1 admitted in an instant; what leaves never exceeds L per W. *State:* 16 bytes.

use super::{Gcra, LimitAlgorithm, WorstCase, WorstCaseDetail};
use crate::{Nanos, OutcomeKind, PackedState, Rate, TimedCost, Timestamp, Wait};

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

    /// The same limit as a GCRA with burst Q + 1. Both have the same state.
    #[inline]
    pub fn as_gcra(&self) -> &Gcra {
        &self.departures
    }

    /// One unit leaves, Q wait, and others take the place of those that leave. What leaves is a GCRA with burst 1.
    pub fn worst_case(&self) -> WorstCase {
        let leave = Gcra::new(self.rate(), 1).worst_case().units;
        self.departures.worst_case().with_detail(WorstCaseDetail::Leave(leave))
    }

    /// The most units that may wait.
    pub fn queue(&self) -> u64 {
        self.queue
    }
}

impl LimitAlgorithm for LeakyBucket {
    type State = PackedState;

    #[inline]
    fn outcome_kind(&self, state: &PackedState, request: TimedCost) -> OutcomeKind {
        self.departures.outcome_kind(state, request)
    }

    #[inline]
    fn charge(&self, state: &mut PackedState, request: TimedCost) {
        self.departures.charge(state, request);
    }

    fn charge_over_limit(&self, state: &mut PackedState, request: TimedCost) {
        self.departures.charge_over_limit(state, request);
    }

    fn refund(&self, state: &mut PackedState, request: TimedCost) {
        self.departures.refund(state, request);
    }

    fn counts_from(&self, state: &PackedState, now: Timestamp) -> Timestamp {
        self.departures.counts_from(state, now)
    }

    fn count_since(&self, state: &mut PackedState, request: TimedCost, from: Timestamp) {
        self.departures.count_since(state, request, from);
    }

    fn refund_charged(&self, state: &mut PackedState, request: TimedCost, from: Timestamp) {
        self.departures.refund_charged(state, request, from);
    }

    #[inline]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        self.departures.remaining(state, now)
    }

    fn wait(&self, state: &PackedState, request: TimedCost) -> Wait {
        self.departures.wait(state, request)
    }

    #[inline]
    fn reset_after(&self, state: &PackedState, now: Timestamp) -> Nanos {
        self.departures.reset_after(state, now)
    }

    #[inline]
    fn delay(&self, state: &PackedState, request: TimedCost) -> Nanos {
        self.departures.newest_departure_after(state, request.now)
    }
}
