//! The cache of denials: [`DenyCache`].

use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{Algorithm, DenyCache as Caching, Nanos, OutcomeKind, Role, TimedCost, Timestamp};

use super::shard::{CachedState, DenyEntry, DenyShard, UsableFor, heap_bytes};
use crate::redis::key_name::KeyName;
use crate::redis::plan::{RedisCharge, RedisPlan};
use crate::redis::script::{KeyState, preview_outcomes};
use crate::store::Reply;
use crate::sync::lock;

/// The age of an entry at most. After it, refunds, resets and raised limits of other nodes take effect here.
pub(crate) const ENTRY_AGE_NS_MAX: u64 = 1_000_000_000;
/// Entries in all shards together at most.
pub(crate) const ENTRIES_MAX: usize = 65_536;
/// A larger state is not cached: it would displace many others, and copying it takes time.
pub(crate) const STATE_HEAP_BYTES_MAX: usize = 4 * 1024;
pub(super) const SHARDS: usize = 64;

/// The states that denied, by key.
pub(crate) struct DenyCache {
    pub(super) shards: Box<[Mutex<DenyShard>]>,
    hasher: RandomState,
    /// The number of entries in all shards, so that an empty cache costs no lookup.
    entries: AtomicUsize,
}

/// When Redis replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyTime {
    /// By the clock of Redis.
    pub server_time: Timestamp,
    /// By this process's clock, when the call was sent: Redis cannot have replied before.
    pub sent_at: Timestamp,
}

/// The states before a plan was charged, one for each charge.
#[derive(Clone, Copy)]
pub(crate) struct StatesBefore<'a> {
    pub states: &'a [KeyState],
    pub reply_time: ReplyTime,
}

/// Whether the cache may keep the denials of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialCaching {
    Enabled,
    Disabled,
}

impl ReplyTime {
    /// The latest time that it can be for Redis when this process's clock shows `now`.
    pub(crate) fn latest_server_time(self, now: Timestamp) -> Timestamp {
        self.server_time.saturating_add(Nanos::new(self.elapsed_ns(now).into()))
    }

    pub(super) fn elapsed_ns(self, now: Timestamp) -> u64 {
        now.as_nanos().saturating_sub(self.sent_at.as_nanos())
    }
}

impl DenialCaching {
    /// Enabled if the cache may deny at least one charge of the plan. Disabled if a log counts denied attempts,
    /// because Redis must count them, or a limit holds leases, because those are released at any time.
    pub(crate) fn for_plan(plan: &RedisPlan) -> Self {
        let is_monotonic = |charge: &RedisCharge| match &charge.algorithm {
            Algorithm::Packed(_) => true,
            Algorithm::UsageLog(_) => !charge.algorithm.counts_denied(),
            Algorithm::Leases(_) => false,
        };
        let is_enabled = plan.charges.iter().any(is_cacheable) && plan.charges.iter().all(is_monotonic);
        if is_enabled { Self::Enabled } else { Self::Disabled }
    }
}

