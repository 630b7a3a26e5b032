//! The store on Redis or Valkey: [`RedisStore`], which implements [`Store`].

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_core::{Algorithm, Charge, OnStoreFailure, Op, Plan, Role, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::batcher::{
    BatchContext, BatchKey, Batcher, CalendarTime, PendingPlan, PlanResult, ReplyTo, TimedReply,
};
use super::connect::StoreParts;
use super::connection::Replication;
use super::deadline::{Deadlines, Elapsed};
use super::deny_cache::{DenialCaching, DenyCache};
use super::heartbeat::Heartbeat;
use super::key_name::{after_hash_tag, hash_tag, key_name};
use super::lease_seal::LeaseSeal;
use super::leases::ReleaseOnDrop;
use super::plan::{RedisCharge, RedisPlan, op_code};
use super::refunds::PendingRefunds;
use super::script::{KeyState, new_owner, whole_micros};
use super::split::RedisSplitPlan;
use super::stats::{StoreCounters, StoreStats};
use super::topology::{KeyLocation, KeyMobility, ServerId};
use super::url::Deployment;
use super::watch::Watches;
use super::{RedisSettings, StoreTicks};
use crate::store::split::Placement;
use crate::store::{Ask, LeaseReply, Reply, ReplyFuture, Response, SpawnFn, Store, Watch};
use crate::{Clock, StoreError, SystemClock};

/// Counters in Redis or Valkey. Clones are the same store.
///
/// Its tasks run on the tokio runtime on which it was [connected](Self::connect), or on its own
/// ([`StoreRuntime`](super::StoreRuntime)). Any thread can call it and wait for a reply, with another runtime
/// or without one. Every result comes by its deadline, even if the store's runtime is not driven. If that
/// runtime was dropped, the result is [`RuntimeGone`](StoreError::RuntimeGone).
///
/// When the last clone is dropped, its tasks end: connections immediately, or within ten seconds if refunds
/// are pending, and heartbeats within two seconds.
#[derive(Clone)]
pub struct RedisStore {
    pub(super) inner: Arc<RedisInner>,
}

/// What all clones share.
pub(super) struct RedisInner {
    pub context: BatchContext,
    pub runtime: Handle,
    pub refunds: PendingRefunds,
    watches: Watches,
    pub settings: RedisSettings,
    /// At most one per server.
    batchers: RwLock<HashMap<ServerId, Batcher>>,
    pub heartbeat: Arc<Heartbeat>,
    hasher: RandomState,
    /// A source of unpredictable numbers: a hash with random keys, and a counter.
    random_source: (std::hash::RandomState, AtomicU64),
    pub deadlines: Arc<Deadlines>,
    pub lease_seal: LeaseSeal,
}

/// The deadline of a plan, and whether the deny cache may keep its denial.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanBudget {
    pub deadline: Instant,
    pub denial_caching: DenialCaching,
}

/// The result of a queued plan, later.
pub(super) type PendingReply = oneshot::Receiver<PlanResult>;

impl RedisStore {
    pub(super) fn from_parts(parts: StoreParts) -> Self {
        let StoreParts { settings, runtime, deadlines, servers, heartbeat } = parts;
        let context = BatchContext {
            servers,
            deny_cache: Arc::new(DenyCache::new()),
            counters: Arc::new(StoreCounters::new(settings.on_event.clone())),
            clock: SystemClock::new(),
            _own_runtime: runtime.own.map(Arc::new),
        };
        let watches =
            Watches::new(context.servers.clone(), context.deny_cache.clone(), runtime.handle.clone());
        let password = settings.url.login.as_ref().map_or("", |login| &*login.password);
        let lease_seal = LeaseSeal::new(&settings.namespace, password);
        let inner = RedisInner {
            context,
            runtime: runtime.handle,
            refunds: PendingRefunds::default(),
            watches,
            settings,
            batchers: RwLock::default(),
            heartbeat,
            hasher: RandomState::default(),
            random_source: (std::hash::RandomState::new(), AtomicU64::new(0)),
            deadlines,
            lease_seal,
        };
        let inner = Arc::new(inner);
        if inner.settings.ticks == StoreTicks::Own {
            inner.spawn_tick_loop();
        }
        Self { inner }
    }

    /// The deadline of an operation, and whether the deny cache may keep its denial.
    fn budget(&self, ask: &Ask<'_, '_>, denial_caching: DenialCaching) -> PlanBudget {
        let left_ns = ask.deadline.map(|deadline| deadline.as_nanos().saturating_sub(ask.now.as_nanos()));
        let timeout = self.inner.settings.timeout;
        let left = match (left_ns.map(Duration::from_nanos), ask.op) {
            // No request waits for a push.
            (Some(left), Op::Count { .. }) => left,
            (Some(left), _) => timeout.min(left),
            (None, _) => timeout,
        };
        PlanBudget { deadline: Instant::now() + left, denial_caching }
    }

