//! The mode `leased`: takes units from quota leases, and keeps the leases filled.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{
    Charge, ChargedAt, Counter, Mode, Nanos, Op, Outcome, OutcomeKind, Plan, StorePolicy, Timestamp,
};

use super::calls::REFUNDS_MAX;
use super::key_charge::KeyCharge;
use super::key_table::{KeyTable, Shard, TableKey, Visit};
use super::quota_lease::{DebitTimes, KeyLeases, QuotaLease, Taken};
use super::refill::{FinishOnDrop, Refill, RefillDone, RefillResult};
use super::{Inner, ModeSettings, Sweep};
use crate::store::owned_plan::OwnedCharge;
use crate::store::{Ask, Reply, Response, Store, StoreError};

/// A key that has been idle for this many lives of a lease is forgotten.
const IDLE_LIVES_MAX: u64 = 10;
/// A key is visited at most this often.
const VISIT_NS_MIN: u64 = 10_000_000;
/// Leases that wait to be given back at most. Units of further ones come back with time.
const RETURNS_WAITING_MAX: usize = 1 << 18;
/// A lease is filled up when this share of a batch is left, so that few requests wait.
const LOW_WATER_DIVISOR: u64 = 4;

/// The quota leases of this node.
pub(super) struct LeasedKeys {
    table: KeyTable<LeasedKey>,
    /// What is to be given back.
    returns: Mutex<VecDeque<Unused>>,
    pub counters: LeasedCounters,
}

#[derive(Default)]
pub(super) struct LeasedCounters {
    pub units_leased: AtomicU64,
    pub units_returned: AtomicU64,
    pub units_stranded: AtomicU64,
    pub refills: AtomicU64,
    pub in_memory: AtomicU64,
    pub strict_for_room: AtomicU64,
}

/// A key with quota leases.
struct LeasedKey {
    counter: Arc<Counter>,
    policy: StorePolicy,
    lease_ns: u64,
    leases: KeyLeases,
    refill: Option<Arc<Refill>>,
    last_used: Timestamp,
}

/// What to do for a charge.
pub(super) enum LeaseStep {
    /// It was admitted from a lease.
    Taken(Taken),
    /// Wait for a refill.
    Wait(Arc<Refill>),
    /// Start this refill, and wait for it.
    Start(Arc<Refill>, u64),
    /// Ask the store about this charge alone, and note what is left.
    Strict,
    /// Ask the store: the key has few requests, or there is no room for it.
    Pass,
}

/// What a charge got, and where it came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeasedReply {
    pub outcome: Outcome,
    /// By the store's clock.
    pub at: Timestamp,
    pub source: LeasedSource,
    pub is_unreplicated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "it lives as long as a decision")]
pub(super) enum LeasedSource {
    /// A lease, with what was taken. None if nothing was, because the cost was zero.
    Lease(Option<QuotaLease>),
    /// The store, asked for this charge.
    Store,
}

/// When a decision began, when it took this step, and when it must have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionTimes {
    pub started: Timestamp,
    pub now: Timestamp,
    pub deadline: Option<Timestamp>,
}

/// A lease to give back, with its key.
struct Unused {
    charge: KeyCharge,
    lease: QuotaLease,
}

impl LeasedKeys {
    pub fn new(settings: ModeSettings) -> Self {
        Self {
            table: KeyTable::new(settings.leased_keys_max, settings.hash_seed),
            returns: Mutex::default(),
            counters: LeasedCounters::default(),
        }
    }

    /// The units that are leased and not used.
    pub fn units_held(&self) -> u64 {
        let waiting: u64 = self.lock_returns().iter().map(|unused| unused.lease.units).sum();
        let in_shard = |shard: MutexGuard<'_, Shard<LeasedKey>>| {
            shard.entries().map(|key| key.leases.units_held()).sum::<u64>()
        };
        waiting + self.table.lock_each().map(in_shard).sum::<u64>()
    }

    fn lock_returns(&self) -> MutexGuard<'_, VecDeque<Unused>> {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The units of a charge's key that can be used now.
    pub fn units(&self, charge: &Charge<'_>, now: Timestamp) -> u64 {
        let mut shard = self.table.lock(charge);
        shard.get_mut().map_or(0, |key| key.leases.units(now))
    }
}

