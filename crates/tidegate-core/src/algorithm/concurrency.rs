//! Concurrency: at most L units in flight, each held by a lease that is released or expires.
//!
//! Unlike the other algorithms, it does not count what came in a span of time, but what has not left yet. A lease that
//! is never released (because its holder crashed, or because a plain check took it) expires after the ttl. If no lease
//! is ever released, this is the sliding log of L per ttl.
//!
//! *Worst case:* L in flight. A holder that goes on after its lease expired is kept out by the lease's
//! [`FencingToken`](crate::FencingToken). *State:* 24 bytes per lease.

use super::{LimitAlgorithm, WorstCase, WorstCaseDetail, WorstCaseScope};
use crate::leases::{Grant, Leases};
use crate::{Nanos, OutcomeKind, Rate, TimedCost, Timestamp, Wait};

/// L in flight, each for at most the ttl.
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

    /// L in flight, and any number in a window, because leases are released.
    pub fn worst_case(&self) -> WorstCase {
        let detail = WorstCaseDetail::None;
        WorstCase { units: self.rate.limit(), scope: WorstCaseScope::InFlight, detail }
    }

    /// The lease that would be granted at `now`. It ends no later than representable time.
    pub fn next_grant(&self, leases: &Leases, now: Timestamp) -> Grant {
        let expires = leases.effective_now(now).saturating_add(self.ttl());
        Grant { expires, fencing_token: leases.next_fencing_token(now) }
    }
}

impl LimitAlgorithm for Concurrency {
    type State = Leases;

    fn outcome_kind(&self, leases: &Leases, request: TimedCost) -> OutcomeKind {
        OutcomeKind::from_fits(leases.units_at(request.now).saturating_add(request.cost) <= self.rate.limit())
    }

    fn charge(&self, leases: &mut Leases, request: TimedCost) {
        leases.acquire(self.next_grant(leases, request.now), request.cost, request.now);
    }

    /// Does nothing: only the holder of a lease can release it.
    fn refund(&self, _leases: &mut Leases, _request: TimedCost) {}

    fn remaining(&self, leases: &Leases, now: Timestamp) -> u64 {
        self.rate.limit().saturating_sub(leases.units_at(now))
    }

    /// When enough leases expire. A release makes it earlier.
    fn wait(&self, leases: &Leases, request: TimedCost) -> Wait {
        let Some(room) = self.rate.limit().checked_sub(request.cost) else { return Wait::NEVER };
        match leases.when_at_most(room, request.now) {
            Some(freed) => Wait::of(Nanos::between(request.now, u128::from(freed.as_nanos()))),
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