impl DenyCache {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::default(), entries: AtomicUsize::new(0) }
    }

    /// The number of keys in the cache.
    pub(crate) fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Inserts the states that denied a plan, one for each charge. An entry with a later time of Redis stays.
    pub(crate) fn insert_denial(&self, charges: &[RedisCharge], states: &[KeyState], reply_time: ReplyTime) {
        for (charge, state) in charges.iter().zip(states) {
            if heap_bytes(Some(state)) <= STATE_HEAP_BYTES_MAX {
                let state = Some(Arc::new(state.clone()));
                let usable_for = UsableFor::Denials;
                self.insert(
                    &charge.key,
                    DenyEntry { sequence: 0, reply_time, state, usable_for, refunded_at: None },
                );
            }
        }
    }

    /// Forgets a plan's keys, because the plan was admitted.
    pub(crate) fn forget(&self, charges: &[RedisCharge]) {
        if self.len() == 0 {
            return;
        }
        for charge in charges {
            self.with_shard(&charge.key, |shard| shard.forget(&charge.key));
        }
    }

    /// Forgets a key, because units of it may have been refunded.
    pub(crate) fn forget_key(&self, key: &KeyName) {
        if self.len() > 0 {
            self.with_shard(key, |shard| shard.forget(key));
        }
    }

    /// Records a refund or a reset of a plan's keys. Replies from before it are ignored, even if they arrive
    /// later.
    pub(crate) fn record_refund(&self, charges: &[RedisCharge], reply_time: ReplyTime) {
        for charge in charges {
            let (usable_for, refunded_at) = (UsableFor::ReportOnly, Some(reply_time.server_time));
            self.insert(
                &charge.key,
                DenyEntry { sequence: 0, reply_time, state: None, usable_for, refunded_at },
            );
        }
    }

    /// Restores the states from before a plan that was charged and then refunded at this time, so that the
    /// cache can report what remains. States that Redis replied with in between are not valid.
    pub(crate) fn restore(&self, charges: &[RedisCharge], before: StatesBefore<'_>, refunded_at: Timestamp) {
        for (charge, state) in charges.iter().zip(before.states) {
            if heap_bytes(Some(state)) <= STATE_HEAP_BYTES_MAX {
                self.with_shard(&charge.key, |shard| {
                    shard.restore(&charge.key, state, before.reply_time, refunded_at);
                });
            }
        }
    }

    /// The denial of a plan, if Redis would certainly deny it now because of a charge that may be denied from
    /// the cache.
    pub(crate) fn cached_denial(&self, plan: &RedisPlan, now: Timestamp) -> Option<Reply> {
        if self.len() == 0 {
            return None;
        }
        let mut cached: SmallVec<[CachedState; 2]> = SmallVec::new();
        let mut decision = OutcomeKind::Allowed;
        for charge in &plan.charges {
            let key = self.with_shard(&charge.key, |shard| shard.get(&charge.key, now))?;
            // Redis must count an attempt as long as it can change a decision. A window that is past L stays over.
            if charge.algorithm.counts_denied()
                && outcome_kind(charge, 0, &key.state, key.latest_server_time)? == OutcomeKind::Allowed
            {
                return None;
            }
            if is_cacheable(charge)
                && key.usable_for == UsableFor::Denials
                && outcome_kind(charge, charge.cost, &key.state, key.latest_server_time)?
                    == OutcomeKind::Denied
            {
                decision = OutcomeKind::Denied;
            }
            cached.push(key);
        }
        if decision == OutcomeKind::Allowed {
            return None;
        }
        // The outcome of a charge depends on the others only by the decision, which is Denied.
        let outcome = |(charge, key): (&RedisCharge, &CachedState)| {
            preview_outcomes(
                slice::from_ref(charge),
                slice::from_ref(&*key.state),
                key.latest_server_time,
                OutcomeKind::Denied,
            )
        };
        let outcomes = plan.charges.iter().zip(&cached).flat_map(outcome).collect();
        let at = cached.iter().map(|key| key.latest_server_time).max()?;
        Some(Reply::new(at, outcomes))
    }

    fn insert(&self, key: &KeyName, entry: DenyEntry) {
        self.with_shard(key, |shard| shard.insert(key, entry));
    }

    /// Runs `act` on the shard of a key and updates the number of entries.
    fn with_shard<T>(&self, key: &KeyName, act: impl FnOnce(&mut DenyShard) -> T) -> T {
        let number = std::hash::BuildHasher::hash_one(&self.hasher, key.as_slice());
        let mut shard = lock(&self.shards[usize::try_from(number % SHARDS as u64).unwrap_or(0)]);
        let before = shard.by_key.len();
        let result = act(&mut shard);
        let after = shard.by_key.len();
        if after > before {
            self.entries.fetch_add(after - before, Ordering::Relaxed);
        } else if after < before {
            self.entries.fetch_sub(before - after, Ordering::Relaxed);
        }
        result
    }
}

/// Whether the cache may deny a plan because of this charge.
fn is_cacheable(charge: &RedisCharge) -> bool {
    charge.role == Role::Enforced && charge.deny_cache == Caching::On
}

/// What a limit says about a cost; none if the state is of another algorithm.
fn outcome_kind(charge: &RedisCharge, cost: u64, state: &KeyState, now: Timestamp) -> Option<OutcomeKind> {
    let timed_cost = TimedCost { now, cost };
    match (&charge.algorithm, state) {
        (Algorithm::Packed(algorithm), KeyState::Packed(state)) => {
            Some(algorithm.outcome_kind(state, timed_cost))
        }
        (Algorithm::UsageLog(algorithm), KeyState::UsageLog(state)) => {
            Some(algorithm.outcome_kind(state, timed_cost))
        }
        _ => None,
    }
}