/// The life of the leases of a charge. None in another mode.
pub(super) fn lease_ns(charge: &Charge<'_>) -> Option<u64> {
    match charge.policy.mode {
        Mode::Leased { lease_us } => Some(u64::from(lease_us.get()) * 1_000),
        _ => None,
    }
}

impl<S: Store + 'static> Inner<S> {
    /// Takes units from a lease, or says what has to be done first.
    pub fn lease_step(self: &Arc<Self>, charge: &Charge<'_>, now: Timestamp) -> LeaseStep {
        let Some(lease_ns) = lease_ns(charge) else { return LeaseStep::Pass };
        let counters = &self.leased.counters;
        let nodes = self.shared.live_nodes().get();
        let mut unused: Vec<Unused> = Vec::new();
        let (mut top_up, mut next_visit) = (None, None);
        let mut shard = self.leased.table.lock(charge);
        let new_key = || self.new_leased_key(charge, lease_ns);
        let is_in_use = |key: &LeasedKey| key.is_in_use(now);
        let step = match shard.get_or_insert(new_key, is_in_use) {
            None => {
                counters.strict_for_room.fetch_add(1, Ordering::Relaxed);
                LeaseStep::Pass
            }
            Some(key) => {
                if key.has_limit_of(charge, lease_ns) {
                    let leases = key.leases.remove_over(now);
                    unused.extend(leases.into_iter().map(|lease| key.unused(charge.key, lease)));
                } else {
                    // They are given back as they were debited.
                    let leases = key.leases.remove_all(now);
                    unused.extend(leases.into_iter().map(|lease| key.unused(charge.key, lease)));
                    *key = LeasedKey { refill: key.refill.take(), ..self.new_leased_key(charge, lease_ns) };
                }
                key.last_used = now;
                key.leases.record_demand(charge.cost, now, lease_ns);
                next_visit = Some(key.next_visit(now));
                let batch = key.leases.next_batch(charge, now, lease_ns, nodes);
                match key.leases.take(charge.cost, now) {
                    Some(taken) => {
                        let is_low = taken.outcome.remaining < batch / LOW_WATER_DIVISOR;
                        if is_low && key.current_refill().is_none() {
                            let refill = Arc::new(Refill::new(now));
                            key.refill = Some(refill.clone());
                            top_up = Some((refill, batch));
                        }
                        counters.in_memory.fetch_add(1, Ordering::Relaxed);
                        LeaseStep::Taken(taken)
                    }
                    None if !key.leases.is_in_demand(now, lease_ns) => LeaseStep::Pass,
                    // A cost above the batch, or hardly anything left.
                    None if batch <= charge.cost => LeaseStep::Strict,
                    None => match key.current_refill() {
                        Some(refill) => LeaseStep::Wait(refill.clone()),
                        None => {
                            let refill = Arc::new(Refill::new(now));
                            key.refill = Some(refill.clone());
                            LeaseStep::Start(refill, batch)
                        }
                    },
                }
            }
        };
        if let Some(at) = next_visit {
            shard.visit_at(at);
        }
        drop(shard);
        self.give_back_leases(unused, now);
        if let Some((refill, batch)) = top_up {
            self.start_refill(charge, batch, refill, now);
        }
        step
    }

    fn new_leased_key(&self, charge: &Charge<'_>, lease_ns: u64) -> LeasedKey {
        LeasedKey {
            counter: self.counter_pool.get(charge.counter),
            policy: charge.policy,
            lease_ns,
            leases: KeyLeases::default(),
            refill: None,
            last_used: Timestamp::from_nanos(0),
        }
    }

    /// Takes units for a charge that a lease could not serve at once, at `now`. Waits for one refill, unless it may end after
    /// the deadline of the decision. Then, and if other requests took the units of the refill, the store is asked about this
    /// charge alone.
    pub async fn wait_for_units(
        self: Arc<Self>,
        owned: OwnedCharge,
        first_step: LeaseStep,
        DecisionTimes { started, now, deadline }: DecisionTimes,
    ) -> Result<LeasedReply, StoreError> {
        let timeout = self.shared.timeout().map(Nanos::from);
        let deadline = deadline.or_else(|| Some(started.saturating_add(timeout?)));
        let taken = |Taken { at, outcome, source }| LeasedReply {
            outcome,
            at,
            source: LeasedSource::Lease(source),
            is_unreplicated: false,
        };
        let refill = match first_step {
            LeaseStep::Taken(units) => return Ok(taken(units)),
            LeaseStep::Strict | LeaseStep::Pass => return self.ask_strictly(&owned, now, deadline).await,
            LeaseStep::Wait(refill) => refill,
            LeaseStep::Start(refill, batch) => {
                self.start_refill(&owned.charge(), batch, refill.clone(), now);
                refill
            }
        };
        let ends_at = timeout.map(|timeout| refill.asked_at.saturating_add(timeout));
        if ends_at > deadline {
            return self.ask_strictly(&owned, now, deadline).await;
        }
        let result = RefillDone(refill).await;
        let now = self.clock.now();
        if let RefillResult::Failed(error) = result {
            return Err(error);
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(StoreError::TimedOut);
        }
        match self.take_from_lease(&owned.charge(), now) {
            Some(units) => Ok(taken(units)),
            None => self.ask_strictly(&owned, now, deadline).await,
        }
    }

    /// Takes units from a lease, and does nothing else.
    fn take_from_lease(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Taken> {
        let mut shard = self.leased.table.lock(charge);
        let taken = shard.get_mut()?.leases.take(charge.cost, now)?;
        self.leased.counters.in_memory.fetch_add(1, Ordering::Relaxed);
        Some(taken)
    }

    /// Asks the store about one charge.
    async fn ask_strictly(
        self: &Arc<Self>,
        owned: &OwnedCharge,
        now: Timestamp,
        deadline: Option<Timestamp>,
    ) -> Result<LeasedReply, StoreError> {
        let response = {
            let plan = Plan::of_one(owned.charge());
            self.shared.ask(&Ask { op: Op::Check, plan: &plan, now, deadline })
        };
        let reply = response.reply().await?;
        let outcome = *reply.outcomes.first().ok_or_else(Reply::incomplete_error)?;
        let Reply { at, is_unreplicated, .. } = reply;
        self.record_left(&owned.charge(), &outcome, now);
        Ok(LeasedReply { outcome, at, source: LeasedSource::Store, is_unreplicated })
    }

    fn record_left(&self, charge: &Charge<'_>, outcome: &Outcome, asked_at: Timestamp) {
        let Some(lease_ns) = lease_ns(charge) else { return };
        let capacity = charge.counter.limit().capacity();
        let used = capacity.saturating_sub(outcome.remaining) as f64 / capacity.max(1) as f64;
        self.usage.note(charge.counter, used, self.clock.now());
        if let Some(key) = self.leased.table.lock(charge).get_mut() {
            key.leases.record_left(charge, outcome, asked_at, lease_ns);
        }
    }

    /// Debits a batch for a key. It is not tied to the request that starts it.
    fn start_refill(self: &Arc<Self>, charge: &Charge<'_>, batch: u64, refill: Arc<Refill>, now: Timestamp) {
        self.leased.counters.refills.fetch_add(1, Ordering::Relaxed);
        let debit = Charge { cost: batch, ..*charge };
        let plan = Plan::of_one(debit);
        // With the store's own timeout: the refill is for all that wait, not only for the request that starts it.
        let response = self.shared.ask(&Ask { op: Op::Check, plan: &plan, now, deadline: None });
        let owned = OwnedCharge::new(&debit);
        let (inner, refill) = (self.clone(), FinishOnDrop(refill));
        self.when_answered(response, move |reply| inner.finish_refill(&owned, &refill.0, reply, now));
    }

    fn finish_refill(
        self: &Arc<Self>,
        debit: &OwnedCharge,
        refill: &Arc<Refill>,
        reply: Result<Reply, StoreError>,
        asked_at: Timestamp,
    ) {
        let charge = debit.charge();
        let outcome = |reply: &Reply| reply.outcomes.first().copied().ok_or_else(Reply::incomplete_error);
        let result = match reply.and_then(|reply| Ok((outcome(&reply)?, reply.at))) {
            Err(error) => {
                // The store may have debited it nevertheless.
                if !matches!(error, StoreError::BreakerOpen | StoreError::Overloaded) {
                    self.leased.counters.units_stranded.fetch_add(debit.cost, Ordering::Relaxed);
                }
                RefillResult::Failed(error)
            }
            Ok((outcome, _)) if outcome.kind == OutcomeKind::Denied => {
                self.record_left(&charge, &outcome, asked_at);
                RefillResult::Answered
            }
            Ok((outcome, at)) => {
                self.leased.counters.units_leased.fetch_add(debit.cost, Ordering::Relaxed);
                let lease_ns = lease_ns(&charge).unwrap_or(0);
                let times = DebitTimes { asked: asked_at, debited: at, answered: self.clock.now() };
                self.add_lease(&charge, QuotaLease::new(&charge, &outcome, times, lease_ns));
                self.record_left(&charge, &outcome, asked_at);
                RefillResult::Answered
            }
        };
        if let Some(key) = self.leased.table.lock(&charge).get_mut()
            && key.refill.as_ref().is_some_and(|current| Arc::ptr_eq(current, refill))
        {
            key.refill = None;
        }
        refill.finish(result);
    }

    /// Adds a lease to its key, unless the lease is already over or the limit has changed meanwhile.
    fn add_lease(self: &Arc<Self>, charge: &Charge<'_>, lease: QuotaLease) {
        let now = self.clock.now();
        let Some(lease_ns) = lease_ns(charge) else { return };
        {
            let mut shard = self.leased.table.lock(charge);
            if let Some(key) = shard.get_mut()
                && key.has_limit_of(charge, lease_ns)
                && now < lease.expires
            {
                key.leases.add(lease);
                let next_visit = key.next_visit(now);
                shard.visit_at(next_visit);
                return;
            }
        }
        let counter = self.counter_pool.get(charge.counter);
        let charge = KeyCharge::new(charge.key, &counter, charge.policy, lease.units);
        self.give_back_leases(vec![Unused { charge, lease }], now);
    }

    /// Gives back units that were taken for a plan that is denied.
    pub fn put_back_units(self: &Arc<Self>, charge: &Charge<'_>, reply: &LeasedReply, now: Timestamp) {
        if reply.outcome.kind == OutcomeKind::Denied || charge.cost == 0 {
            return;
        }
        let charged_at = match reply.source {
            LeasedSource::Store | LeasedSource::Lease(None) => ChargedAt::new(reply.at),
            LeasedSource::Lease(Some(taken)) => {
                if let Some(lease_ns) = lease_ns(charge)
                    && let Some(key) = self.leased.table.lock(charge).get_mut()
                    && key.has_limit_of(charge, lease_ns)
                    && key.leases.put_back(&taken, now)
                {
                    return;
                }
                taken.charged_at
            }
        };
        self.refund_in_store(charge, charged_at, now);
    }

    /// Refunds units of a request at `charged`, by the store's clock: puts them into a lease that was debited before.
    /// Returns false if there is none, so that the store must refund them.
    pub fn refund_leased(&self, charge: &Charge<'_>, charged: Timestamp, now: Timestamp) -> bool {
        let mut shard = self.leased.table.lock(charge);
        shard.get_mut().is_some_and(|key| key.leases.refund(charge.cost, charged, now))
    }

    /// Gives leases back to the store: as many as these now, and if more wait, the others in the next ticks. Most decisions have
    /// none.
    fn give_back_leases(self: &Arc<Self>, unused: Vec<Unused>, now: Timestamp) {
        if !unused.is_empty() {
            let leases = unused.len();
            unused.into_iter().for_each(|unused| self.wait_for_return(unused));
            self.send_returns(now, leases);
        }
    }

    fn wait_for_return(&self, unused: Unused) {
        let mut returns = self.leased.lock_returns();
        if returns.len() < RETURNS_WAITING_MAX {
            returns.push_back(unused);
        } else {
            self.leased.counters.units_stranded.fetch_add(unused.lease.units, Ordering::Relaxed);
        }
    }

    /// Sends refunds that wait, at most this many, and as many as the store has room for.
    pub fn send_returns(self: &Arc<Self>, now: Timestamp, refunds_max: usize) {
        let unused: Vec<Unused> = {
            let mut returns = self.leased.lock_returns();
            let sent = self.take_room(returns.len().min(refunds_max), REFUNDS_MAX);
            returns.drain(..sent).collect()
        };
        let send = |inner: &Self, Unused { charge, lease }: &Unused| {
            let op = Op::Refund { charged_at: Some(lease.charged_at) };
            inner.shared.ask(&Ask { op, plan: &Plan::of_one(charge.charge()), now, deadline: None })
        };
        self.send_calls(unused, send, |inner, unused, reply| {
            let units = unused.lease.units;
            match reply {
                Ok(_) => _ = inner.leased.counters.units_returned.fetch_add(units, Ordering::Relaxed),
                // It was not sent.
                Err(StoreError::Overloaded) => inner.wait_for_return(unused),
                Err(_) => _ = inner.leased.counters.units_stranded.fetch_add(units, Ordering::Relaxed),
            }
        });
    }

    /// Sends a refund to the store. If the store does not answer, the units come back with time.
    pub fn refund_in_store(self: &Arc<Self>, charge: &Charge<'_>, charged_at: ChargedAt, now: Timestamp) {
        let plan = Plan::of_one(*charge);
        let op = Op::Refund { charged_at: Some(charged_at) };
        let response = self.shared.ask(&Ask { op, plan: &plan, now, deadline: None });
        if matches!(response, Response::Now(Ok(_))) {
            return;
        }
        let (inner, units) = (self.clone(), charge.cost);
        self.when_answered(response, move |reply| {
            if reply.is_err() {
                inner.leased.counters.units_stranded.fetch_add(units, Ordering::Relaxed);
            }
        });
    }

    /// Gives back leases that are over, or whose key is idle. `which` says which of the others too.
    pub fn sweep_leases(self: &Arc<Self>, now: Timestamp, which: Sweep) {
        let mut unused: Vec<Unused> = Vec::new();
        for mut shard in self.leased.table.lock_each() {
            let visit = |table_key: &TableKey, key: &mut LeasedKey| {
                let is_idle = key.is_idle(now);
                let leases = match which {
                    Sweep::All => key.leases.remove_all(now),
                    Sweep::Due if is_idle => key.leases.remove_all(now),
                    Sweep::Due => key.leases.remove_over(now),
                };
                unused.extend(leases.into_iter().map(|lease| key.unused(table_key.bytes(), lease)));
                let earliest = now.saturating_add(Nanos::new(VISIT_NS_MIN.into()));
                match key.is_needed(now) {
                    true => Visit::Next(key.next_visit(now).max(earliest)),
                    false => Visit::Remove,
                }
            };
            match which {
                Sweep::Due => shard.visit_due(now, visit),
                Sweep::All => shard.visit_all(now, visit),
            }
        }
        self.give_back_leases(unused, now);
    }

    /// Forgets the leases of a key that is reset.
    pub fn forget_leases(&self, charge: &Charge<'_>) {
        self.leased.table.lock(charge).remove();
    }
}

