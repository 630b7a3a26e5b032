//! [`MemoryStore`]: its parts, and how it checks, refunds and resets.

use std::fmt;

use tidegate_core::algorithm::{Concurrency, LimitAlgorithm, PackedAlgorithm, UsageLogAlgorithm};
use tidegate_core::{
    Algorithm, Charge, ChargeDecision, ChargedAt, Counter, Decision, FencingToken, Grant, Leases, Nanos,
    Outcome, PackedState, Plan, Role, TimedCost, Timestamp, UsageLog,
};

use super::Outcomes;
use super::budget::Budget;
use super::fast_path::FastMiss;
use super::leases::memory_full_outcome;
use super::owners::{OwnedTag, Owners};
use super::seed::Seed;
use super::shards::{EvictionContext, MemoryShare, ShardEntry, ShardedState, Shards, shard_of};
use super::table::Table;
use crate::queue::QueueGroups;
use crate::store::LeaseReply;
use crate::sync::{AtomicU64, Ordering};

/// The default of `memory_max`.
pub const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// The smallest `memory_max`.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// How much address space an unbounded store tries to reserve. It accepts less.
const UNBOUNDED_BYTES: u64 = 1 << 40;

/// Counters in the memory of this process.
pub struct MemoryStore {
    pub(super) table: Table,
    pub(super) usage_logs: Shards<UsageLog>,
    pub(super) leases: Shards<Leases>,
    pub(super) budget: Budget,
    pub(super) seed: Seed,
    pub(super) owners: Owners,
    pub(super) retains_idle: bool,
    pub(super) live_evictions: AtomicU64,
    pub(super) lease_refusals: AtomicU64,
    /// The wait queues of limiters and engines over this store.
    pub(super) queue_groups: QueueGroups,
    /// Held while a snapshot is written: one at a time.
    pub(super) snapshot_lock: std::sync::Mutex<()>,
    /// The highest fencing token among the states that were dropped. No key grants a lower one.
    pub(super) lost_fence_max: AtomicU64,
}

/// What a store holds, and what it had to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes in use for counters.
    pub bytes_used: u64,
    /// The most bytes that may be used.
    pub bytes_max: u64,
    /// Live counters that were evicted because memory was full.
    pub live_evictions: u64,
    /// Requests for a lease that were refused because the memory for leases was full.
    pub lease_refusals: u64,
}

impl MemoryStore {
    /// A store of at most `memory_max` bytes, at least [`MEMORY_BYTES_MIN`].
    pub fn bounded(memory_max: u64) -> Self {
        Self::new(memory_max.max(MEMORY_BYTES_MIN), false)
    }

    /// A store that drops nothing, idle or not, until the machine's memory is full. For traces and simulations, where
    /// time may step back to when a state was not idle. In a server it would leak.
    pub fn unbounded() -> Self {
        Self::new(UNBOUNDED_BYTES, true)
    }

    /// A store of a few pages for loom, which tracks every word.
    #[cfg(loom)]
    pub(crate) fn tiny() -> Self {
        const PAGES: u64 = 8;
        Self::new(PAGES * super::page::PAGE_BYTES as u64, false)
    }

    fn new(memory_max: u64, retains_idle: bool) -> Self {
        // Each kind of state may use everything that is not reserved for the other two.
        let reserved = Budget::reserved_bytes(memory_max);
        let share = MemoryShare { bytes_reserved: reserved, bytes_max: memory_max - 2 * reserved };
        let budget = Budget::new(memory_max);
        let (usage_logs, leases) = (Shards::new(share, &budget), Shards::new(share, &budget));
        Self {
            table: Table::new(usize::try_from(share.bytes_max).unwrap_or(usize::MAX), &budget),
            usage_logs,
            leases,
            budget,
            seed: Seed::random(),
            owners: Owners::new(),
            retains_idle,
            live_evictions: AtomicU64::new(0),
            lease_refusals: AtomicU64::new(0),
            queue_groups: QueueGroups::default(),
            snapshot_lock: std::sync::Mutex::new(()),
            lost_fence_max: AtomicU64::new(0),
        }
    }

    /// Decides a plan: charges all of it or nothing. The enforced charges decide.
    ///
    /// A denial that counts nothing only reads. It is valid for the moment at which the limit that denied was read. The
    /// outcomes of the other limits are from the same moment, within the duration of the call.
    ///
    /// A check on a concurrency limit takes a lease without a token. If there is no memory for it, the plan is denied,
    /// and [`lease_refusals`](MemoryStats::lease_refusals) counts it. [`acquire`](Self::acquire) tells the two apart.
    pub fn check(&self, plan: &Plan<'_>, now: Timestamp) -> Outcomes {
        self.check_plan(plan, now).0
    }

