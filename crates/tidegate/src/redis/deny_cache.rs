//! Denials from memory, while it is known that Redis would deny.
//!
//! After a denial the states that Redis decided by are kept, with the time at which it did. Until somebody gives units
//! back, what is used only grows, and of a state that stays as it is each algorithm but those that count denied attempts or
//! hold leases denies the same cost up to some instant and not after it. So if a state that was seen denies a cost at the
//! latest time that it can be for Redis by now, Redis would deny it too: that is the time of its reply and all that has
//! passed since the call was sent.
//!
//! What was given back or reset by others is not known here, so nothing is kept for longer than [`KEPT_NS_MAX`].

mod shard;

use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{Algorithm, TimedCost, Nanos, Role, Timestamp, OutcomeKind};

use shard::{DenyEntry, UsableFor, CachedState, DenyShard, heap_bytes};

use super::plan::{KeyName, RedisPlan, RedisCharge};
use super::script::{KeyState, preview_outcomes};
use crate::store::Reply;
use crate::sync::lock;
use tidegate_core::DenyCache as Caching;

/// For how long a state is good: what others gave back, reset or raised is seen after it.
pub(super) const ENTRY_AGE_NS_MAX: u64 = 1_000_000_000;
/// Keys for which something is kept, in all shards.
pub(super) const ENTRIES_MAX: usize = 65_536;
/// A state that takes more is not kept: it would crowd out many others, and to copy it takes time.
pub(super) const STATE_HEAP_BYTES_MAX: usize = 4 * 1024;
const SHARDS: usize = 64;

/// States that denied.
pub(super) struct DenyCache {
    shards: Box<[Mutex<DenyShard>]>,
    hasher: RandomState,
    /// How many there are in all shards, so that nobody looks for one while there are none.
    entries: AtomicUsize,
}

/// When a state was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyTime {
    /// By the time of Redis.
    pub server_time: Timestamp,
    /// By this process's clock, the last instant before which it cannot have been.
    pub sent_at: Timestamp,
}

/// What was seen before a plan was charged: a state for each of its charges.
#[derive(Clone, Copy)]
pub(super) struct StatesBefore<'a> {
    pub states: &'a [KeyState],
    pub reply_time: ReplyTime,
}

/// Whether the denials of a plan may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DenialCaching {
    Enabled,
    Disabled,
}

impl ReplyTime {
    /// The latest time that it can be for Redis when this process's clock shows `now`.
    pub(super) fn latest_server_time(self, now: Timestamp) -> Timestamp {
        self.server_time.saturating_add(Nanos::new(self.elapsed_ns(now).into()))
    }

    fn elapsed_ns(self, now: Timestamp) -> u64 {
        now.as_nanos().saturating_sub(self.sent_at.as_nanos())
    }
}

impl DenialCaching {
    /// Denials are kept of plans of which a charge may be denied from memory. Plans that count denied attempts have to be
    /// counted where they are counted, and what holds leases is given back at any time.
    pub(super) fn for_plan(order: &RedisPlan) -> Self {
        let is_known = |charge: &RedisCharge| {
            !charge.algorithm.counts_denied() && !matches!(charge.algorithm, Algorithm::Leases(_))
        };
        let is_kept = order.charges.iter().any(is_cacheable) && order.charges.iter().all(is_known);
        if is_kept { Self::Enabled } else { Self::Disabled }
    }
}

