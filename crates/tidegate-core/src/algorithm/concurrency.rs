//! Concurrency: at most L units in flight, each held by a lease that is given back or runs out.
//!
//! Unlike the others it does not count what came in a time, but what has not left yet. A lease that is never given
//! back, because its holder crashed or because nobody asked for more than a yes, frees itself after the ttl; under
//! requests that never give anything back this is the sliding log of L per ttl.
//!
//! *Worst case:* L in flight; what a holder does after its lease ran out is kept out by the lease's
//! [`Fence`](crate::Fence). *State:* 24 bytes a lease.

use super::LimitAlgorithm;
use crate::leases::{Grant, Leases};
use crate::{TimedCost, Nanos, Rate, Timestamp, OutcomeKind, Wait};

/// L in flight, for the ttl at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// L per ttl.
    pub(crate) rate: Rate,
}

impl Concurrency {
    /// Units in flight per ttl.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// How long a lease lasts.
    pub fn ttl(&self) -> Nanos {
        Nanos::new(u128::from(self.rate.window_ns()))
    }

    /// The lease that would be handed out at `now`. One that would outlast representable time ends with it.
    pub fn next_grant(&self, leases: &Leases, now: Timestamp) -> Grant {
        let expires = leases.effective_now(now).saturating_add(self.ttl());
        Grant { expires, fencing_token: leases.next_fencing_token(now) }
    }
}

impl LimitAlgorithm for Concurrency {
    type State = Leases;

    fn outcome_kind(&self, leases: &Leases, ask: TimedCost) -> OutcomeKind {
        OutcomeKind::from_fits(leases.units_at(ask.now).saturating_add(ask.cost) <= self.rate.limit())
    }

    fn charge(&self, leases: &mut Leases, ask: TimedCost) {
        leases.acquire(self.next_grant(leases, ask.now), ask.cost, ask.now);
    }

    /// Leases are given back by whoever holds them, and by nobody else.
    fn refund(&self, _leases: &mut Leases, _ask: TimedCost) {}

    fn remaining(&self, leases: &Leases, now: Timestamp) -> u64 {
        self.rate.limit().saturating_sub(leases.units_at(now))
    }

    /// When enough leases run out. One that is given back earlier makes it earlier.
    fn wait(&self, leases: &Leases, ask: TimedCost) -> Wait {
        let Some(room) = self.rate.limit().checked_sub(ask.cost) else { return Wait::NEVER };
        match leases.when_at_most(room, ask.now) {
            Some(freed) => Wait::of(Nanos::between(ask.now, u128::from(freed.as_nanos()))),
            None => Wait::NONE,
        }
    }

    fn summary(&self, leases: &Leases, now: Timestamp) -> Leases {
        leases.summarized(now)
    }

    fn reset_after(&self, leases: &Leases, now: Timestamp) -> Nanos {
        match leases.reset_at() {
            ends if ends <= leases.effective_now(now) => Nanos::ZERO,
            ends => Nanos::between(now, u128::from(ends.as_nanos())),
        }
    }
}
