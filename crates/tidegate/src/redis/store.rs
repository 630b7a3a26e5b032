//! Counters in Redis or Valkey, as a store that many processes share.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_core::{Algorithm, Charge, Op, Plan, Role, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::connect::StoreParts;
use super::deadline::{Deadlines, Elapsed};
use super::deny_cache::{DenialCaching, DenyCache};
use super::desk::{PlanResult, TimedReply, Batcher, CalendarTime, PendingPlan, BatchKey, BatchContext, ReplyTo};
use super::refunds::PendingRefunds;
use super::heartbeat::Heartbeat;
use super::key_name::{after_hash_tag, hash_tag, key_name};
use super::leasing::ReleaseOnDrop;
use super::plan::{RedisPlan, RedisCharge, op_code};
use super::script::{new_owner, whole_micros};
use super::servers::{KeyLocation, ServerId};
use super::split::RedisSplitPlan;
use super::stats::{StoreCounters, StoreStats};
use super::url::Deployment;
use super::watch::Watches;
use super::{RedisSettings, StoreTicks};
use crate::store::split::Placement;
use crate::store::{Ask, ReplyFuture, LeaseReply, Reply, Response, SpawnFn, Store, Watch};
use crate::{Clock, StoreError, SystemClock};

/// Counters in Redis or Valkey. Clones are the same store.
///
/// Its tasks run on the tokio runtime that it was [connected](Self::connect) on, or on one of its own
/// ([`StoreRuntime`](super::StoreRuntime)). It can be asked, and its answers waited for, from anywhere: from another
/// runtime, or from a thread without one. Every answer comes by its deadline, even if the runtime is not driven; if the
/// runtime was dropped, the answer is [`RuntimeGone`](StoreFailure::RuntimeGone). When the last clone is dropped, its tasks
/// end: connections at once, or after ten seconds at most if parts of plans are still on their way back, and heartbeats
/// within two.
#[derive(Clone)]
pub struct RedisStore {
    inner: Arc<RedisInner>,
}

/// What all clones share.
pub(super) struct RedisInner {
    pub context: BatchContext,
    pub runtime: Handle,
    pub refunds: PendingRefunds,
    watches: Watches,
    settings: RedisSettings,
    /// No more than there are servers.
    batchers: RwLock<HashMap<ServerId, Batcher>>,
    pub heartbeat: Arc<Heartbeat>,
    hasher: RandomState,
    /// For what nobody else is to know: keyed by the system, and how often it was asked.
    random_source: (std::hash::RandomState, AtomicU64),
    deadlines: Arc<Deadlines>,
}

/// What an order may take, and what may be learned from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanBudget {
    pub deadline: Instant,
    pub denial_caching: DenialCaching,
}

/// An order that was put, and is answered later.
pub(super) type PendingReply = oneshot::Receiver<PlanResult>;

impl RedisStore {
    pub(super) fn from_parts(parts: StoreParts) -> Self {
        let StoreParts { settings, runtime, deadlines, servers, heartbeat } = parts;
        let office = BatchContext {
            servers,
            deny_cache: Arc::new(DenyCache::new()),
            counters: Arc::new(StoreCounters::default()),
            clock: SystemClock::new(),
            _own_runtime: runtime.own.map(Arc::new),
        };
        let watches = Watches::new(office.servers.clone(), office.deny_cache.clone(), runtime.handle.clone());
        let inner = RedisInner {
            context: office,
            runtime: runtime.handle,
            refunds: PendingRefunds::default(),
            watches,
            settings,
            batchers: RwLock::default(),
            heartbeat,
            hasher: RandomState::default(),
            random_source: (std::hash::RandomState::new(), AtomicU64::new(0)),
            deadlines,
        };
        let inner = Arc::new(inner);
        if inner.settings.ticks == StoreTicks::Own {
            inner.spawn_tick_loop();
        }
        Self { inner }
    }

    /// How long an operation may take, and what may be learned from it.
    fn budget(&self, ask: &Ask<'_, '_>, denials: DenialCaching) -> PlanBudget {
        let left_ns = ask.deadline.map(|deadline| deadline.as_nanos().saturating_sub(ask.now.as_nanos()));
        let timeout = self.inner.settings.timeout;
        let left = left_ns.map_or(timeout, |left_ns| timeout.min(Duration::from_nanos(left_ns)));
        PlanBudget { deadline: Instant::now() + left, denial_caching: denials }
    }

    /// Waits until nothing is on its way back to Redis that was charged for nothing, for so long at most, and says how much
    /// of it is left then. Whoever is about to end the runtime, and asks for nothing more, loses none of it so.
    pub async fn wait_for_refunds(&self, at_most: Duration) -> usize {
        let giving_back = &self.inner.refunds;
        // If the runtime is gone, what is on its way back is dropped with it, and this is over.
        let _ = self.inner.deadlines.timeout_at(Deadlines::deadline_after(at_most), giving_back.wait_idle()).await;
        giving_back.outstanding()
    }

