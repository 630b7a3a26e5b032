//! A request that waits for a limiter.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::{Nanos, Plan, Timestamp, Wait};

use super::request::{Attempt, Forecaster, Request};
use crate::holding::Admitted;
use crate::memory::MemoryStore;
use crate::{Clock, Limiter};

/// So much, for this key, of this limiter.
pub(crate) struct OfLimiter<'a, C> {
    pub limiter: &'a Limiter<C>,
    pub key: Box<[u8]>,
    pub cost: u64,
    /// How long what it is given may be held, if that is less than the limits would give.
    pub ttl: Option<Nanos>,
    /// Whether it gave something back that others have not been told of.
    gave_back: AtomicBool,
}

impl<'a, C: Clock> OfLimiter<'a, C> {
    pub(crate) fn new(limiter: &'a Limiter<C>, key: &[u8], cost: u64) -> Self {
        Self { limiter, key: key.into(), cost, ttl: None, gave_back: AtomicBool::new(false) }
    }

    /// The same, for what is held for no longer than `ttl`.
    pub(crate) fn held_for(self, ttl: Nanos) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Tells those who wait for the same units, if any were given back. Nothing is locked.
    pub(super) fn tell(&self) {
        if self.gave_back.swap(false, Ordering::Relaxed) {
            self.limiter.kin().nudge(&self.key, self.limiter.clock().now());
        }
    }
}

impl<C: Clock> Request for OfLimiter<'_, C> {
    type Given = Admitted;

    fn line(&self) -> &[u8] {
        &self.key
    }

    fn attempt(&self, at: Timestamp) -> Attempt<Admitted> {
        // A request that waits makes one attempt, when it is admitted: it asks without asking until then.
        if self.limiter.counts_denied(at) {
            let wait = self.limiter.store().wait(&self.plan(at), at);
            if wait > Wait::NONE {
                return Attempt::Wait(wait);
            }
        }
        let (decision, lease) = match self.limiter.has_leases(at) {
            true => self.limiter.lease_at(&self.key, self.cost, self.ttl, at),
            false => (self.limiter.check_at(&self.key, self.cost, at), None),
        };
        match decision.is_allowed() {
            true => Attempt::Admitted(Admitted { decision, lease, at }),
            false => Attempt::Wait(decision.retry_after),
        }
    }

    fn held(&self, admitted: &Admitted) -> Nanos {
        admitted.decision.delay
    }

    fn give_back(&self, admitted: &Admitted) {
        let (store, now) = (self.limiter.store(), self.limiter.clock().now());
        let plan = self.plan(now);
        if let Some(lease) = &admitted.lease {
            let _ = store.release(&plan, &lease.token, now);
        }
        store.refund_charged(&plan, Some(admitted.at), now);
        self.gave_back.store(true, Ordering::Relaxed);
    }
}

impl<C: Clock> Forecaster for OfLimiter<'_, C> {
    fn store(&self) -> &MemoryStore {
        self.limiter.store()
    }

    fn plan(&self, now: Timestamp) -> Plan<'_> {
        self.limiter.plan(&self.key, self.cost, now)
    }

    fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        self.limiter.retires(now)
    }

    fn is_foreseeable(&self, now: Timestamp) -> bool {
        !self.limiter.has_leases(now)
    }
}