    /// Waits until no refund is pending, up to `at_most`, and returns how many are left. Call this before you
    /// end the runtime, when you make no more calls: no refund is lost then.
    pub async fn wait_for_refunds(&self, at_most: Duration) -> usize {
        let refunds = &self.inner.refunds;
        // If the runtime is gone, pending refunds are dropped with it and this ends.
        let _ =
            self.inner.deadlines.timeout_at(Deadlines::deadline_after(at_most), refunds.wait_idle()).await;
        refunds.outstanding()
    }

    /// Counts of what it has done.
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
        let plan = inner.redis_plan(ask.op, ask.plan);
        let without_caching = || self.budget(ask, DenialCaching::Disabled);
        Response::Later(match ask.op {
            Op::Check => {
                let denial_caching = DenialCaching::for_plan(&plan);
                let context = &inner.context;
                if denial_caching == DenialCaching::Enabled
                    && let Some(denial) = context.deny_cache.cached_denial(&plan, context.clock.now())
                {
                    context.counters.deny_cache_hits.add(1);
                    return Response::Now(Ok(denial));
                }
                inner.decide(plan, self.budget(ask, denial_caching))
            }
            Op::Peek | Op::Deny { .. } => inner.decide(plan, without_caching()),
            Op::Acquire { ttl } => inner.acquire(RedisPlan { op: Op::Check, ..plan }, ttl, without_caching()),
            Op::Renew { token, .. } | Op::Release { token } => {
                inner.change_lease(plan, &token, without_caching())
            }
            Op::Refund { .. } | Op::Reset => inner.apply(plan, without_caching()),
            Op::Count { .. } => inner.decide(plan, without_caching()),
            op => {
                let message = format!("unknown operation {op:?}");
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
            (inner.context.servers.locate(hash_tag(&key), mobility(charge)).server, key)
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
            mobility: mobility(charge),
        };
        let plan = RedisPlan::new(op, plan.charges().iter().map(charge).collect());
        RedisPlan { is_published: true, ..plan }
    }

    /// Decides a plan, and charges it unless it is a peek.
    pub(super) fn decide(self: &Arc<Self>, plan: RedisPlan, budget: PlanBudget) -> ReplyFuture {
        match self.placement(&plan) {
            None => {
                let reply = Reply::empty(self.context.clock.now());
                Box::pin(std::future::ready(Ok(reply)))
            }
            Some(Placement::Whole(location)) if matches!(plan.op, Op::Acquire { .. }) => {
                self.await_reply(budget, self.acquire_whole(location, plan, budget), keep_lease)
            }
            Some(Placement::Whole(location)) => {
                let pending = self.enqueue(location, plan, budget);
                self.await_reply(budget, pending, |result| {
                    result.map(into_reply).map_err(|failure| failure.error)
                })
            }
            Some(Placement::Split(parts)) => {
                let is_check = matches!(plan.op, Op::Check);
                let mut plan = plan;
                if is_check && let Some(owner) = new_owner(self.random_u64(), &plan.charges) {
                    // Without an owner the lease could not be released if another part is denied.
                    plan = RedisPlan { op: Op::Acquire { ttl: None }, ..plan.with_owner(owner) };
                }
                let split = RedisSplitPlan { inner: self.clone(), plan, parts, budget };
                self.await_reply(budget, split.decide(), move |decided| {
                    let reply = keep_lease(decided)?;
                    Ok(if is_check { reply.with_lease(LeaseReply::None) } else { reply })
                })
            }
        }
    }

    /// Applies a refund or a reset, which has no outcomes.
    fn apply(self: &Arc<Self>, plan: RedisPlan, budget: PlanBudget) -> ReplyFuture {
        let at = self.context.clock.now();
        match self.placement(&plan) {
            None => Box::pin(std::future::ready(Ok(Reply::empty(at)))),
            Some(Placement::Whole(location)) => {
                let pending = self.enqueue(location, plan, budget);
                self.await_reply(budget, pending, |result| {
                    result.map(into_reply).map_err(|failure| failure.error)
                })
            }
            Some(Placement::Split(parts)) => {
                let split = RedisSplitPlan { inner: self.clone(), plan, parts, budget };
                self.await_reply(budget, split.apply(), move |applied| applied.map(|()| Reply::empty(at)))
            }
        }
    }

    /// Queues a plan for its server.
    pub(super) fn enqueue(&self, location: KeyLocation, plan: RedisPlan, budget: PlanBudget) -> PendingReply {
        let (sender, pending) = oneshot::channel();
        let PlanBudget { deadline, denial_caching } = budget;
        let batch_key = self.batch_key(&plan);
        let reply_to = ReplyTo {
            slot: location.slot,
            batch_key,
            deadline,
            denial_caching,
            calendar_time: CalendarTime::Estimated,
            write_refusal: None,
            sender,
        };
        self.with_batcher(location.server, |batcher| {
            batcher.enqueue(Box::new(PendingPlan { plan, reply_to }));
        });
        pending
    }

    /// Where to retry a plan that failed at a location. In a cluster another server may have taken over the
    /// slot with all its keys. Elsewhere another server has never seen them.
    pub(super) fn relocate(&self, location: KeyLocation, plan: &RedisPlan) -> KeyLocation {
        match (&self.settings.url.deployment, plan.charges.first()) {
            (Deployment::Cluster, Some(charge)) => {
                self.context.servers.locate(hash_tag(&charge.key), charge.mobility)
            }
            _ => location,
        }
    }

    /// The location of a plan's keys; none if it has no charges.
    pub(super) fn placement(&self, plan: &RedisPlan) -> Option<Placement<KeyLocation>> {
        let servers = &self.context.servers;
        let locate = |charge: &RedisCharge| servers.locate(hash_tag(&charge.key), charge.mobility);
        Placement::from_locations(plan.charges.iter().map(locate))
    }

    /// Waits for a result until the deadline.
    pub(super) fn await_reply<A, Gone>(
        &self,
        budget: PlanBudget,
        pending: impl Future<Output = Result<A, Gone>> + Send + 'static,
        read: impl FnOnce(A) -> Result<Reply, StoreError> + Send + 'static,
    ) -> ReplyFuture
    where
        A: Send + 'static,
    {
        let counters = self.context.counters.clone();
        let deadlines = self.deadlines.clone();
        Box::pin(async move {
            let result = match deadlines.timeout_at(budget.deadline, pending).await {
                Ok(Ok(result)) => read(result),
                // Every plan gets a result unless the tasks of the store are dropped.
                Ok(Err(_)) => Err(StoreError::RuntimeGone),
                Err(Elapsed) => Err(StoreError::TimedOut),
            };
            if let Err(failure) = &result {
                counters.count_failure(failure);
            }
            result
        })
    }

    /// An unpredictable number.
    pub(super) fn random_u64(&self) -> u64 {
        let (keys, counter) = &self.random_source;
        keys.hash_one(counter.fetch_add(1, Ordering::Relaxed))
    }

    fn with_batcher(&self, server: ServerId, act: impl FnOnce(&Batcher)) {
        if let Some(batcher) = self.batchers.read().unwrap_or_else(PoisonError::into_inner).get(&server) {
            return act(batcher);
        }
        let mut batchers = self.batchers.write().unwrap_or_else(PoisonError::into_inner);
        act(batchers.entry(server).or_insert_with(|| Batcher::spawn(&self.runtime, &self.context, server)));
    }

    fn batch_key(&self, plan: &RedisPlan) -> BatchKey {
        let (mut limits, mut keys) = (self.hasher.build_hasher(), self.hasher.build_hasher());
        limits.write_u8(op_code(plan));
        for charge in &plan.charges {
            limits.write_u8(u8::from(charge.role == Role::Enforced));
            limits.write(after_hash_tag(&charge.key));
            keys.write(&charge.key);
        }
        BatchKey { limits: limits.finish(), keys: keys.finish() }
    }
}

impl PlanBudget {
    /// A moment before the deadline, so that results that were waited for can still be returned in time.
    pub(super) fn before_deadline(self, now: Instant) -> Instant {
        now + self.deadline.saturating_duration_since(now) * 3 / 4
    }
}

/// A limit that denies while Redis does not answer must not start empty elsewhere. Neither must a lease: it would be
/// granted to a second holder.
fn mobility(charge: &Charge<'_>) -> KeyMobility {
    match (charge.counter.algorithm(), charge.policy.on_store_failure) {
        (Algorithm::Leases(_), _) | (_, OnStoreFailure::Deny) => KeyMobility::Fixed,
        _ => KeyMobility::Movable,
    }
}

/// Hands the lease to the caller.
fn keep_lease(decided: Result<(Reply, ReleaseOnDrop), StoreError>) -> Result<Reply, StoreError> {
    let (reply, release_on_drop) = decided?;
    release_on_drop.keep();
    Ok(reply)
}

pub(super) fn into_reply(timed: TimedReply) -> Reply {
    let TimedReply { reply, replication, .. } = timed;
    let is_unreplicated = replication == Replication::Short;
    let states = reply.states.and_then(|states| states.iter().map(KeyState::packed).collect());
    Reply { is_unreplicated, states, ..Reply::new(reply.at, reply.outcomes).with_lease(reply.lease) }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