impl DenyCache {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: RandomState::default(), entries: AtomicUsize::new(0) }
    }

    /// The keys for which something is kept.
    pub(super) fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Keeps what denied a plan: a state for each of its charges. What was seen later by Redis' time stays.
    pub(super) fn insert_denial(&self, charges: &[RedisCharge], states: &[KeyState], seen: ReplyTime) {
        for (charge, state) in charges.iter().zip(states) {
            if heap_bytes(Some(state)) <= STATE_HEAP_BYTES_MAX {
                let state = Some(Arc::new(state.clone()));
                let good_for = UsableFor::Denials;
                self.insert(&charge.key, DenyEntry { sequence: 0, reply_time: seen, state, usable_for: good_for, refunded_at: None });
            }
        }
    }

    /// Forgets what is known of a plan's keys, for one of them was admitted.
    pub(super) fn forget(&self, charges: &[RedisCharge]) {
        if self.len() == 0 {
            return;
        }
        for charge in charges {
            self.with_shard(&charge.key, |shard| shard.forget(&charge.key));
        }
    }

    /// Forgets what is known of a key, for units of it may have come back.
    pub(super) fn forget_key(&self, key: &KeyName) {
        if self.len() > 0 {
            self.with_shard(key, |shard| shard.forget(key));
        }
    }

    /// Forgets what was seen of a plan's keys before Redis gave units back or forgot them: a reply from before that may
    /// come after it.
    pub(super) fn record_refund(&self, charges: &[RedisCharge], seen: ReplyTime) {
        for charge in charges {
            let (good_for, given_back) = (UsableFor::ReportOnly, Some(seen.server_time));
            self.insert(&charge.key, DenyEntry { sequence: 0, reply_time: seen, state: None, usable_for: good_for, refunded_at: given_back });
        }
    }

    /// Keeps what was seen before a plan was charged that was [given back](Self::given_back) at that time, to say what
    /// remains. What was seen in between is not to be believed.
    pub(super) fn restore(&self, charges: &[RedisCharge], before: StatesBefore<'_>, given_back: Timestamp) {
        for (charge, state) in charges.iter().zip(before.states) {
            if heap_bytes(Some(state)) <= STATE_HEAP_BYTES_MAX {
                self.with_shard(&charge.key, |shard| {
                    shard.restore(&charge.key, state, before.reply_time, given_back);
                });
            }
        }
    }

    /// The denial of a plan, if it is known that Redis would deny it now because of a charge that may be denied from memory.
    pub(super) fn cached_denial(&self, order: &RedisPlan, now: Timestamp) -> Option<Reply> {
        if self.len() == 0 {
            return None;
        }
        let mut known: SmallVec<[CachedState; 2]> = SmallVec::new();
        let mut verdict = OutcomeKind::Allowed;
        for charge in &order.charges {
            let key = self.with_shard(&charge.key, |shard| shard.get(&charge.key, now))?;
            if is_cacheable(charge)
                && key.usable_for == UsableFor::Denials
                && weigh(charge, &key.state, key.latest_server_time)? == OutcomeKind::Denied
            {
                verdict = OutcomeKind::Denied;
            }
            known.push(key);
        }
        if verdict == OutcomeKind::Allowed {
            return None;
        }
        // That the plan is denied is all that one charge has to know of the others.
        let outcome = |(charge, key): (&RedisCharge, &CachedState)| {
            preview_outcomes(slice::from_ref(charge), slice::from_ref(&*key.state), key.latest_server_time, OutcomeKind::Denied)
        };
        let outcomes = order.charges.iter().zip(&known).flat_map(outcome).collect();
        let at = known.iter().map(|key| key.latest_server_time).max()?;
        Some(Reply::new(at, outcomes))
    }

    fn insert(&self, key: &KeyName, entry: DenyEntry) {
        self.with_shard(key, |shard| shard.insert(key, entry));
    }

    /// What is done to the shard of a key is counted.
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

/// Whether a charge may be what a plan is denied for from memory.
fn is_cacheable(charge: &RedisCharge) -> bool {
    charge.role == Role::Enforced && charge.deny_cache == Caching::On
}

/// What a limit says of a charge; none if the state is not one of its own.
fn weigh(charge: &RedisCharge, state: &KeyState, now: Timestamp) -> Option<OutcomeKind> {
    let ask = TimedCost { now, cost: charge.cost };
    match (&charge.algorithm, state) {
        (Algorithm::Packed(algorithm), KeyState::Packed(state)) => Some(algorithm.outcome_kind(state, ask)),
        (Algorithm::UsageLog(algorithm), KeyState::Ledger(state)) => Some(algorithm.outcome_kind(state, ask)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
