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

use super::connect::Parts;
use super::deadline::{Deadlines, Elapsed};
use super::deny_cache::{Denials, DenyCache};
use super::desk::{Answer, Answered, Desk, Edges, Job, Likeness, Office, Ticket};
use super::giving_back::GivingBack;
use super::heartbeat::Heartbeat;
use super::key_name::{after_hash_tag, hash_tag, key_name};
use super::leasing::Unclaimed;
use super::order::{Order, OrderCharge, number};
use super::script::{owner_for, whole_micros};
use super::servers::{Place, ServerId};
use super::split::Split;
use super::stats::{Counters, StoreStats};
use super::url::Shape;
use super::watching::Watches;
use super::{RedisSettings, StoreTicks};
use crate::store::split::Placement;
use crate::store::{Ask, Later, LeaseReply, Reply, Response, Spawn, Store, Watch};
use crate::{Clock, StoreFailure, SystemClock};

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
    inner: Arc<Inner>,
}

/// What all clones share.
pub(super) struct Inner {
    pub office: Office,
    pub runtime: Handle,
    pub giving_back: GivingBack,
    watches: Watches,
    settings: RedisSettings,
    /// No more than there are servers.
    desks: RwLock<HashMap<ServerId, Desk>>,
    pub heartbeat: Arc<Heartbeat>,
    hasher: RandomState,
    /// For what nobody else is to know: keyed by the system, and how often it was asked.
    secrets: (std::hash::RandomState, AtomicU64),
    deadlines: Arc<Deadlines>,
}

/// What an order may take, and what may be learned from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub deadline: Instant,
    pub denials: Denials,
}

/// An order that was put, and is answered later.
pub(super) type Asking = oneshot::Receiver<Answer>;

impl RedisStore {
    pub(super) fn of(parts: Parts) -> Self {
        let Parts { settings, runtime, deadlines, servers, heartbeat } = parts;
        let office = Office {
            servers,
            deny_cache: Arc::new(DenyCache::new()),
            counters: Arc::new(Counters::default()),
            clock: SystemClock::new(),
            _own_runtime: runtime.own.map(Arc::new),
        };
        let watches = Watches::new(office.servers.clone(), office.deny_cache.clone(), runtime.handle.clone());
        let inner = Inner {
            office,
            runtime: runtime.handle,
            giving_back: GivingBack::default(),
            watches,
            settings,
            desks: RwLock::default(),
            heartbeat,
            hasher: RandomState::default(),
            secrets: (std::hash::RandomState::new(), AtomicU64::new(0)),
            deadlines,
        };
        let inner = Arc::new(inner);
        if inner.settings.ticks == StoreTicks::Own {
            inner.start_ticking();
        }
        Self { inner }
    }

    /// How long an operation may take, and what may be learned from it.
    fn patience(&self, ask: &Ask<'_, '_>, denials: Denials) -> Patience {
        let left_ns = ask.deadline.map(|deadline| deadline.as_nanos().saturating_sub(ask.now.as_nanos()));
        let timeout = self.inner.settings.timeout;
        let left = left_ns.map_or(timeout, |left_ns| timeout.min(Duration::from_nanos(left_ns)));
        Patience { deadline: Instant::now() + left, denials }
    }

    /// Waits until nothing is on its way back to Redis that was charged for nothing, for so long at most, and says how much
    /// of it is left then. Whoever is about to end the runtime, and asks for nothing more, loses none of it so.
    pub async fn settled(&self, at_most: Duration) -> usize {
        let giving_back = &self.inner.giving_back;
        // If the runtime is gone, what is on its way back is dropped with it, and this is over.
        let _ = self.inner.deadlines.by(Deadlines::after(at_most), giving_back.done()).await;
        giving_back.under_way()
    }

    /// What it has done so far.
    pub fn stats(&self) -> StoreStats {
        let Office { servers, deny_cache, counters, .. } = &self.inner.office;
        StoreStats {
            orders: counters.orders.get(),
            calls: counters.calls.get(),
            rounds_answered: counters.rounds_answered.get(),
            coalesced: counters.coalesced.get(),
            deny_cache_hits: counters.deny_cache_hits.get(),
            deny_cache_entries: deny_cache.len() as u64,
            splits: counters.splits.get(),
            split_refunds: counters.split_refunds.get(),
            split_refunds_lost: counters.split_refunds_lost.get(),
            failures: counters.failures(),
            live_nodes: self.inner.heartbeat.live_nodes().get(),
            servers: servers.stats(),
        }
    }
}

