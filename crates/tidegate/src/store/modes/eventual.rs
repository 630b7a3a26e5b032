//! The mode `eventual`: decides from copies of shared counts, and synchronises them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use tidegate_core::algorithm::PackedAlgorithm;
use tidegate_core::{
    Algorithm, Carry, Charge, Counter, Mode, Nanos, Op, Outcome, OutcomeKind, Plan, StorePolicy, Timestamp,
};

use super::calls::CALLS_MAX;
use super::key_charge::KeyCharge;
use super::key_table::{KeyTable, SHARDS, TableKey, Visit};
use super::replica::{Granted, PendingUnits, Pulled, Replica};
use super::{Inner, ModeSettings, Sweep};
use crate::store::{Ask, Reply, Response, Store, StoreError};

/// A key that was not used for this long is forgotten.
const IDLE_NS_MAX: u64 = 2_000_000_000;
/// A new key is synchronised this soon, together with other new keys.
const FIRST_SYNC_NS: u64 = 10_000_000;
/// After a second push in a row failed, its key waits for this many intervals.
const FAILED_INTERVALS: u64 = 5;
/// A push may take as long as the interval, because no request waits for it, but at most this.
const PUSH_TIMEOUT_NS_MAX: u64 = 1_000_000_000;
/// While pushes fail, a sweep tries only this many keys of a shard.
const FAILING_PUSHES_MAX: usize = 4;
/// A key whose push is under way, or that waits for others to fail, is visited at most this often.
const VISIT_NS_MIN: u64 = 5_000_000;

/// The copies of shared counts of this node.
pub(super) struct EventualKeys {
    table: KeyTable<EventualKey>,
    /// The store's clock minus this node's, as last seen, for new keys.
    clock_offset_ns: AtomicI64,
    /// Whether the last push failed.
    is_failing: AtomicBool,
    pub counters: EventualCounters,
}

#[derive(Default)]
pub(super) struct EventualCounters {
    pub pushes: AtomicU64,
    pub push_failures: AtomicU64,
    pub units_pushed: AtomicU64,
    pub in_memory: AtomicU64,
    pub strict_for_room: AtomicU64,
}

/// A key with a copy of its shared count.
struct EventualKey {
    counter: Arc<Counter>,
    policy: StorePolicy,
    sync: SyncPolicy,
    replica: Replica,
    /// When to push, if there is something to push.
    next_sync: Timestamp,
    last_used: Timestamp,
    /// Since when pushes have failed.
    failing_since: Option<Timestamp>,
    /// Whether units were pushed since the last push without units, and little is left. Other nodes may have pushed at the
    /// same time, so one more push learns what they have.
    has_to_learn: bool,
}

/// How often a key is synchronised, and what a fixed window carries over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyncPolicy {
    interval_ns: u64,
    carry: Carry,
}

/// What a charge got.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventualReply {
    pub outcome: Outcome,
    /// By the store's clock, as far as it is known.
    pub at: Timestamp,
}

/// A push to send.
struct Push {
    charge: KeyCharge,
    units: PendingUnits,
}

impl EventualKeys {
    pub fn new(settings: ModeSettings) -> Self {
        Self {
            table: KeyTable::new(settings.eventual_keys_max, settings.hash_seed),
            clock_offset_ns: AtomicI64::new(0),
            is_failing: AtomicBool::new(false),
            counters: EventualCounters::default(),
        }
    }

    /// Own units that the store does not know yet, and units beyond limits.
    pub fn units_pending_and_debt(&self, now: Timestamp) -> (u64, u64) {
        let (mut pending, mut debt) = (0_u64, 0_u64);
        for shard in self.table.lock_each() {
            for key in shard.entries() {
                pending = pending.saturating_add(key.replica.units_pending());
                if let Some(algorithm) = packed(&key.counter) {
                    debt = debt.saturating_add(key.replica.debt(algorithm, now));
                }
            }
        }
        (pending, debt)
    }
}

/// How a charge is synchronised. None in another mode.
pub(super) fn sync_policy(charge: &Charge<'_>) -> Option<SyncPolicy> {
    match charge.policy.mode {
        Mode::Eventual { sync_us, carry } => {
            Some(SyncPolicy { interval_ns: u64::from(sync_us.get()) * 1_000, carry })
        }
        _ => None,
    }
}