    /// As [`check`](Self::check), and whether a lease was refused.
    #[inline]
    pub(crate) fn check_plan(&self, plan: &Plan<'_>, now: Timestamp) -> (Outcomes, LeaseReply) {
        match plan.charges() {
            [charge] => {
                let decision = self.check_charge(charge, now);
                (std::iter::once(decision.outcome()).collect(), lease_refusal(&decision))
            }
            charges => {
                let counts_denied = charges.iter().any(|charge| charge.counter.algorithm().counts_denied());
                match if counts_denied { None } else { self.peek_denied(plan, now) } {
                    Some(denied) => (denied, LeaseReply::None),
                    None => self.check_several(plan, now),
                }
            }
        }
    }

    fn check_several(&self, plan: &Plan<'_>, now: Timestamp) -> (Outcomes, LeaseReply) {
        let (outcomes, grant) = self.transact(plan, now, None);
        (outcomes, grant.map_or(LeaseReply::MemoryFull, |_| LeaseReply::None))
    }

    /// Decides a plan of one charge. A request whose only charge is [observed](Role::Observed) always passes. Its
    /// decision is what the limit would have decided.
    #[inline(always)]
    pub fn check_charge(&self, charge: &Charge<'_>, now: Timestamp) -> Decision {
        self.check_tagged(charge, self.seed.tag_of_charge(charge), now, |decision| decision)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn check_charge_slow(
        &self,
        charge: Charge<'_>,
        tag: u64,
        now: Timestamp,
        miss: FastMiss,
    ) -> Decision {
        if charge.role == Role::Observed {
            return Decision::merge(&self.transact(&Plan::of_one(charge), now, None).0);
        }
        let counter = charge.counter;
        if let (FastMiss::Read(state), Some(path)) = (&miss, counter.fast_path()) {
            path.refresh(now);
            if let Some(denial) = path.denial(*state, now) {
                return Decision::of_one(denial);
            }
        }
        let timed_cost = TimedCost { now, cost: charge.cost };
        match counter.algorithm() {
            Algorithm::Packed(algorithm) => match algorithm {
                // A separate function for each algorithm: one function for all would be slower for each.
                PackedAlgorithm::Gcra(one) => self.decide_packed(counter, tag, one, timed_cost, miss),
                PackedAlgorithm::TokenBucket(one) => self.decide_packed(counter, tag, one, timed_cost, miss),
                PackedAlgorithm::LeakyBucket(one) => self.decide_packed(counter, tag, one, timed_cost, miss),
                PackedAlgorithm::FixedWindow(one) => self.decide_packed(counter, tag, one, timed_cost, miss),
                PackedAlgorithm::SlidingWindow(one) => {
                    self.decide_packed(counter, tag, one, timed_cost, miss)
                }
            },
            Algorithm::UsageLog(one) => self.check_usage_log(&charge, tag, one, timed_cost),
            Algorithm::Leases(one) => self.check_leases(&charge, tag, one, timed_cost),
        }
    }

    #[inline(never)]
    fn check_usage_log(
        &self,
        charge: &Charge<'_>,
        tag: u64,
        algorithm: &UsageLogAlgorithm,
        timed_cost: TimedCost,
    ) -> Decision {
        let key = self.owned_tag(charge.counter, tag);
        let charge = |log: &mut UsageLog| algorithm.charge(log, timed_cost);
        let shard = &mut self.usage_logs.lock(shard_of(tag));
        let kind = shard.with_state(tag, |log| algorithm.outcome_kind(log, timed_cost));
        let entry = ShardEntry { shards: &self.usage_logs, shard, key };
        let charge_decision = ChargeDecision::of_one(kind);
        Decision::of_one(self.charge_sharded(entry, algorithm, timed_cost, charge_decision, charge))
    }

    #[inline(never)]
    fn check_leases(
        &self,
        charge: &Charge<'_>,
        tag: u64,
        algorithm: &Concurrency,
        timed_cost: TimedCost,
    ) -> Decision {
        let key = self.owned_tag(charge.counter, tag);
        let shard = &mut self.leases.lock(shard_of(tag));
        let kind = shard.with_state(tag, |leases| algorithm.outcome_kind(leases, timed_cost));
        let is_charged = algorithm.is_charged(timed_cost, ChargeDecision::of_one(kind));
        let mut entry = ShardEntry { shards: &self.leases, shard, key };
        if is_charged && !self.has_room_for_lease(&mut entry, timed_cost.now) {
            self.lease_refusals.fetch_add(1, Ordering::Relaxed);
            let mut decision = Decision::of_one(memory_full_outcome());
            decision.lease_memory_full = true;
            return decision;
        }
        let charge = |leases: &mut Leases| {
            let grant = self.raise_above_lost_fence(algorithm.next_grant(leases, timed_cost.now));
            leases.acquire(grant, timed_cost.cost, timed_cost.now);
        };
        let charge_decision = ChargeDecision::of_one(kind);
        Decision::of_one(self.charge_sharded(entry, algorithm, timed_cost, charge_decision, charge))
    }

    /// Refunds a plan: the newest units of each key, at most what the key has used. Leases are
    /// [released](Self::release) instead. Wakes no waiter: wait queues belong to limiters and engines.
    pub fn refund(&self, plan: &Plan<'_>, now: Timestamp) {
        plan.charges().iter().for_each(|charge| self.refund_newest(charge, now));
    }

    /// Refunds the newest units of a charge.
    fn refund_newest(&self, charge: &Charge<'_>, now: Timestamp) {
        if charge.cost == 0 {
            return;
        }
        let (tag, timed_cost) = (self.seed.tag_of_charge(charge), TimedCost { now, cost: charge.cost });
        match charge.counter.algorithm() {
            Algorithm::Packed(algorithm) => {
                self.update_packed(tag, |state| algorithm.refund(state, timed_cost));
            }
            Algorithm::UsageLog(algorithm) => {
                let shard = &mut self.usage_logs.lock(shard_of(tag));
                if shard.contains(tag) {
                    let key = self.owned_tag(charge.counter, tag);
                    self.update_sharded(ShardEntry { shards: &self.usage_logs, shard, key }, now, |log| {
                        algorithm.refund(log, timed_cost);
                        ((), now.saturating_add(algorithm.reset_after(log, now)))
                    });
                }
            }
            Algorithm::Leases(_) => {}
        }
    }

    /// Refunds a request that was admitted at `at` with a delay and has not left yet. A leaky bucket gets the full cost
    /// back. So does another bucket if it was not charged since: it returns to its earlier state, to a fraction of a
    /// nanosecond. All other charges are refunded as of `at`.
    pub(crate) fn refund_delayed(
        &self,
        plan: &Plan<'_>,
        outcomes: &[Outcome],
        at: Timestamp,
        now: Timestamp,
    ) {
        for (charge, outcome) in plan.charges().iter().zip(outcomes) {
            let algorithm = charge.counter.algorithm();
            let is_fully_refunded = match algorithm {
                Algorithm::Packed(PackedAlgorithm::LeakyBucket(_)) => true,
                Algorithm::Packed(one @ (PackedAlgorithm::Gcra(_) | PackedAlgorithm::TokenBucket(_))) => {
                    let free_ns = |at: Timestamp, after: Nanos| u128::from(at.as_nanos()) + after.get();
                    let state = self.read_packed(self.seed.tag_of_charge(charge)).state;
                    free_ns(at, outcome.reset_after) == free_ns(now, one.reset_after(&state, now))
                }
                _ => false,
            };
            if is_fully_refunded {
                self.refund_newest(charge, now);
            } else {
                let charged_at = ChargedAt::from_outcomes(&Plan::of_one(*charge), &[*outcome], at);
                self.refund_charged_from(charge, charged_at.counted_from(algorithm), now);
            }
        }
    }

    /// As [`refund`](Self::refund), for a plan that was charged at a known instant. Later charges are not affected.
    pub(crate) fn refund_charged_at(&self, plan: &Plan<'_>, charged_at: ChargedAt, now: Timestamp) {
        for charge in plan.charges() {
            self.refund_charged_from(charge, charged_at.counted_from(charge.counter.algorithm()), now);
        }
    }

    /// As [`refund`](Self::refund), for one charge whose units count from a known instant.
    pub(crate) fn refund_charged_from(&self, charge: &Charge<'_>, from: Timestamp, now: Timestamp) {
        let (tag, timed_cost) = (self.seed.tag_of_charge(charge), TimedCost { now, cost: charge.cost });
        match charge.counter.algorithm() {
            _ if charge.cost == 0 => {}
            Algorithm::Packed(algorithm) => {
                self.update_packed(tag, |state| algorithm.refund_charged(state, timed_cost, from));
            }
            Algorithm::UsageLog(algorithm) => {
                let shard = &mut self.usage_logs.lock(shard_of(tag));
                if shard.contains(tag) {
                    let key = self.owned_tag(charge.counter, tag);
                    self.update_sharded(ShardEntry { shards: &self.usage_logs, shard, key }, now, |log| {
                        algorithm.refund_charged(log, timed_cost, from);
                        ((), now.saturating_add(algorithm.reset_after(log, now)))
                    });
                }
            }
            Algorithm::Leases(_) => {}
        }
    }

    /// Removes the states of the plan's keys. Costs do not matter.
    pub fn reset(&self, plan: &Plan<'_>) {
        for charge in plan.charges() {
            let tag = self.seed.tag_of_charge(charge);
            match charge.counter.algorithm() {
                Algorithm::Packed(_) => self.update_packed(tag, |state| *state = PackedState::NEVER_SEEN),
                Algorithm::UsageLog(_) => self.remove_sharded(&self.usage_logs, tag),
                Algorithm::Leases(_) => self.remove_sharded(&self.leases, tag),
            }
        }
    }

    pub(crate) fn queue_groups(&self) -> &QueueGroups {
        &self.queue_groups
    }

    /// What the store holds, and what it had to evict.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            bytes_used: self
                .budget
                .bytes_used()
                .saturating_sub(self.usage_logs.bytes_spare() + self.leases.bytes_spare()),
            bytes_max: self.budget.bytes_max(),
            live_evictions: self.live_evictions.load(Ordering::Relaxed),
            lease_refusals: self.lease_refusals.load(Ordering::Relaxed),
        }
    }

    /// Raises the fencing token of a grant above those of dropped states. Its shard is locked.
    pub(super) fn raise_above_lost_fence(&self, grant: Grant) -> Grant {
        let least = FencingToken::new(self.lost_fence_max.load(Ordering::Relaxed).saturating_add(1));
        Grant { fencing_token: grant.fencing_token.max(least), ..grant }
    }

    /// Charges a state if the decision requires it, and returns the outcome.
    pub(super) fn charge_sharded<A>(
        &self,
        entry: ShardEntry<'_, A::State>,
        algorithm: &A,
        timed_cost: TimedCost,
        charge_decision: ChargeDecision,
        charge: impl FnOnce(&mut A::State),
    ) -> Outcome
    where
        A: LimitAlgorithm<State: ShardedState>,
    {
        if !algorithm.is_charged(timed_cost, charge_decision) {
            return entry
                .shard
                .with_state(entry.key.tag, |state| algorithm.outcome(state, timed_cost, charge_decision));
        }
        self.update_sharded(entry, timed_cost.now, |state| {
            charge(state);
            let outcome = algorithm.outcome(state, timed_cost, charge_decision);
            (outcome, timed_cost.now.saturating_add(outcome.reset_after))
        })
    }

    /// Makes room for `heap_bytes` of a state. False if memory is full of states that must not be evicted. Room for
    /// states that may be evicted is made when they change.
    pub(super) fn make_room_for<S: ShardedState>(
        &self,
        entry: &mut ShardEntry<'_, S>,
        heap_bytes: usize,
        now: Timestamp,
    ) -> bool {
        S::MAY_EVICT_LIVE
            || entry.shards.try_reserve(entry.shard, entry.key, heap_bytes, &mut self.eviction_context(now))
    }

    /// Changes a state. `change` returns a result and the instant from which the state is idle.
    pub(super) fn update_sharded<S: ShardedState, R>(
        &self,
        entry: ShardEntry<'_, S>,
        now: Timestamp,
        change: impl FnOnce(&mut S) -> (R, Timestamp),
    ) -> R {
        let ShardEntry { shards, shard, key } = entry;
        let mut eviction = self.eviction_context(now);
        let result = shards.update(shard, key, &mut eviction, change);
        if eviction.live_evictions > 0 {
            self.live_evictions.fetch_add(eviction.live_evictions, Ordering::Relaxed);
        }
        result
    }

    fn remove_sharded<S: ShardedState>(&self, shards: &Shards<S>, tag: u64) {
        let mut shard = shards.lock(shard_of(tag));
        shards.remove(&mut shard, tag, &mut self.eviction_context(Timestamp::from_nanos(0)));
    }

    fn eviction_context(&self, now: Timestamp) -> EvictionContext<'_> {
        EvictionContext {
            budget: &self.budget,
            now: self.idle_before(now),
            live_evictions: 0,
            lost_fence_max: &self.lost_fence_max,
        }
    }

    /// A key of a counter, with its owner.
    pub(super) fn owned_tag(&self, counter: &Counter, tag: u64) -> OwnedTag {
        OwnedTag { tag, owner: self.owners.owner(counter.id()) }
    }

    /// States that are idle at this instant may be dropped.
    #[inline]
    pub(super) fn idle_before(&self, now: Timestamp) -> Timestamp {
        if self.retains_idle { Timestamp::from_nanos(0) } else { now }
    }
}

#[inline]
fn lease_refusal(decision: &Decision) -> LeaseReply {
    if decision.lease_memory_full { LeaseReply::MemoryFull } else { LeaseReply::None }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
