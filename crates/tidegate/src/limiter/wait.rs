//! A request that waits for a limiter, over any store.

use std::pin::Pin;
use std::time::Duration;

use tidegate_core::{ChargedAt, IntoKey, Nanos, Op, Pace, Plan, Timestamp, Wait};

use super::admitted::{Granted, LimiterRef};
use super::asking::Concluded;
use super::{Admitted, Limiter, span};
use crate::memory::MemoryStore;
use crate::store::{Ask, Store, Watch};
use crate::waiting::{Acquire, Acquired, Attempt, Attempted, Failure, Forecaster, Queues, acquire};
use crate::{Outcomes, Refused, Timer};

/// What a request waits for.
pub(crate) struct Wanted {
    pub key: Box<[u8]>,
    pub cost: u64,
    /// How long it holds, if that is less than the limits would give.
    pub ttl: Option<Nanos>,
    pub max_wait: Option<Duration>,
}

impl Wanted {
    pub(crate) fn new(key: impl IntoKey, cost: u64) -> Self {
        Self { key: key.key_bytes().as_ref().into(), cost, ttl: None, max_wait: None }
    }

    /// The same, with a lease that lasts no longer than `ttl`.
    pub(crate) fn held_for(self, ttl: Duration) -> Self {
        Self { ttl: Some(span(ttl)), ..self }
    }

    /// The same, waiting no longer than `max_wait`.
    pub(crate) fn within(self, max_wait: Duration) -> Self {
        Self { max_wait: Some(max_wait), ..self }
    }
}

/// Waits until a request is admitted.
pub(crate) async fn until_admitted<'a, C: Timer + Send + Sync, S: Store>(
    limiter: LimiterRef<'a, C, S>,
    wanted: Wanted,
) -> Result<Admitted<'a, C, S>, Refused> {
    let Wanted { key, cost, ttl, max_wait } = wanted;
    let acquired = {
        let limiter = limiter.get();
        let memory = limiter.store.local().filter(|_| limiter.store.is_local());
        let forecaster = memory.map(|memory| LimiterForecaster { limiter, memory, key: &key, cost });
        acquire(&LimiterRequest { limiter, key: &key, cost, ttl, forecaster }, max_wait).await
    };
    match acquired {
        Ok(Acquired { given, waited }) => {
            Ok(Admitted::new(limiter, key, given.granted, ttl).after(waited.as_duration()))
        }
        Err(Failure::Refused(refusal)) => Err(refusal.into()),
        Err(Failure::Error(refused)) => Err(refused),
    }
}

/// Units of a key of a limiter.
struct LimiterRequest<'r, C, S> {
    limiter: &'r Limiter<C, S>,
    key: &'r [u8],
    cost: u64,
    /// The longest that a lease lasts, if that is less than the limits allow.
    ttl: Option<Nanos>,
    forecaster: Option<LimiterForecaster<'r, C, S>>,
}

/// What a request was given. The rest is needed to give it back.
struct Given {
    granted: Granted,
    /// When it was charged, by the store's clock.
    charged_at: Timestamp,
    outcomes: Outcomes,
}

impl<'r, C: Timer + Send + Sync, S: Store> Acquire for LimiterRequest<'r, C, S> {
    type Clock = C;
    type Forecaster = LimiterForecaster<'r, C, S>;
    /// In a box, because a request that waits makes room for it in several places.
    type Given = Box<Given>;
    type Error = Refused;

    fn clock(&self) -> &C {
        &self.limiter.clock
    }

    fn queues(&self) -> &Queues {
        &self.limiter.queues
    }

