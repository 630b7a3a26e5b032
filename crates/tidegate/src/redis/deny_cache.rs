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
use tidegate_core::algorithm::Counting;
use tidegate_core::{Algorithm, Ask, Nanos, Role, Timestamp, Verdict};

use shard::{Entry, GoodFor, Known, Shard, heap_bytes};

use super::order::{KeyName, Order, OrderCharge};
use super::script::{KeyState, outcomes_of};
use crate::store::Reply;
use crate::sync::lock;
use tidegate_core::DenyCache as Caching;

/// For how long a state is good: what others gave back, reset or raised is seen after it.
pub(super) const KEPT_NS_MAX: u64 = 1_000_000_000;
/// Keys for which something is kept, in all shards.
pub(super) const ENTRIES_MAX: usize = 65_536;
/// A state that takes more is not kept: it would crowd out many others, and to copy it takes time.
pub(super) const STATE_HEAP_BYTES_MAX: usize = 4 * 1024;
const SHARDS: usize = 64;

/// States that denied.
pub(super) struct DenyCache {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// How many there are in all shards, so that nobody looks for one while there are none.
    entries: AtomicUsize,
}

/// When a state was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenAt {
    /// By the time of Redis.
    pub at: Timestamp,
    /// By this process's clock, the last instant before which it cannot have been.
    pub sent: Timestamp,
}

/// What was seen before a plan was charged: a state for each of its charges.
#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    pub states: &'a [KeyState],
    pub seen: SeenAt,
}

/// Whether the denials of a plan may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denials {
    Kept,
    NotKept,
}

impl SeenAt {
    /// The latest time that it can be for Redis when this process's clock shows `now`.
    pub(super) fn latest(self, now: Timestamp) -> Timestamp {
        self.at.saturating_add(Nanos::new(self.passed_ns(now).into()))
    }

    fn passed_ns(self, now: Timestamp) -> u64 {
        now.as_nanos().saturating_sub(self.sent.as_nanos())
    }
}

impl Denials {
    /// Denials are kept of plans of which a charge may be denied from memory. Plans that count denied attempts have to be
    /// counted where they are counted, and what holds leases is given back at any time.
    pub(super) fn of(order: &Order) -> Self {
        let is_known = |charge: &OrderCharge| {
            !charge.algorithm.counts_denied() && !matches!(charge.algorithm, Algorithm::Leases(_))
        };
        let is_kept = order.charges.iter().any(may_deny) && order.charges.iter().all(is_known);
        if is_kept { Self::Kept } else { Self::NotKept }
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
    pub(super) fn keep(&self, charges: &[OrderCharge], states: &[KeyState], seen: SeenAt) {
        for (charge, state) in charges.iter().zip(states) {
            if heap_bytes(Some(state)) <= STATE_HEAP_BYTES_MAX {
                let state = Some(Arc::new(state.clone()));
                let good_for = GoodFor::Denials;
                self.enter(&charge.key, Entry { number: 0, seen, state, good_for, given_back: None });
            }
        }
    }

    /// Forgets what is known of a plan's keys, for one of them was admitted.
    pub(super) fn forget(&self, charges: &[OrderCharge]) {
        if self.len() == 0 {
            return;
        }
        for charge in charges {
            self.in_shard(&charge.key, |shard| shard.forget(&charge.key));
        }
    }

    /// Forgets what is known of a key, for units of it may have come back.
    pub(super) fn forget_key(&self, key: &KeyName) {
        if self.len() > 0 {
            self.in_shard(key, |shard| shard.forget(key));
        }
    }

    /// Forgets what was seen of a plan's keys before Redis gave units back or forgot them: a reply from before that may
    /// come after it.
    pub(super) fn given_back(&self, charges: &[OrderCharge], seen: SeenAt) {
        for charge in charges {
            let (good_for, given_back) = (GoodFor::Reports, Some(seen.at));
            self.enter(&charge.key, Entry { number: 0, seen, state: None, good_for, given_back });
        }
    }

    /// Keeps what was seen before a plan was charged that was [given back](Self::given_back) at that time, to say what
    /// remains. What was seen in between is not to be believed.
    pub(super) fn restore(&self, charges: &[OrderCharge], before: Before<'_>, given_back: Timestamp) {
        for (charge, state) in charges.iter().zip(before.states) {
            if heap_bytes(Some(state)) <= STATE_HEAP_BYTES_MAX {
                self.in_shard(&charge.key, |shard| {
                    shard.restore(&charge.key, state, before.seen, given_back);
                });
            }
        }
    }

    /// The denial of a plan, if it is known that Redis would deny it now because of a charge that may be denied from memory.
    pub(super) fn denial(&self, order: &Order, now: Timestamp) -> Option<Reply> {
        if self.len() == 0 {
            return None;
        }
        let mut known: SmallVec<[Known; 2]> = SmallVec::new();
        let mut verdict = Verdict::Allowed;
        for charge in &order.charges {
            let key = self.in_shard(&charge.key, |shard| shard.known(&charge.key, now))?;
            if may_deny(charge)
                && key.good_for == GoodFor::Denials
                && weigh(charge, &key.state, key.latest)? == Verdict::Denied
            {
                verdict = Verdict::Denied;
            }
            known.push(key);
        }
        if verdict == Verdict::Allowed {
            return None;
        }
        // That the plan is denied is all that one charge has to know of the others.
        let outcome = |(charge, key): (&OrderCharge, &Known)| {
            outcomes_of(slice::from_ref(charge), slice::from_ref(&*key.state), key.latest, Verdict::Denied)
        };
        let outcomes = order.charges.iter().zip(&known).flat_map(outcome).collect();
        let at = known.iter().map(|key| key.latest).max()?;
        Some(Reply::decided(at, outcomes))
    }

    fn enter(&self, key: &KeyName, entry: Entry) {
        self.in_shard(key, |shard| shard.enter(key, entry));
    }

    /// What is done to the shard of a key is counted.
    fn in_shard<T>(&self, key: &KeyName, act: impl FnOnce(&mut Shard) -> T) -> T {
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
fn may_deny(charge: &OrderCharge) -> bool {
    charge.role == Role::Enforced && charge.deny_cache == Caching::On
}

/// What a limit says of a charge; none if the state is not one of its own.
fn weigh(charge: &OrderCharge, state: &KeyState, now: Timestamp) -> Option<Verdict> {
    let ask = Ask { now, cost: charge.cost };
    match (&charge.algorithm, state) {
        (Algorithm::Packed(algorithm), KeyState::Packed(state)) => Some(algorithm.weigh(state, ask)),
        (Algorithm::Ledger(algorithm), KeyState::Ledger(state)) => Some(algorithm.weigh(state, ask)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