impl Store for RedisStore {
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        let inner = &self.inner;
        let order = inner.order(ask.op, ask.plan);
        let not_kept = || self.patience(ask, Denials::NotKept);
        Response::Later(match ask.op {
            Op::Check => {
                let denials = Denials::of(&order);
                let office = &inner.office;
                if denials == Denials::Kept
                    && let Some(denied) = office.deny_cache.denial(&order, office.clock.now())
                {
                    office.counters.deny_cache_hits.add(1);
                    return Response::Now(Ok(denied));
                }
                inner.decide(order, self.patience(ask, denials))
            }
            Op::Peek | Op::Deny { .. } => inner.decide(order, not_kept()),
            Op::Acquire { ttl } => inner.acquire(Order { op: Op::Check, ..order }, ttl, not_kept()),
            Op::Renew { token, .. } | Op::Release { token } => inner.change_lease(order, &token, not_kept()),
            Op::Refund { .. } | Op::Reset => inner.change(order, not_kept()),
            op => {
                let message = format!("it does not know the operation {op:?}");
                return Response::Now(Err(StoreFailure::Refused(message.into())));
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
            (inner.office.servers.place(hash_tag(&key)).server, key)
        }))
    }

    fn tick(&self, now: Timestamp) {
        self.inner.tick(now);
    }

    fn spawner(&self) -> Option<Spawn> {
        let runtime = self.inner.runtime.clone();
        Some(Box::new(move |work| drop(runtime.spawn(work))))
    }
}

