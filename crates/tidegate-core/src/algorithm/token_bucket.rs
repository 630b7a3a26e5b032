//! Token bucket: B tokens at the start, L per W flow in up to B, and every unit takes one.
//!
//! This is how most people picture a rate limit (Turner 1986, and every router since). A bucket with `n` tokens and a
//! GCRA arrival time hold the same information: the arrival time is the instant at which the bucket will be full again,
//!
//! ```text
//! tokens = B - (TAT - t) * L / W
//! ```
//!
//! so the exact, fractional level is kept as that arrival time. It needs no refill step, loses no fraction, and decides
//! exactly as [`Gcra`] does.
//!
//! *Worst case:* B + L·τ/W units in any span τ. *State:* 16 bytes.

use super::{Gcra, LimitAlgorithm, WorstCase};
use crate::{Nanos, OutcomeKind, PackedState, TimedCost, Timestamp, Wait};

/// L per W, burst B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket(pub(crate) Gcra);

impl TokenBucket {
    /// The same limit as a GCRA. Both have the same state.
    #[inline]
    pub fn as_gcra(&self) -> &Gcra {
        &self.0
    }

    /// That of the same limit as a GCRA.
    pub fn worst_case(&self) -> WorstCase {
        self.0.worst_case()
    }
}

impl LimitAlgorithm for TokenBucket {
    type State = PackedState;

    #[inline]
    fn outcome_kind(&self, state: &PackedState, request: TimedCost) -> OutcomeKind {
        self.0.outcome_kind(state, request)
    }

    #[inline]
    fn charge(&self, state: &mut PackedState, request: TimedCost) {
        self.0.charge(state, request);
    }

    fn charge_over_limit(&self, state: &mut PackedState, request: TimedCost) {
        self.0.charge_over_limit(state, request);
    }

    fn refund(&self, state: &mut PackedState, request: TimedCost) {
        self.0.refund(state, request);
    }

    fn counts_from(&self, state: &PackedState, now: Timestamp) -> Timestamp {
        self.0.counts_from(state, now)
    }

    fn count_since(&self, state: &mut PackedState, request: TimedCost, from: Timestamp) {
        self.0.count_since(state, request, from);
    }

    fn refund_charged(&self, state: &mut PackedState, request: TimedCost, from: Timestamp) {
        self.0.refund_charged(state, request, from);
    }

    #[inline]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        self.0.remaining(state, now)
    }

    fn wait(&self, state: &PackedState, request: TimedCost) -> Wait {
        self.0.wait(state, request)
    }

    #[inline]
    fn reset_after(&self, state: &PackedState, now: Timestamp) -> Nanos {
        self.0.reset_after(state, now)
    }
}