impl LeasedKey {
    /// Whether the leases were debited under the limit that applies now.
    fn has_limit_of(&self, charge: &Charge<'_>, lease_ns: u64) -> bool {
        self.lease_ns == lease_ns && self.counter.algorithm() == charge.counter.algorithm()
    }

    /// Whether it was not used for half the life of a lease.
    fn is_idle(&self, now: Timestamp) -> bool {
        now.as_nanos().saturating_sub(self.last_used.as_nanos()) >= self.lease_ns / 2
    }

    /// Whether the table should keep the key.
    fn is_needed(&self, now: Timestamp) -> bool {
        self.is_needed_after(self.lease_ns.saturating_mul(IDLE_LIVES_MAX), now)
    }

    /// Whether the table must keep the key, even if it is full. A key that was idle for so long has few requests.
    fn is_in_use(&self, now: Timestamp) -> bool {
        self.is_needed_after(self.lease_ns, now)
    }

    fn is_needed_after(&self, idle_ns: u64, now: Timestamp) -> bool {
        let is_recent = now.as_nanos().saturating_sub(self.last_used.as_nanos()) < idle_ns;
        self.leases.units_held() > 0 || self.current_refill().is_some() || is_recent
    }

    /// The refill that is under way.
    fn current_refill(&self) -> Option<&Arc<Refill>> {
        self.refill.as_ref().filter(|refill| !refill.is_finished())
    }

    /// When to look at the key again: to give back leases, or to forget it.
    fn next_visit(&self, now: Timestamp) -> Timestamp {
        let after = |instant: Timestamp, span_ns: u64| instant.saturating_add(Nanos::new(span_ns.into()));
        let idle_from = after(self.last_used, self.lease_ns / 2);
        match self.leases.first_end() {
            Some(end) => end.min(idle_from.max(now)),
            None => after(now, self.lease_ns.saturating_mul(IDLE_LIVES_MAX)),
        }
    }

    fn unused(&self, key: &[u8], lease: QuotaLease) -> Unused {
        Unused { charge: KeyCharge::new(key, &self.counter, self.policy, lease.units), lease }
    }
}