impl Inner {
    fn order(&self, op: Op, plan: &Plan<'_>) -> Order {
        let counts_from = |algorithm: &Algorithm| match op {
            Op::Refund { charged_at: Some(charged_at) } => {
                Some(whole_micros(charged_at.counts_from(algorithm)))
            }
            _ => None,
        };
        let charge = |charge: &Charge<'_>| OrderCharge {
            key: key_name(&self.settings.namespace, charge),
            algorithm: charge.counter.algorithm().clone(),
            cost: charge.cost,
            role: charge.role,
            counts_from: counts_from(charge.counter.algorithm()),
            deny_cache: charge.policy.deny_cache,
        };
        let order = Order::new(op, plan.charges().iter().map(charge).collect());
        Order { is_published: true, ..order }
    }

    /// Asks whether a plan passes, and charges it unless it is only looked at.
    pub(super) fn decide(self: &Arc<Self>, order: Order, patience: Patience) -> Later {
        match self.placement(&order) {
            None => {
                let nothing = Reply::done(self.office.clock.now());
                Box::pin(std::future::ready(Ok(nothing)))
            }
            Some(Placement::Whole(place)) if matches!(order.op, Op::Acquire { .. }) => {
                self.later(patience, self.acquire_at(place, order, patience), claimed)
            }
            Some(Placement::Whole(place)) => {
                let asking = self.put(place, order, patience);
                self.later(patience, asking, |answer| answer.map(reply).map_err(|unanswered| unanswered.why))
            }
            Some(Placement::Split(parts)) => {
                let is_check = matches!(order.op, Op::Check);
                let mut order = order;
                if is_check && let Some(owner) = owner_for(self.random(), &order.charges) {
                    // Nobody could give back a lease without an owner if another part is denied.
                    order = Order { op: Op::Acquire { ttl: None }, ..order.owned_by(owner) };
                }
                let split = Split { inner: self.clone(), order, parts, patience };
                self.later(patience, split.decide(), move |decided| {
                    let reply = claimed(decided)?;
                    Ok(if is_check { reply.with_lease(LeaseReply::None) } else { reply })
                })
            }
        }
    }

    /// Does to a plan's keys what is answered by having been done.
    fn change(self: &Arc<Self>, order: Order, patience: Patience) -> Later {
        let at = self.office.clock.now();
        match self.placement(&order) {
            None => Box::pin(std::future::ready(Ok(Reply::done(at)))),
            Some(Placement::Whole(place)) => {
                let asking = self.put(place, order, patience);
                self.later(patience, asking, |answer| answer.map(reply).map_err(|unanswered| unanswered.why))
            }
            Some(Placement::Split(parts)) => {
                let split = Split { inner: self.clone(), order, parts, patience };
                self.later(patience, split.change(), move |changed| changed.map(|()| Reply::done(at)))
            }
        }
    }

    /// Puts an order in line for its server.
    pub(super) fn put(&self, place: Place, order: Order, patience: Patience) -> Asking {
        let (answer, asking) = oneshot::channel();
        let Patience { deadline, denials } = patience;
        let likeness = self.likeness(&order);
        let ticket =
            Ticket { slot: place.slot, likeness, deadline, denials, edges: Edges::AroundNow, answer };
        self.at_desk(place.server, |desk| desk.put(Box::new(Job { order, ticket })));
        asking
    }

    /// Where to try again what could not be done at a place. In a cluster another server takes a slot over, with all that
    /// is in it. Anywhere else another server has never seen it.
    pub(super) fn place_again(&self, place: Place, order: &Order) -> Place {
        match (&self.settings.url.shape, order.charges.first()) {
            (Shape::Cluster, Some(charge)) => self.office.servers.place(hash_tag(&charge.key)),
            _ => place,
        }
    }

    /// Where the keys of an order are; none if it has no charges.
    pub(super) fn placement(&self, order: &Order) -> Option<Placement<Place>> {
        let servers = &self.office.servers;
        Placement::of(order.charges.iter().map(|charge| servers.place(hash_tag(&charge.key))))
    }

    /// What comes of a question, or that it did not come in time.
    pub(super) fn later<A, Gone>(
        &self,
        patience: Patience,
        asking: impl Future<Output = Result<A, Gone>> + Send + 'static,
        read: impl FnOnce(A) -> Result<Reply, StoreFailure> + Send + 'static,
    ) -> Later
    where
        A: Send + 'static,
    {
        let counters = self.office.counters.clone();
        let deadlines = self.deadlines.clone();
        Box::pin(async move {
            let result = match deadlines.by(patience.deadline, asking).await {
                Ok(Ok(answer)) => read(answer),
                // Every question is answered unless the tasks of the store are dropped.
                Ok(Err(_)) => Err(StoreFailure::RuntimeGone),
                Err(Elapsed) => Err(StoreFailure::TimedOut),
            };
            if let Err(failure) = &result {
                counters.failed(failure);
            }
            result
        })
    }

    /// A number that nobody can guess.
    pub(super) fn random(&self) -> u64 {
        let (keys, asked) = &self.secrets;
        keys.hash_one(asked.fetch_add(1, Ordering::Relaxed))
    }

    fn at_desk(&self, server: ServerId, act: impl FnOnce(&Desk)) {
        if let Some(desk) = self.desks.read().unwrap_or_else(PoisonError::into_inner).get(&server) {
            return act(desk);
        }
        let mut desks = self.desks.write().unwrap_or_else(PoisonError::into_inner);
        act(desks.entry(server).or_insert_with(|| Desk::open(&self.runtime, &self.office, server)));
    }

    fn likeness(&self, order: &Order) -> Likeness {
        let (mut limits, mut keys) = (self.hasher.build_hasher(), self.hasher.build_hasher());
        limits.write_u8(number(order));
        for charge in &order.charges {
            limits.write_u8(u8::from(charge.role == Role::Enforced));
            limits.write(after_hash_tag(&charge.key));
            keys.write(&charge.key);
        }
        Likeness { limits: limits.finish(), keys: keys.finish() }
    }
}

impl Patience {
    /// A moment before the time is over, so that what was waited for until then is still heard.
    pub(super) fn just_before(self, now: Instant) -> Instant {
        now + self.deadline.saturating_duration_since(now) * 3 / 4
    }
}

/// The caller has it now.
fn claimed(decided: Result<(Reply, Unclaimed), StoreFailure>) -> Result<Reply, StoreFailure> {
    let (reply, unclaimed) = decided?;
    unclaimed.claimed();
    Ok(reply)
}

pub(super) fn reply(answered: Answered) -> Reply {
    let seen = answered.seen;
    Reply::decided(seen.at, seen.outcomes).with_lease(seen.lease)
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
