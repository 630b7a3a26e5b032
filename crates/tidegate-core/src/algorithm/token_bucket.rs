//! Token bucket: B tokens at the start, L per W drip in up to B, every unit takes one.
//!
//! The picture most people have of a rate limit (Turner 1986, and every router since). A bucket with `n` tokens
//! and a GCRA arrival time are the same fact seen from two sides: the arrival time is when the bucket will be
//! full again,
//!
//! ```text
//! tokens = B - (TAT - t) * L / W
//! ```
//!
//! so the exact rational level is kept as that arrival time. It needs no refill step, loses no fraction, and
//! decides the same as [`Gcra`] to the last unit.
//!
//! *Worst case:* B + L·τ/W units in any span τ. *State:* 16 bytes.

use super::{LimitAlgorithm, Gcra};
use crate::{TimedCost, Nanos, PackedState, Timestamp, OutcomeKind, Wait};

/// L per W, burst B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket(pub(crate) Gcra);

impl TokenBucket {
    /// The same bucket seen from the other side, which has the same state.
    #[inline]
    pub fn as_gcra(&self) -> &Gcra {
        &self.0
    }
}

impl LimitAlgorithm for TokenBucket {
    type State = PackedState;

    #[inline]
    fn outcome_kind(&self, state: &PackedState, ask: TimedCost) -> OutcomeKind {
        self.0.outcome_kind(state, ask)
    }

    #[inline]
    fn charge(&self, state: &mut PackedState, ask: TimedCost) {
        self.0.charge(state, ask);
    }

    fn charge_over_limit(&self, state: &mut PackedState, ask: TimedCost) {
        self.0.charge_over_limit(state, ask);
    }

    fn refund(&self, state: &mut PackedState, ask: TimedCost) {
        self.0.refund(state, ask);
    }

    fn counts_from(&self, state: &PackedState, now: Timestamp) -> Timestamp {
        self.0.counts_from(state, now)
    }

    fn refund_charged(&self, state: &mut PackedState, ask: TimedCost, from: Timestamp) {
        self.0.refund_charged(state, ask, from);
    }

    #[inline]
    fn remaining(&self, state: &PackedState, now: Timestamp) -> u64 {
        self.0.remaining(state, now)
    }

    fn wait(&self, state: &PackedState, ask: TimedCost) -> Wait {
        self.0.wait(state, ask)
    }

    #[inline]
    fn reset_after(&self, state: &PackedState, now: Timestamp) -> Nanos {
        self.0.reset_after(state, now)
    }
}