    fn key(&self) -> &[u8] {
        self.key
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn attempt_now(&self, at: Timestamp) -> Option<Attempted<Self>> {
        let forecaster = self.forecaster.as_ref()?;
        // A request that waits makes one attempt, when it is admitted: until then it only looks, where attempts count.
        if self.limiter.counts_denied(at) {
            let wait = forecaster.memory.wait(&forecaster.plan(at), at);
            if wait > Wait::NONE {
                return Some(Ok(Attempt::Wait(wait)));
            }
        }
        let plan = forecaster.plan(at);
        let ask = Ask { op: self.limiter.op_that_takes(self.ttl, at), plan: &plan, now: at, deadline: None };
        let reply = forecaster.memory.ask_now(&ask);
        let concluded = self.limiter.conclude(&ask, Ok(reply));
        Some(Ok(attempted(concluded, at)))
    }

    fn attempt_later(&self, at: Timestamp) -> Pin<Box<dyn Future<Output = Attempted<Self>> + Send + '_>> {
        Box::pin(async move {
            if self.limiter.counts_denied(at) {
                let wait = self.ask(Op::Peek, at).await?.decision.retry_after;
                if wait > Wait::NONE {
                    return Ok(Attempt::Wait(wait));
                }
            }
            let op = self.limiter.op_that_takes(self.ttl, at);
            Ok(attempted(self.ask(op, at).await?, at))
        })
    }

    fn give_back(&self, given: &Box<Given>) {
        let Given { granted, charged_at, outcomes } = &**given;
        let plan = self.limiter.plan(self.key, self.cost, granted.at);
        let Some(LimiterForecaster { memory, .. }) = &self.forecaster else {
            let charged_at = ChargedAt::of(&plan, outcomes, *charged_at);
            return self.limiter.give_back(self.key, self.cost, granted, charged_at);
        };
        let now = self.limiter.clock.now();
        if let Some(lease) = &granted.lease {
            let _ = memory.release(&plan, &lease.token, now);
        }
        memory.refund_delayed(&plan, outcomes, granted.at, now);
        self.limiter.queue_group.wake(self.key, now);
    }

    fn watch(&self) -> Option<Watch> {
        let limiter = self.limiter;
        limiter.store.watch(&limiter.plan(self.key, self.cost, limiter.clock.now()))
    }

    fn forecaster(&self) -> Option<&Self::Forecaster> {
        self.forecaster.as_ref()
    }

    fn is_foreseeable(&self, now: Timestamp) -> bool {
        !self.limiter.has_leases(now)
    }

    fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        self.limiter.retires(now)
    }

    fn pace(&self, now: Timestamp) -> Option<Pace> {
        self.limiter.limits.pace(self.cost, now)
    }
}

impl<C: Timer + Send + Sync, S: Store> LimiterRequest<'_, C, S> {
    /// Asks as of an instant. A store that does not answer, where a limit says that nothing passes then, is an error.
    async fn ask(&self, op: Op, at: Timestamp) -> Result<Concluded, Refused> {
        let plan = self.limiter.plan(self.key, self.cost, at);
        let ask = Ask { op, plan: &plan, now: at, deadline: None };
        let reply = self.limiter.store.ask(&ask).reply().await;
        let concluded = self.limiter.conclude(&ask, reply);
        match concluded.unavailable {
            Some(failure) => Err(Refused::Store(failure)),
            None => Ok(concluded),
        }
    }
}

fn attempted(concluded: Concluded, at: Timestamp) -> Attempt<Box<Given>> {
    let Concluded { decision, lease, at: charged_at, outcomes, .. } = concluded;
    let (delay, remaining) = (decision.delay, decision.remaining);
    if !decision.is_allowed() {
        return Attempt::Wait(decision.retry_after);
    }
    let given = Given { granted: Granted { decision, lease: lease.held(), at }, charged_at, outcomes };
    Attempt::Admitted { given: Box::new(given), delay, remaining }
}

/// Forecasts for a limiter whose counters are in memory.
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

    fn retires(&self, now: Timestamp) -> Option<Timestamp> {
        self.limiter.retires(now)
    }

    fn is_foreseeable(&self, now: Timestamp) -> bool {
        !self.limiter.has_leases(now)
    }
}
