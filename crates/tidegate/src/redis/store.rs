//! Counters in Redis or Valkey, as a store that many processes share.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_core::{Charge, Nanos, Plan, Role};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::RedisSettings;
use super::deny_cache::{Denials, DenyCache};
use super::desk::{Answer, Answered, Desk, Edges, Job, Likeness, Office, Ticket};
use super::giving_back::GivingBack;
use super::heartbeat::{HEARTBEAT, Heartbeat};
use super::key_name::{hash_tag, key_name};
use super::leasing::{Changed, Unclaimed};
use super::order::{Op, Order, OrderCharge};
use super::parts::{Parted, after_hash_tag};
use super::script::{LeaseSeen, SCRIPT, owner_for};
use super::servers::{ConnectError, Place, ServerId, Servers};
use super::split::Split;
use super::stats::{Counters, StoreStats};
use super::url::Shape;
use crate::{
    Cacheable, Clock, Later, LeaseToken, Outcomes, Release, Renewal, Settled, SharedStore, StoreFailure,
    SystemClock,
};

/// Counters in Redis or Valkey. Clones are the same store.
///
/// It lives on the tokio runtime that it was [connected](Self::connect) on, and can be asked, and its answers waited for,
/// from anywhere: from another runtime, or from a thread without one. When the last clone is dropped, what it runs there
/// ends: connections at once, or after ten seconds at most if parts of plans are still on their way back, and a timer of
/// its own within two.
#[derive(Clone)]
pub struct RedisStore {
    inner: Arc<Inner>,
    /// What the decisions that it is asked for have taken of their budget before.
    spent: Duration,
}

/// Places of the scripts in [`SCRIPTS`].
pub(super) const DECIDES: usize = 0;
pub(super) const BEATS: usize = 1;
const SCRIPTS: [&str; 2] = [SCRIPT, HEARTBEAT];

/// What all clones share.
pub(super) struct Inner {
    pub office: Office,
    pub runtime: Handle,
    pub giving_back: GivingBack,
    settings: RedisSettings,
    /// No more than there are servers.
    desks: RwLock<HashMap<ServerId, Desk>>,
    heartbeat: Arc<Heartbeat>,
    hasher: RandomState,
    /// For what nobody else is to know: keyed by the system, and how often it was asked.
    secrets: (std::hash::RandomState, AtomicU64),
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
    /// Connects, tries once, and says what is wrong if it does not work.
    pub async fn connect(settings: RedisSettings) -> Result<Self, ConnectError> {
        let servers = Servers::connect(&settings, &SCRIPTS).await?;
        let heartbeat = Heartbeat::start(&servers, &settings.namespace).await;
        let office = Office {
            servers,
            deny_cache: Arc::new(DenyCache::new()),
            counters: Arc::new(Counters::default()),
            clock: SystemClock::new(),
        };
        let inner = Inner {
            office,
            runtime: Handle::current(),
            giving_back: GivingBack::default(),
            settings,
            desks: RwLock::default(),
            heartbeat,
            hasher: RandomState::default(),
            secrets: (std::hash::RandomState::new(), AtomicU64::new(0)),
        };
        Ok(Self { inner: Arc::new(inner), spent: Duration::ZERO })
    }

    /// What is left of the budget, from now on.
    fn patience(&self, denials: Denials) -> Patience {
        let left = self.inner.settings.timeout.saturating_sub(self.spent);
        Patience { deadline: Instant::now() + left, denials }
    }

