//! A request that waits for a limiter, over any store: how `queue/acquire.rs` asks the limiter.

use std::pin::Pin;
use std::time::Duration;

use tidegate_core::{ChargedAt, IntoKey, Nanos, Op, Plan, ReleaseRate, Timestamp, Wait};

use super::admitted::{GrantedUnits, LimiterRef};
use super::call::DecidedCall;
use super::{Admitted, Limiter, to_nanos};
use crate::memory::MemoryStore;
use crate::queue::{
    Acquire, AcquireFailure, AcquireOutput, Attempt, AttemptResult, Forecaster, WaitQueues, acquire,
};
use crate::store::{Ask, Store, Watch};
use crate::{Outcomes, Refused, Timer};

/// What a request waits for, and for how long.
pub(crate) struct AcquireParams {
    pub key: Box<[u8]>,
    pub cost: u64,
    /// The longest that its lease lasts, if the caller has set it.
    pub ttl: Option<Nanos>,
    pub max_wait: Option<Duration>,
}

impl AcquireParams {
    pub(crate) fn new(key: impl IntoKey, cost: u64) -> Self {
        Self { key: key.key_bytes().as_ref().into(), cost, ttl: None, max_wait: None }
    }

    /// Limits how long the lease lasts.
    pub(crate) fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(to_nanos(ttl)), ..self }
    }

    /// Limits how long the request waits.
    pub(crate) fn with_max_wait(self, max_wait: Duration) -> Self {
        Self { max_wait: Some(max_wait), ..self }
    }
}

/// Waits until a request is admitted.
pub(crate) async fn wait_until_admitted<'a, C: Timer + Send + Sync, S: Store>(
    limiter: LimiterRef<'a, C, S>,
    params: AcquireParams,
) -> Result<Admitted<'a, C, S>, Refused> {
    let AcquireParams { key, cost, ttl, max_wait } = params;
    let acquired = {
        let limiter = limiter.get();
        let forecaster =
            limiter.memory().map(|memory| LimiterForecaster { limiter, memory, key: &key, cost });
        acquire(&LimiterAcquire { limiter, key: &key, cost, ttl, forecaster }, max_wait).await
    };
    match acquired {
        Ok(AcquireOutput { units, waited }) => {
            Ok(Admitted::new(limiter, key, units.granted, ttl).with_waited(waited.as_duration()))
        }
        Err(AcquireFailure::Refused(refusal)) => Err(refusal.into()),
        Err(AcquireFailure::Error(refused)) => Err(refused),
    }
}

/// A request for units of a key of a limiter.
struct LimiterAcquire<'r, C, S> {
    limiter: &'r Limiter<C, S>,
    key: &'r [u8],
    cost: u64,
    /// The longest that a lease lasts, if the caller has set it.
    ttl: Option<Nanos>,
    forecaster: Option<LimiterForecaster<'r, C, S>>,
}

/// What a request was charged, with what a refund of it needs.
struct ChargedUnits {
    granted: GrantedUnits,
    /// When the request was charged, by the store's clock.
    charged_at: Timestamp,
    outcomes: Outcomes,
}

impl<'r, C: Timer + Send + Sync, S: Store> Acquire for LimiterAcquire<'r, C, S> {
    type Clock = C;
    type Forecaster = LimiterForecaster<'r, C, S>;
    /// Boxed, because the future of a waiting request has several copies of it.
    type Units = Box<ChargedUnits>;
    type Error = Refused;

    fn clock(&self) -> &C {
        &self.limiter.clock
    }

    fn queues(&self) -> &WaitQueues {
        &self.limiter.queues
    }