    /// What it has done so far.
    pub fn stats(&self) -> StoreStats {
        let BatchContext { servers, deny_cache, counters, .. } = &self.inner.context;
        StoreStats {
            plans: counters.plans.get(),
            calls: counters.calls.get(),
            pipelines_answered: counters.pipelines_answered.get(),
            coalesced: counters.coalesced.get(),
            deny_cache_hits: counters.deny_cache_hits.get(),
            deny_cache_entries: deny_cache.len() as u64,
            splits: counters.splits.get(),
            split_refunds: counters.split_refunds.get(),
            split_refunds_lost: counters.split_refunds_lost.get(),
            failures: counters.failure_counts(),
            live_nodes: self.inner.heartbeat.live_nodes().get(),
            servers: servers.stats(),
        }
    }
}

impl Store for RedisStore {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        let inner = &self.inner;
        let order = inner.redis_plan(ask.op, ask.plan);
        let not_kept = || self.budget(ask, DenialCaching::Disabled);
        Response::Later(match ask.op {
            Op::Check => {
                let denials = DenialCaching::for_plan(&order);
                let office = &inner.context;
                if denials == DenialCaching::Enabled
                    && let Some(denied) = office.deny_cache.cached_denial(&order, office.clock.now())
                {
                    office.counters.deny_cache_hits.add(1);
                    return Response::Now(Ok(denied));
                }
                inner.decide(order, self.budget(ask, denials))
            }
            Op::Peek | Op::Deny { .. } => inner.decide(order, not_kept()),
            Op::Acquire { ttl } => inner.acquire(RedisPlan { op: Op::Check, ..order }, ttl, not_kept()),
            Op::Renew { token, .. } | Op::Release { token } => inner.change_lease(order, &token, not_kept()),
            Op::Refund { .. } | Op::Reset => inner.apply(order, not_kept()),
            op => {
                let message = format!("it does not know the operation {op:?}");
                return Response::Now(Err(StoreError::Refused(message.into())));
            }
        })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.inner.settings.timeout)
    }

    fn live_nodes(&self) -> NonZeroU32 {
        self.inner.heartbeat.live_nodes()
    }

    fn watch(&self, plan: &Plan<'_>) -> Option<Watch> {
        let inner = &self.inner;
        inner.watches.watch(plan.enforced().map(|charge| {
            let key = key_name(&inner.settings.namespace, charge);
            (inner.context.servers.locate(hash_tag(&key)).server, key)
        }))
    }

    fn tick(&self, now: Timestamp) {
        self.inner.tick(now);
    }

    fn spawner(&self) -> Option<SpawnFn> {
        let runtime = self.inner.runtime.clone();
        Some(Box::new(move |work| drop(runtime.spawn(work))))
    }
}