    /// Waits until nothing is on its way back to Redis that was charged for nothing, for so long at most, and says how much
    /// of it is left then. Whoever is about to end the runtime, and asks for nothing more, loses none of it so.
    pub async fn settled(&self, at_most: Duration) -> usize {
        let giving_back = &self.inner.giving_back;
        let _ = tokio::time::timeout(at_most, giving_back.done()).await;
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

impl SharedStore for RedisStore {
    fn check(&self, plan: &Plan<'_>, cacheable: Cacheable) -> Later<Result<Settled, StoreFailure>> {
        let inner = &self.inner;
        let order = inner.order(Op::Check, plan);
        let denials = Denials::of(&order, cacheable);
        if denials == Denials::Kept
            && let Some(denied) = inner.office.deny_cache.denial(&order, cacheable, inner.office.clock.now())
        {
            inner.office.counters.deny_cache_hits.add(1);
            return Box::pin(std::future::ready(Ok(denied)));
        }
        inner.decide(order, self.patience(denials))
    }

    fn peek(&self, plan: &Plan<'_>) -> Later<Result<Settled, StoreFailure>> {
        self.inner.decide(self.inner.order(Op::Peek, plan), self.patience(Denials::NotKept))
    }

    fn acquire(&self, plan: &Plan<'_>, ttl: Option<Nanos>) -> Later<Result<Settled, StoreFailure>> {
        self.inner.acquire(self.inner.order(Op::Check, plan), ttl, self.patience(Denials::NotKept))
    }

    fn renew(
        &self,
        plan: &Plan<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Later<Result<Renewal, StoreFailure>> {
        let order = self.inner.order(Op::Renew { token: *token, ttl }, plan);
        let changed = self.inner.change_lease(order, token, self.patience(Denials::NotKept));
        Box::pin(async move {
            changed.await.map(|changed| match changed {
                Changed::Seen(seen) => seen.renewal(),
                Changed::WrongOwner => Renewal::WrongOwner,
            })
        })
    }

    fn release(&self, plan: &Plan<'_>, token: &LeaseToken) -> Later<Result<Release, StoreFailure>> {
        let order = self.inner.order(Op::Release { token: *token }, plan);
        let changed = self.inner.change_lease(order, token, self.patience(Denials::NotKept));
        Box::pin(async move {
            changed.await.map(|changed| match changed {
                Changed::Seen(seen) => seen.release(),
                Changed::WrongOwner => Release::WrongOwner,
            })
        })
    }

    fn refund(&self, plan: &Plan<'_>) -> Later<Result<(), StoreFailure>> {
        self.inner.change(self.inner.order(Op::Refund, plan), self.patience(Denials::NotKept))
    }

    fn reset(&self, plan: &Plan<'_>) -> Later<Result<(), StoreFailure>> {
        self.inner.change(self.inner.order(Op::Reset, plan), self.patience(Denials::NotKept))
    }

    fn having_spent(&self, spent: Duration) -> Arc<dyn SharedStore> {
        Arc::new(Self { inner: self.inner.clone(), spent })
    }

    fn live_nodes(&self) -> NonZeroU32 {
        self.inner.heartbeat.live_nodes()
    }
}

impl Inner {
    fn order(&self, op: Op, plan: &Plan<'_>) -> Order {
        let charge = |charge: &Charge<'_>| OrderCharge {
            key: key_name(&self.settings.namespace, charge),
            algorithm: charge.counter.algorithm().clone(),
            cost: charge.cost,
            role: charge.role,
            counts_from: None,
        };
        Order::new(op, plan.charges().iter().map(charge).collect())
    }

    /// Asks whether a plan passes, and charges it unless it is only looked at.
    pub(super) fn decide(
        self: &Arc<Self>,
        order: Order,
        patience: Patience,
    ) -> Later<Result<Settled, StoreFailure>> {
        match self.parted(&order) {
            None => {
                let nothing = Settled { outcomes: Outcomes::new(), at: self.office.clock.now(), lease: None };
                Box::pin(std::future::ready(Ok(nothing)))
            }
            Some(Parted::Whole(place)) if matches!(order.op, Op::Acquire { .. }) => {
                self.later(patience, self.acquire_at(place, order, patience), claimed)
            }
            Some(Parted::Whole(place)) => {
                let asking = self.put(place, order, patience);
                self.later(patience, asking, |answer| {
                    answer.map(settled).map_err(|unanswered| unanswered.why)
                })
            }
            Some(Parted::Split(parts)) => {
                let is_check = matches!(order.op, Op::Check);
                let mut order = order;
                if is_check && let Some(owner) = owner_for(self.random(), &order.charges) {
                    // Nobody could give back a lease without an owner if another part is denied.
                    order.op = Op::Acquire { owner, ttl: None };
                }
                let split = Split { inner: self.clone(), order, parts, patience };
                self.later(patience, split.decide(), move |decided| {
                    let settled = claimed(decided)?;
                    Ok(Settled { lease: settled.lease.filter(|_| !is_check), ..settled })
                })
            }
        }
    }

    /// Does to a plan's keys what is answered by having been done.
    fn change(self: &Arc<Self>, order: Order, patience: Patience) -> Later<Result<(), StoreFailure>> {
        match self.parted(&order) {
            None => Box::pin(std::future::ready(Ok(()))),
            Some(Parted::Whole(place)) => {
                let asking = self.put(place, order, patience);
                self.later(patience, asking, |answer| answer.map(|_| ()).map_err(|unanswered| unanswered.why))
            }
            Some(Parted::Split(parts)) => {
                let split = Split { inner: self.clone(), order, parts, patience };
                self.later(patience, split.change(), |changed| changed)
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

    pub(super) fn parted(&self, order: &Order) -> Option<Parted> {
        Parted::of(&order.charges, |tag| self.office.servers.place(tag))
    }

    /// What comes of a question, or that it did not come in time.
    pub(super) fn later<A, T, Gone>(
        &self,
        patience: Patience,
        asking: impl Future<Output = Result<A, Gone>> + Send + 'static,
        read: impl FnOnce(A) -> Result<T, StoreFailure> + Send + 'static,
    ) -> Later<Result<T, StoreFailure>>
    where
        A: Send + 'static,
    {
        let counters = self.office.counters.clone();
        let in_time = {
            // Whoever waits may be on no runtime at all, or on another one: the timer is of the one that the store lives on.
            let _on_runtime = self.runtime.enter();
            timeout_at(patience.deadline, asking)
        };
        Box::pin(async move {
            let result = match in_time.await {
                Ok(Ok(answer)) => read(answer),
                // Nobody answers any more only when the runtime stops.
                Ok(Err(_)) | Err(_) => Err(StoreFailure::TimedOut),
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
        limits.write_u8(order.op.number());
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

/// Whoever waits for it has it now.
fn claimed(decided: Result<(Settled, Unclaimed), StoreFailure>) -> Result<Settled, StoreFailure> {
    let (settled, unclaimed) = decided?;
    unclaimed.claimed();
    Ok(settled)
}

pub(super) fn settled(answered: Answered) -> Settled {
    let seen = answered.seen;
    let lease = match seen.lease {
        LeaseSeen::Held(lease) => Some(lease),
        _ => None,
    };
    Settled { outcomes: seen.outcomes, at: seen.at, lease }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