    fn key(&self) -> &[u8] {
        self.key
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn attempt_now(&self, at: Timestamp) -> Option<AttemptResult<Self>> {
        let forecaster = self.forecaster.as_ref()?;
        // Where denied attempts count, a waiting request only peeks until it can be admitted, so that it counts as one
        // attempt.
        if self.limiter.counts_denied(at) {
            let wait = forecaster.memory.wait(&forecaster.plan(at), at);
            if wait > Wait::NONE {
                return Some(Ok(Attempt::Wait(wait)));
            }
        }
        let plan = forecaster.plan(at);
        let ask = Ask { op: self.limiter.acquire_op(self.ttl, at), plan: &plan, now: at, deadline: None };
        let reply = forecaster.memory.ask_now(&ask);
        let decided = self.limiter.read_reply(&ask, Ok(reply));
        Some(to_attempt(decided, at))
    }

    fn attempt_later(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = AttemptResult<Self>> + Send + '_>> {
        Box::pin(async move {
            if self.limiter.counts_denied(at) {
                let wait = self.ask(Op::Peek, at).await?.decision.retry_after;
                if wait > Wait::NONE {
                    return Ok(Attempt::Wait(wait));
                }
            }
            let op = self.limiter.acquire_op(self.ttl, at);
            to_attempt(self.ask(op, at).await?, at)
        })
    }

    fn refund(&self, units: &Box<ChargedUnits>) {
        let ChargedUnits { granted, charged_at, outcomes } = &**units;
        let plan = self.limiter.plan(self.key, self.cost, granted.limits_at);
        let Some(LimiterForecaster { memory, .. }) = &self.forecaster else {
            let charged_at = ChargedAt::from_outcomes(&plan, outcomes, *charged_at);
            return self.limiter.undo_charge(self.key, self.cost, granted, charged_at);
        };
        let now = self.limiter.clock.now();
        if let Some(lease) = &granted.lease {
            let _ = memory.release(&plan, &lease.token, now);
        }
        memory.refund_delayed(&plan, outcomes, granted.limits_at, now);
        self.limiter.queue_group.wake(self.key, now);
    }

    fn watch(&self) -> Option<Watch> {
        let limiter = self.limiter;
        limiter.store.watch(&limiter.plan(self.key, self.cost, limiter.clock.now()))
    }

    fn forecaster(&self) -> Option<&Self::Forecaster> {
        self.forecaster.as_ref()
    }

    fn is_forecastable(&self, now: Timestamp) -> bool {
        !self.limiter.has_leases(now)
    }

    fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        self.limiter.next_expiry(now)
    }

    fn release_rate(&self, now: Timestamp) -> Option<ReleaseRate> {
        self.limiter.limits.release_rate(self.cost, now)
    }
}

impl<C: Timer + Send + Sync, S: Store> LimiterAcquire<'_, C, S> {
    /// Asks the store, as of an instant. Fails if the store does not answer and a limit's policy is to deny then.
    async fn ask(&self, op: Op, at: Timestamp) -> Result<DecidedCall, Refused> {
        let plan = self.limiter.plan(self.key, self.cost, at);
        let ask = Ask { op, plan: &plan, now: at, deadline: None };
        let reply = self.limiter.store.ask(&ask).reply().await;
        let decided = self.limiter.read_reply(&ask, reply);
        match decided.store_error {
            Some(failure) => Err(Refused::Store(failure)),
            None => Ok(decided),
        }
    }
}

fn to_attempt(decided: DecidedCall, at: Timestamp) -> Result<Attempt<Box<ChargedUnits>>, Refused> {
    let DecidedCall { decision, lease, at: charged_at, outcomes, .. } = decided;
    let (delay, remaining) = (decision.delay, decision.remaining);
    if decision.lease_memory_full {
        return Err(Refused::LeaseMemoryFull);
    }
    if !decision.is_allowed() {
        return Ok(Attempt::Wait(decision.retry_after));
    }
    let units = ChargedUnits {
        granted: GrantedUnits { decision, lease: lease.into_lease(), limits_at: at },
        charged_at,
        outcomes,
    };
    Ok(Attempt::Admitted { units: Box::new(units), delay, remaining })
}

/// Forecasts of a limiter with counters in memory.
struct LimiterForecaster<'r, C, S> {
    limiter: &'r Limiter<C, S>,
    memory: &'r MemoryStore,
    key: &'r [u8],
    cost: u64,
}

impl<C: Timer, S: Store> Forecaster for LimiterForecaster<'_, C, S> {
    fn store(&self) -> &MemoryStore {
        self.memory
    }

    fn plan(&self, now: Timestamp) -> Plan<'_> {
        self.limiter.plan(self.key, self.cost, now)
    }

    fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        self.limiter.next_expiry(now)
    }

    fn is_forecastable(&self, now: Timestamp) -> bool {
        !self.limiter.has_leases(now)
    }
}
