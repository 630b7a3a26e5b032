//! A request that waits for a limiter in memory.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_core::{Nanos, Pace, Plan, Timestamp, Wait};

use super::acquire::{Acquire, Acquired, Attempt, Failure, acquire};
use super::forecast::Forecaster;
use super::queues::Queues;
use crate::limiter::{Admitted, Granted};
use crate::memory::MemoryStore;
use crate::{Limiter, Refused, Timer};

/// Units of a key of a limiter.
pub(crate) struct LimiterRequest<'a, C> {
    pub limiter: &'a Limiter<C>,
    pub key: Box<[u8]>,
    pub cost: u64,
    /// The longest that a lease lasts, if that is less than the limits allow.
    pub ttl: Option<Nanos>,
}

impl<'a, C> LimiterRequest<'a, C> {
    pub(crate) fn new(limiter: &'a Limiter<C>, key: &[u8], cost: u64) -> Self {
        Self { limiter, key: key.into(), cost, ttl: None }
    }

    /// The same, for a lease that lasts no longer than `ttl`.
    pub(crate) fn held_for(self, ttl: Nanos) -> Self {
        Self { ttl: Some(ttl), ..self }
    }
}

impl<'a, C: Timer> LimiterRequest<'a, C> {
    /// Waits until it is admitted, and holds what concurrency limits give.
    pub(crate) async fn admitted(self, max_wait: Option<Duration>) -> Result<Admitted<'a, C>, Refused> {
        let Acquired { given, waited } = acquire(&self, max_wait).await.map_err(|failure| match failure {
            Failure::Refused(refusal) => Refused::from(refusal),
        })?;
        Ok(Admitted::of(self.limiter, self.key, given, self.ttl).after(waited))
    }
}

impl<C: Timer> Acquire for LimiterRequest<'_, C> {
    type Clock = C;
    type Forecaster = Self;
    type Given = Granted;
    type Error = Infallible;

    fn clock(&self) -> &C {
        self.limiter.clock()
    }

    fn queues(&self) -> &Queues {
        self.limiter.queues()
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn attempt(&self, at: Timestamp) -> impl Future<Output = Result<Attempt<Granted>, Infallible>> + Send {
        std::future::ready(Ok(self.attempt_now(at)))
    }

    fn give_back(&self, admitted: &Granted) {
        let (store, now) = (self.limiter.store(), self.limiter.clock().now());
        let plan = self.plan(now);
        if let Some(lease) = &admitted.lease {
            let _ = store.release(&plan, &lease.token, now);
        }
        store.refund_charged(&plan, Some(admitted.at), now);
        self.limiter.queue_group().wake(&self.key, now);
    }

    fn forecaster(&self) -> Option<&Self> {
        Some(self)
    }

    fn is_foreseeable(&self, now: Timestamp) -> bool {
        !self.limiter.has_leases(now)
    }

    fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        self.limiter.retires(now)
    }

    fn pace(&self, _: Timestamp) -> Option<Pace> {
        None
    }
}

impl<C: Timer> LimiterRequest<'_, C> {
    fn attempt_now(&self, at: Timestamp) -> Attempt<Granted> {
        // A request that waits makes one attempt, when it is admitted: until then it only looks.
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
        let (delay, remaining) = (decision.delay, decision.remaining);
        match decision.is_allowed() {
            true => Attempt::Admitted { given: Granted { decision, lease, at }, delay, remaining },
            false => Attempt::Wait(decision.retry_after),
        }
    }
}

impl<C: Timer> Forecaster for LimiterRequest<'_, C> {
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
