//! A request that waits for a limiter over a shared store.

use std::time::Duration;

use tidegate_core::{Nanos, Pace, Timestamp};

use super::acquire::{Acquire, Acquired, Attempt, Failure, acquire};
use super::no_forecaster::NoForecaster;
use super::queues::Queues;
use crate::limiter::{Admitted, Asking, LimiterRef, SharedGrant};
use crate::store::Store;
use crate::{Refused, StoreFailure, Timer};

/// Units of a key of a limiter.
pub(crate) struct SharedRequest<'a, C, S> {
    pub limiter: LimiterRef<'a, C, S>,
    pub key: Box<[u8]>,
    pub cost: u64,
    /// The longest that a lease lasts, if that is less than the limits allow.
    pub ttl: Option<Nanos>,
}

impl<'a, C: Timer + Send + Sync, S: Store> SharedRequest<'a, C, S> {
    /// Waits until it is admitted, and holds what concurrency limits give.
    pub(crate) async fn admitted(self, max_wait: Option<Duration>) -> Result<Admitted<'a, C, S>, Refused> {
        let Acquired { given, waited } = acquire(&self, max_wait).await.map_err(|failure| match failure {
            Failure::Refused(refusal) => Refused::from(refusal),
            Failure::Error(failure) => Refused::Store(failure),
        })?;
        Ok(Admitted::new(self.limiter, self.key, given.granted, self.ttl).after(waited))
    }
}

impl<C: Timer + Send + Sync, S: Store> Acquire for SharedRequest<'_, C, S> {
    type Clock = C;
    type Forecaster = NoForecaster;
    type Given = SharedGrant;
    type Error = StoreFailure;

    fn clock(&self) -> &C {
        self.limiter.get().clock()
    }

    fn queues(&self) -> &Queues {
        self.limiter.get().queues()
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    /// The store decides when it is asked, by its own clock.
    async fn attempt(&self, at: Timestamp) -> Result<Attempt<SharedGrant>, StoreFailure> {
        // A request that waits makes one attempt, when it is admitted: until then it only looks.
        if self.limiter.get().counts_denied(at) {
            let decision = Asking::peek(self.limiter.clone(), &self.key, self.cost).await?;
            if !decision.is_allowed() {
                return Ok(Attempt::Wait(decision.retry_after));
            }
        }
        let taken = Asking::take(self.limiter.clone(), &self.key, self.cost, self.ttl).await;
        Ok(match taken {
            Ok(given) => {
                let decision = &given.granted.decision;
                let (delay, remaining) = (decision.delay, decision.remaining);
                Attempt::Admitted { given, delay, remaining }
            }
            Err(Refused::OverLimit(decision)) => Attempt::Wait(decision.retry_after),
            Err(Refused::Store(failure)) => return Err(failure),
            Err(other) => unreachable!("a store that is asked once does not say {other:?}"),
        })
    }

    fn give_back(&self, given: &SharedGrant) {
        self.limiter.get().give_back(&self.key, self.cost, given);
    }

    fn forecaster(&self) -> Option<&NoForecaster> {
        None
    }

    fn is_foreseeable(&self, now: Timestamp) -> bool {
        !self.limiter.get().has_leases(now)
    }

    fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        self.limiter.get().retires(now)
    }

    fn pace(&self, now: Timestamp) -> Option<Pace> {
        self.limiter.get().pace(self.cost, now)
    }
}