/// When a key is synchronised that was not used for a while.
fn first_sync(now: Timestamp, sync: SyncPolicy) -> Timestamp {
    now.saturating_add(Nanos::new(FIRST_SYNC_NS.min(sync.interval_ns).into()))
}

fn packed(counter: &Counter) -> Option<&PackedAlgorithm> {
    match counter.algorithm() {
        Algorithm::Packed(algorithm) => Some(algorithm),
        _ => None,
    }
}

impl<S: Store + 'static> Inner<S> {
    /// Decides a charge from the copy of its count. None if there is no room for a copy, or if the copy is too old: ask the
    /// store. Fails if the store has not been reached for a while.
    pub fn decide_eventual(
        self: &Arc<Self>,
        charge: &Charge<'_>,
        now: Timestamp,
    ) -> Option<Result<EventualReply, StoreError>> {
        let (sync, algorithm) = (sync_policy(charge)?, packed(charge.counter)?);
        let nodes = u64::from(self.shared.live_nodes().get());
        let eventual = &self.eventual;
        let mut shard = eventual.table.lock(charge);
        let new_key = || EventualKey {
            counter: self.counter_pool.get(charge.counter),
            policy: charge.policy,
            sync,
            replica: Replica::new(eventual.clock_offset_ns.load(Ordering::Relaxed)),
            next_sync: first_sync(now, sync),
            last_used: now,
            failing_since: None,
            has_to_learn: false,
        };
        let Some(key) = shard.get_or_insert(new_key, |key| key.is_in_use(now)) else {
            eventual.counters.strict_for_room.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        key.last_used = now;
        if key.sync != sync || key.counter.algorithm() != charge.counter.algorithm() {
            // The state means the same under another L and burst, and the counter has another identity otherwise.
            (key.counter, key.policy, key.sync) =
                (self.counter_pool.get(charge.counter), charge.policy, sync);
        }
        if key.is_store_away(now, self.away_after_ns(sync)) {
            let next_visit = key.next_visit(now);
            shard.visit_at(next_visit);
            return Some(Err(StoreError::BreakerOpen));
        }
        let is_stale = key.is_stale(now);
        // The store does not know what a window carries over, so it would admit too much.
        if is_stale
            && !key.has_room_when_stale(algorithm, charge, now, nodes)
            && !key.replica.pays(algorithm, sync.carry, now)
        {
            // The store decides, and the copy is renewed for the next request. What this node has not shared is sent first.
            let can_push = key.replica.units_unsent() > 0 && !key.replica.is_push_under_way();
            let push = can_push.then(|| key.start_push(charge.key, now)).flatten();
            key.has_to_learn = push.is_none();
            key.next_sync = key.next_sync.min(first_sync(now, sync));
            let next_visit = key.next_visit(now);
            shard.visit_at(next_visit);
            drop(shard);
            self.send_push(push, now);
            return None;
        }
        let outcome = key.replica.decide(algorithm, sync.carry, charge.cost, now);
        if is_stale {
            key.has_to_learn |= outcome.kind == OutcomeKind::Denied;
            key.next_sync = key.next_sync.min(first_sync(now, sync));
        }
        let at = key.replica.store_time(now);
        eventual.counters.in_memory.fetch_add(1, Ordering::Relaxed);
        // Near the limit, push as soon as this node may have used half of its share of what is left. Else a sweep pushes many
        // keys together.
        let is_near = key.replica.units_unsent() > outcome.remaining / (2 * nodes);
        let is_due = outcome.kind == OutcomeKind::Allowed && !key.replica.is_push_under_way() && is_near;
        let push = is_due.then(|| key.start_push(charge.key, now)).flatten();
        let next_visit = key.next_visit(now);
        shard.visit_at(next_visit);
        drop(shard);
        self.send_push(push, now);
        Some(Ok(EventualReply { outcome, at }))
    }

    /// Notes what the store granted at `at`, by its own clock, to a charge that it was asked about.
    pub fn note_granted(&self, charge: &Charge<'_>, outcome: &Outcome, at: Timestamp, asked: Timestamp) {
        let (Some(sync), Some(algorithm)) = (sync_policy(charge), packed(charge.counter)) else { return };
        if outcome.kind == OutcomeKind::Denied || charge.cost == 0 {
            return;
        }
        let now = self.clock.now();
        let mut shard = self.eventual.table.lock(charge);
        let Some(key) = shard.get_mut() else { return };
        let granted = Granted { units: charge.cost, at, asked, noted: now };
        key.has_to_learn |= key.replica.add_granted(algorithm, sync.carry, granted);
        key.next_sync = key.next_sync.min(first_sync(now, sync));
        let next_visit = key.next_visit(now);
        shard.visit_at(next_visit);
    }

    /// What a charge would get, without charging it. None if nothing is known about its key.
    pub fn preview_eventual(&self, charge: &Charge<'_>, now: Timestamp) -> Option<EventualReply> {
        let (sync, algorithm) = (sync_policy(charge)?, packed(charge.counter)?);
        let mut shard = self.eventual.table.lock(charge);
        let key = shard.get_mut()?;
        let outcome = key.replica.preview(algorithm, sync.carry, charge.cost, now);
        Some(EventualReply { outcome, at: key.replica.store_time(now) })
    }

    /// Takes back units. Returns false if they were pushed already.
    pub fn refund_eventual(&self, charge: &Charge<'_>, charged: Timestamp, now: Timestamp) -> bool {
        let Some(algorithm) = packed(charge.counter) else { return false };
        let mut shard = self.eventual.table.lock(charge);
        shard.get_mut().is_some_and(|key| key.replica.refund(algorithm, charge.cost, charged, now))
    }

    /// Forgets the copy of a key that is reset.
    pub fn forget_replica(&self, charge: &Charge<'_>) {
        self.eventual.table.lock(charge).remove();
    }

    /// Pushes what is due, or all.
    pub fn sweep_replicas(self: &Arc<Self>, now: Timestamp, which: Sweep) {
        let mut pushes = Vec::new();
        // Divided among the shards, so that those that are swept first do not take all of it.
        let taken = self.take_room(usize::MAX, CALLS_MAX);
        let room = taken / SHARDS;
        let is_failing = which == Sweep::Due && self.eventual.is_failing.load(Ordering::Relaxed);
        let pushes_max = if is_failing { FAILING_PUSHES_MAX.min(room) } else { room };
        for mut shard in self.eventual.table.lock_each() {
            let mut pushes_left = pushes_max;
            let visit = |table_key: &TableKey, key: &mut EventualKey| {
                // Not keys whose server does not answer: they would take the room of the others.
                if which == Sweep::All && key.failing_since.is_none() {
                    key.next_sync = key.next_sync.min(now);
                }
                if key.next_sync <= now
                    && pushes_left > 0
                    && key.has_to_sync()
                    && !key.replica.is_push_under_way()
                {
                    pushes_left -= 1;
                    pushes.extend(key.start_push(table_key.bytes(), now));
                }
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
        self.give_back_room(taken - pushes.len());
        self.send_pushes(pushes, now);
    }

    /// After this time without a reply, a node falls back to its share.
    fn away_after_ns(&self, sync: SyncPolicy) -> u64 {
        self.timeout_ns().saturating_add(sync.interval_ns)
    }

    /// How long the store may take for a decision.
    fn timeout_ns(&self) -> u64 {
        let timeout_ns = self.shared.timeout().map_or(0, |timeout| timeout.as_nanos());
        u64::try_from(timeout_ns).unwrap_or(u64::MAX)
    }

    /// Sends the push of a key near its limit, whatever else is under way.
    fn send_push(self: &Arc<Self>, push: Option<Push>, now: Timestamp) {
        if let Some(push) = push {
            self.take_room(1, u64::MAX);
            self.send_pushes(vec![push], now);
        }
    }

    /// Sends pushes together, so that they share a pipeline. They were counted as under way before.
    fn send_pushes(self: &Arc<Self>, pushes: Vec<Push>, now: Timestamp) {
        if pushes.is_empty() {
            return;
        }
        self.eventual.counters.pushes.fetch_add(pushes.len() as u64, Ordering::Relaxed);
        let send = |inner: &Self, push: &Push| inner.start_sending(push, now);
        self.send_calls(pushes, send, move |inner, push, reply| inner.finish_push(&push, reply, now));
    }

    fn start_sending(&self, push: &Push, now: Timestamp) -> Response {
        let Push { charge, units } = push;
        let plan = Plan::of_one(charge.charge());
        let ago = Nanos::new(now.as_nanos().saturating_sub(units.used_at.as_nanos()).into());
        let sync = sync_policy(&charge.charge()).map_or(0, |sync| sync.interval_ns);
        let timeout = Nanos::new(sync.min(PUSH_TIMEOUT_NS_MAX).max(self.timeout_ns()).into());
        let deadline = Some(now.saturating_add(timeout));
        self.shared.ask(&Ask { op: Op::Count { ago }, plan: &plan, now, deadline })
    }

    fn finish_push(&self, push: &Push, reply: Result<Reply, StoreError>, sent: Timestamp) {
        let Push { charge, units } = push;
        let charge = charge.charge();
        let (eventual, answered) = (&self.eventual, self.clock.now());
        let Some(algorithm) = packed(charge.counter) else { return };
        let mut shard = eventual.table.lock(&charge);
        let Some(key) = shard.get_mut().filter(|key| key.replica.has_sent(sent)) else { return };
        let state = |reply: Reply| Some((*reply.states?.first()?, reply.at));
        match reply.map(state) {
            Ok(Some((state, at))) => {
                key.failing_since = None;
                let capacity = charge.counter.limit().capacity();
                let is_near =
                    |outcome: Outcome| outcome.remaining <= charge.counter.limit().rate().limit() / 2;
                key.replica.finish_push(algorithm, key.sync.carry, Pulled { state, at, sent, answered });
                // With much left, it does not matter yet what other nodes have pushed at the same time.
                let known = key.replica.preview(algorithm, key.sync.carry, 0, answered);
                key.has_to_learn |= units.units > 0 && is_near(known);
                let used = capacity.saturating_sub(known.remaining) + key.replica.debt(algorithm, answered);
                self.usage.note(charge.counter, used as f64 / capacity.max(1) as f64, answered);
                eventual.clock_offset_ns.store(key.replica.clock_offset_ns(), Ordering::Relaxed);
                eventual.counters.units_pushed.fetch_add(units.units, Ordering::Relaxed);
            }
            Ok(None) | Err(_) => key.fail_push(algorithm, sent),
        }
        eventual.is_failing.store(key.failing_since.is_some(), Ordering::Relaxed);
        if key.failing_since.is_some() {
            eventual.counters.push_failures.fetch_add(1, Ordering::Relaxed);
        }
        let next_visit = key.next_visit(answered);
        shard.visit_at(next_visit);
    }
}

impl EventualKey {
    fn start_push(&mut self, key: &[u8], now: Timestamp) -> Option<Push> {
        let algorithm = packed(&self.counter)?;
        let units = self.replica.start_push(algorithm, self.sync.carry, now);
        self.has_to_learn = false;
        self.next_sync = self.next_sync(now);
        Some(Push { charge: KeyCharge::new(key, &self.counter, self.policy, units.units), units })
    }

    /// Whether the copy is older than the interval, or there is none.
    fn is_stale(&self, now: Timestamp) -> bool {
        // A push is on its way for up to a round trip, and sweeps may be late by a few milliseconds.
        self.replica.age_ns(now).is_none_or(|age_ns| age_ns > self.sync.interval_ns.saturating_mul(2))
    }

    /// Whether a request may be decided from a copy that is stale: if it and what this node has not shared take at most half
    /// of the node's share of what is left. So requests that are spread over many nodes do not each find an unused limit.
    ///
    /// Without a copy, half of the limit may be used already: with less in use, a key is forgotten.
    fn has_room_when_stale(
        &self,
        algorithm: &PackedAlgorithm,
        charge: &Charge<'_>,
        now: Timestamp,
        nodes: u64,
    ) -> bool {
        let own = self.replica.units_pending();
        let known = self.replica.preview(algorithm, self.sync.carry, 0, now).remaining.saturating_add(own);
        let (is_alone, forgotten) = match self.replica.age_ns(now) {
            Some(_) => (nodes == 1, 0),
            None => (false, self.counter.limit().capacity() / 2),
        };
        let shares = if nodes == 1 { 1 } else { 2 * nodes };
        let used = charge.cost.saturating_add(own);
        is_alone || used.saturating_mul(shares).saturating_add(forgotten) <= known
    }

    /// One lost message is repeated at once. Only if that fails too, the store may be away.
    fn fail_push(&mut self, algorithm: &PackedAlgorithm, sent: Timestamp) {
        let pause_ns = match self.failing_since {
            None => 0,
            Some(_) => self.sync.interval_ns.saturating_mul(FAILED_INTERVALS),
        };
        self.failing_since.get_or_insert(sent);
        self.next_sync = sent.saturating_add(Nanos::new(pause_ns.into()));
        self.replica.fail_push(algorithm);
    }

    /// Nine tenths to all of the interval from now, so that the nodes of a fleet do not push at the same time. Earlier if
    /// a fixed window ends before: what it carries over depends on its last count.
    fn next_sync(&self, now: Timestamp) -> Timestamp {
        let interval_ns = self.sync.interval_ns;
        let margin_ns = (interval_ns / 10).max(1);
        let jitter_ns = now.as_nanos().wrapping_mul(0x9E37_79B9_7F4A_7C15) % margin_ns;
        let regular_ns = now.as_nanos().saturating_add(interval_ns - jitter_ns);
        let before_end_ns = self.replica.window_end(now).map(|end| end.as_nanos().saturating_sub(margin_ns));
        let is_later = |before_end_ns: &u64| *before_end_ns > now.as_nanos().saturating_add(margin_ns);
        Timestamp::from_nanos(
            before_end_ns.filter(is_later).map_or(regular_ns, |end_ns| end_ns.min(regular_ns)),
        )
    }

    fn is_store_away(&self, now: Timestamp, away_after_ns: u64) -> bool {
        self.failing_since
            .is_some_and(|since| now.as_nanos().saturating_sub(since.as_nanos()) >= away_after_ns)
    }

    fn has_to_sync(&self) -> bool {
        self.replica.units_unsent() > 0 || self.has_to_learn || self.failing_since.is_some()
    }

    /// Whether the table should keep the key.
    fn is_needed(&self, now: Timestamp) -> bool {
        self.is_needed_after(IDLE_NS_MAX, now)
    }

    /// Whether the table must keep the key, even if it is full. A copy that is stale is worth little.
    fn is_in_use(&self, now: Timestamp) -> bool {
        self.is_needed_after(self.sync.interval_ns.saturating_mul(2).min(IDLE_NS_MAX), now)
    }

    fn is_needed_after(&self, idle_ns: u64, now: Timestamp) -> bool {
        let is_recent = now.as_nanos().saturating_sub(self.last_used.as_nanos()) < idle_ns;
        let is_used = || packed(&self.counter).is_some_and(|algorithm| self.is_used(algorithm, now));
        is_recent || self.replica.units_pending() > 0 || self.replica.is_push_under_way() || is_used()
    }

    /// Whether at most half of the limit is left. A key that is forgotten has more.
    fn is_used(&self, algorithm: &PackedAlgorithm, now: Timestamp) -> bool {
        let left = self.replica.preview(algorithm, self.sync.carry, 0, now).remaining;
        left <= self.counter.limit().capacity() / 2 || self.replica.carries_over(algorithm, now)
    }

    /// When to look at the key again: to synchronise it, or to forget it.
    fn next_visit(&self, now: Timestamp) -> Timestamp {
        if self.has_to_sync() {
            return self.next_sync;
        }
        // A key that is kept for longer is looked at now and then.
        let after = |instant: Timestamp, span_ns: u64| instant.saturating_add(Nanos::new(span_ns.into()));
        after(self.last_used, IDLE_NS_MAX).max(after(now, IDLE_NS_MAX / 2))
    }
}