impl RedisInner {
    fn redis_plan(&self, op: Op, plan: &Plan<'_>) -> RedisPlan {
        let counts_from = |algorithm: &Algorithm| match op {
            Op::Refund { charged_at: Some(charged_at) } => {
                Some(whole_micros(charged_at.counted_from(algorithm)))
            }
            _ => None,
        };
        let charge = |charge: &Charge<'_>| RedisCharge {
            key: key_name(&self.settings.namespace, charge),
            algorithm: charge.counter.algorithm().clone(),
            cost: charge.cost,
            role: charge.role,
            counts_from: counts_from(charge.counter.algorithm()),
            deny_cache: charge.policy.deny_cache,
        };
        let order = RedisPlan::new(op, plan.charges().iter().map(charge).collect());
        RedisPlan { is_published: true, ..order }
    }

    /// Asks whether a plan passes, and charges it unless it is only looked at.
    pub(super) fn decide(self: &Arc<Self>, order: RedisPlan, patience: PlanBudget) -> ReplyFuture {
        match self.placement(&order) {
            None => {
                let nothing = Reply::empty(self.context.clock.now());
                Box::pin(std::future::ready(Ok(nothing)))
            }
            Some(Placement::Whole(place)) if matches!(order.op, Op::Acquire { .. }) => {
                self.await_reply(patience, self.acquire_whole(place, order, patience), keep_lease)
            }
            Some(Placement::Whole(place)) => {
                let asking = self.enqueue(place, order, patience);
                self.await_reply(patience, asking, |answer| answer.map(into_reply).map_err(|unanswered| unanswered.error))
            }
            Some(Placement::Split(parts)) => {
                let is_check = matches!(order.op, Op::Check);
                let mut order = order;
                if is_check && let Some(owner) = new_owner(self.random_u64(), &order.charges) {
                    // Nobody could give back a lease without an owner if another part is denied.
                    order = RedisPlan { op: Op::Acquire { ttl: None }, ..order.with_owner(owner) };
                }
                let split = RedisSplitPlan { inner: self.clone(), plan: order, parts, budget: patience };
                self.await_reply(patience, split.decide(), move |decided| {
                    let reply = keep_lease(decided)?;
                    Ok(if is_check { reply.with_lease(LeaseReply::None) } else { reply })
                })
            }
        }
    }

    /// Does to a plan's keys what is answered by having been done.
    fn apply(self: &Arc<Self>, order: RedisPlan, patience: PlanBudget) -> ReplyFuture {
        let at = self.context.clock.now();
        match self.placement(&order) {
            None => Box::pin(std::future::ready(Ok(Reply::empty(at)))),
            Some(Placement::Whole(place)) => {
                let asking = self.enqueue(place, order, patience);
                self.await_reply(patience, asking, |answer| answer.map(into_reply).map_err(|unanswered| unanswered.error))
            }
            Some(Placement::Split(parts)) => {
                let split = RedisSplitPlan { inner: self.clone(), plan: order, parts, budget: patience };
                self.await_reply(patience, split.apply(), move |changed| changed.map(|()| Reply::empty(at)))
            }
        }
    }

    /// Puts an order in line for its server.
    pub(super) fn enqueue(&self, place: KeyLocation, order: RedisPlan, patience: PlanBudget) -> PendingReply {
        let (answer, asking) = oneshot::channel();
        let PlanBudget { deadline, denial_caching: denials } = patience;
        let likeness = self.batch_key(&order);
        let ticket =
            ReplyTo { slot: place.slot, batch_key: likeness, deadline, denial_caching: denials, calendar_time: CalendarTime::Estimated, sender: answer };
        self.with_batcher(place.server, |desk| desk.enqueue(Box::new(PendingPlan { plan: order, reply_to: ticket })));
        asking
    }

    /// Where to try again what could not be done at a place. In a cluster another server takes a slot over, with all that
    /// is in it. Anywhere else another server has never seen it.
    pub(super) fn relocate(&self, place: KeyLocation, order: &RedisPlan) -> KeyLocation {
        match (&self.settings.url.deployment, order.charges.first()) {
            (Deployment::Cluster, Some(charge)) => self.context.servers.locate(hash_tag(&charge.key)),
            _ => place,
        }
    }

    /// Where the keys of an order are; none if it has no charges.
    pub(super) fn placement(&self, order: &RedisPlan) -> Option<Placement<KeyLocation>> {
        let servers = &self.context.servers;
        Placement::from_locations(order.charges.iter().map(|charge| servers.locate(hash_tag(&charge.key))))
    }

    /// What comes of a question, or that it did not come in time.
    pub(super) fn await_reply<A, Gone>(
        &self,
        patience: PlanBudget,
        asking: impl Future<Output = Result<A, Gone>> + Send + 'static,
        read: impl FnOnce(A) -> Result<Reply, StoreError> + Send + 'static,
    ) -> ReplyFuture
    where
        A: Send + 'static,
    {
        let counters = self.context.counters.clone();
        let deadlines = self.deadlines.clone();
        Box::pin(async move {
            let result = match deadlines.timeout_at(patience.deadline, asking).await {
                Ok(Ok(answer)) => read(answer),
                // Every question is answered unless the tasks of the store are dropped.
                Ok(Err(_)) => Err(StoreError::RuntimeGone),
                Err(Elapsed) => Err(StoreError::TimedOut),
            };
            if let Err(failure) = &result {
                counters.count_failure(failure);
            }
            result
        })
    }

    /// A number that nobody can guess.
    pub(super) fn random_u64(&self) -> u64 {
        let (keys, asked) = &self.random_source;
        keys.hash_one(asked.fetch_add(1, Ordering::Relaxed))
    }

    fn with_batcher(&self, server: ServerId, act: impl FnOnce(&Batcher)) {
        if let Some(desk) = self.batchers.read().unwrap_or_else(PoisonError::into_inner).get(&server) {
            return act(desk);
        }
        let mut desks = self.batchers.write().unwrap_or_else(PoisonError::into_inner);
        act(desks.entry(server).or_insert_with(|| Batcher::spawn(&self.runtime, &self.context, server)));
    }

    fn batch_key(&self, order: &RedisPlan) -> BatchKey {
        let (mut limits, mut keys) = (self.hasher.build_hasher(), self.hasher.build_hasher());
        limits.write_u8(op_code(order));
        for charge in &order.charges {
            limits.write_u8(u8::from(charge.role == Role::Enforced));
            limits.write(after_hash_tag(&charge.key));
            keys.write(&charge.key);
        }
        BatchKey { limits: limits.finish(), keys: keys.finish() }
    }
}

impl PlanBudget {
    /// A moment before the time is over, so that what was waited for until then is still heard.
    pub(super) fn before_deadline(self, now: Instant) -> Instant {
        now + self.deadline.saturating_duration_since(now) * 3 / 4
    }
}

/// The caller has it now.
fn keep_lease(decided: Result<(Reply, ReleaseOnDrop), StoreError>) -> Result<Reply, StoreError> {
    let (reply, unclaimed) = decided?;
    unclaimed.keep();
    Ok(reply)
}

pub(super) fn into_reply(answered: TimedReply) -> Reply {
    let seen = answered.reply;
    Reply::new(seen.at, seen.outcomes).with_lease(seen.lease)
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
