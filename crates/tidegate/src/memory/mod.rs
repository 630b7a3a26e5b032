//! The embedded store: every counter of this process, in bounded memory.
//!
//! States of 16 bytes live in a [`table`] of 4 KiB [`page`]s; ledgers and leases live beside it in [`shards`]. Keys
//! are known by a [`seed`]ed 64-bit hash alone. A plan of one charge takes the short way, [`single`]; a longer one is
//! a [`transaction`]. [`leases`] are acquired, renewed and given back.
//!
//! The bytes are bounded by `memory_max`. What no longer matters is overwritten first. When only live state is
//! left, a new key takes the place of the one in a small sample that is nearest its reset, and
//! [`MemoryStats::live_evictions`] counts it.
//!
//! A [`snapshot`] brings it over a restart.

mod budget;
mod live_counters;
mod forecast;
#[cfg(all(test, not(loom)))]
mod forecast_tests;
mod grants;
mod leases;
#[cfg(all(test, loom))]
mod loom_tests;
mod outcomes;
mod page;
mod seed;
mod shards;
mod single;
mod snapshot;
mod table;
mod transaction;
#[cfg(all(test, not(loom)))]
mod walk_tests;

use std::fmt;

use tidegate_core::algorithm::{Concurrency, LimitAlgorithm, UsageLogAlgorithm, PackedAlgorithm};
use tidegate_core::{
    Algorithm, TimedCost, Charge, ChargedAt, Decision, FencingToken, Grant, Leases, UsageLog, Nanos, Outcome, PackedState, Plan,
    Role, ChargeDecision, Timestamp,
};

use crate::sync::{AtomicU64, Ordering};
use crate::queue::QueueGroups;
use budget::Budget;
pub(crate) use forecast::{ForecastAdmission, StateForecast, ForecastRequest};
pub use leases::{Lease, Release, Renewal};
pub use outcomes::{Outcomes, OutcomesIntoIter};
use seed::Seed;
use shards::{ShardedState, Shard, Shards, MemoryShare, shard_of};
use table::Table;

pub use snapshot::{
    RestoreStatus, Restored, SNAPSHOT_EVERY_MIN, SnapshotAttempts, SnapshotError, SnapshotReport, SnapshotWriter,
};

/// The default bound of a store.
pub const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// The least bound of a store.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// What an unbounded store tries to reserve; it is content with less.
const UNBOUNDED_BYTES: u64 = 1 << 40;

/// Counters in this process's memory.
pub struct MemoryStore {
    table: Table,
    ledgers: Shards<UsageLog>,
    leases: Shards<Leases>,
    budget: Budget,
    seed: Seed,
    retains_idle: bool,
    live_evictions: AtomicU64,
    /// Who waits for what is counted here.
    queue_groups: QueueGroups,
    /// One snapshot at a time.
    snapshot_lock: std::sync::Mutex<()>,
    /// The highest number of a lease whose key's state is not there any more: no key hands out a lower one.
    lost_fence_max: AtomicU64,
}

/// Where a state of variable size is, or is to be: its shard is locked.
struct ShardEntry<'a, S> {
    shards: &'a Shards<S>,
    shard: &'a mut Shard<S>,
    tag: u64,
}

/// What a store holds and what it had to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes in use for counters.
    pub bytes_used: u64,
    /// Bytes that may be.
    pub bytes_max: u64,
    /// Counters given up while they still mattered, because memory was full.
    pub live_evictions: u64,
}

impl MemoryStore {
    /// A store of at most `memory_max` bytes, at least [`MEMORY_BYTES_MIN`].
    pub fn bounded(memory_max: u64) -> Self {
        Self::new(memory_max.max(MEMORY_BYTES_MIN), false)
    }

    /// A store that forgets nothing, idle or not, until the machine's memory is used up. For traces and
    /// simulations, where time may jump back to when an idle state was not; a server would leak.
    pub fn unbounded() -> Self {
        Self::new(UNBOUNDED_BYTES, true)
    }

    /// A store of a few pages for the model checker, which looks at every word.
    #[cfg(loom)]
    pub(crate) fn tiny() -> Self {
        const PAGES: u64 = 8;
        Self::new(PAGES * page::PAGE_BYTES as u64, false)
    }

    fn new(memory_max: u64, keeps_idle: bool) -> Self {
        // Any kind of state may have all that is not set aside for the other two.
        let reserved = Budget::reserved_bytes(memory_max);
        let share = MemoryShare { bytes_reserved: reserved, bytes_max: memory_max - 2 * reserved };
        let budget = Budget::new(memory_max);
        let (ledgers, leases) = (Shards::new(share, &budget), Shards::new(share, &budget));
        Self {
            table: Table::new(usize::try_from(share.bytes_max).unwrap_or(usize::MAX), &budget),
            ledgers,
            leases,
            budget,
            seed: Seed::random(),
            retains_idle: keeps_idle,
            live_evictions: AtomicU64::new(0),
            queue_groups: QueueGroups::default(),
            snapshot_lock: std::sync::Mutex::new(()),
            lost_fence_max: AtomicU64::new(0),
        }
    }

    /// Decides a plan: charges all of it or none, by the word of the charges that are enforced.
    ///
    /// A denial that counts nothing only reads. It holds from the moment at which the limit that denied it was
    /// read; what the others still had is from the same moment, give or take the time of the call.
    pub fn check(&self, plan: &Plan<'_>, now: Timestamp) -> Outcomes {
        match plan.charges() {
            [charge] => std::iter::once(self.check_one(charge, now).outcome()).collect(),
            charges => {
                let counts_denied = charges.iter().any(|charge| charge.counter.algorithm().counts_denied());
                let denied = if counts_denied { None } else { self.peek_denied(plan, now) };
                denied.unwrap_or_else(|| self.transact(plan, now, None).0)
            }
        }
    }

    /// Decides a plan of one charge. A request whose only charge [looks on](Role::Observed) passes in any case; the
    /// decision is then what the limit would have said.
    #[inline]
    pub fn check_one(&self, charge: &Charge<'_>, now: Timestamp) -> Decision {
        // Most callers write the role down, and for them there is no question.
        if charge.role == Role::Observed {
            return self.check_observed(charge, now);
        }
        let tag = self.seed.tag(charge);
        let ask = TimedCost { now, cost: charge.cost };
        match charge.counter.algorithm() {
            Algorithm::Packed(algorithm) => match algorithm {
                // A function for each: one for all of them would be slower for every one.
                PackedAlgorithm::Gcra(one) => self.decide_packed(tag, one, ask),
                PackedAlgorithm::TokenBucket(one) => self.decide_packed(tag, one, ask),
                PackedAlgorithm::LeakyBucket(one) => self.decide_packed(tag, one, ask),
                PackedAlgorithm::FixedWindow(one) => self.decide_packed(tag, one, ask),
                PackedAlgorithm::SlidingWindow(one) => self.decide_packed(tag, one, ask),
            },
            Algorithm::UsageLog(one) => self.check_ledger(tag, one, ask),
            Algorithm::Leases(one) => self.check_leases(tag, one, ask),
        }
    }

    // Apart from the short way, which would be too long to be part of its callers with them.

    #[cold]
    #[inline(never)]
    fn check_observed(&self, charge: &Charge<'_>, now: Timestamp) -> Decision {
        let mut plan = Plan::new();
        // An empty plan has room for one.
        let _ = plan.add(*charge);
        Decision::merge(&self.transact(&plan, now, None).0)
    }

    #[inline(never)]
    fn check_ledger(&self, tag: u64, algorithm: &UsageLogAlgorithm, ask: TimedCost) -> Decision {
        let charge = |ledger: &mut UsageLog| algorithm.charge(ledger, ask);
        Decision::of_one(self.decide_sharded(&self.ledgers, tag, algorithm, ask, charge))
    }

    #[inline(never)]
    fn check_leases(&self, tag: u64, algorithm: &Concurrency, ask: TimedCost) -> Decision {
        let charge = |leases: &mut Leases| {
            let grant = self.raise_above_lost_fence(algorithm.next_grant(leases, ask.now));
            leases.acquire(grant, ask.cost, ask.now);
        };
        Decision::of_one(self.decide_sharded(&self.leases, tag, algorithm, ask, charge))
    }

    /// Gives back what a plan charged: the newest units of each key, no more than it used. Leases are
    /// [released](Self::release) instead. Wakes nobody: who waits, waits for a limiter.
    pub fn refund(&self, plan: &Plan<'_>, now: Timestamp) {
        plan.charges().iter().for_each(|charge| self.refund_newest(charge, now));
    }

    /// Gives back the newest units of a charge.
    fn refund_newest(&self, charge: &Charge<'_>, now: Timestamp) {
        if charge.cost == 0 {
            return;
        }
        let (tag, ask) = (self.seed.tag(charge), TimedCost { now, cost: charge.cost });
        match charge.counter.algorithm() {
            Algorithm::Packed(algorithm) => {
                self.update_packed(tag, |state| algorithm.refund(state, ask));
            }
            Algorithm::UsageLog(algorithm) => {
                let shard = &mut self.ledgers.lock(shard_of(tag));
                if shard.contains(tag) {
                    self.update_sharded(ShardEntry { shards: &self.ledgers, shard, tag }, now, |ledger| {
                        algorithm.refund(ledger, ask);
                        ((), now.saturating_add(algorithm.reset_after(ledger, now)))
                    });
                }
            }
            Algorithm::Leases(_) => {}
        }
    }

    /// Gives back what a request was charged at an instant that was admitted with a delay and has not left: to a leaky bucket all of
    /// it, and to others as of the charge. A bucket that nobody used since is as it was before, to a fraction of a nanosecond.
    pub(crate) fn refund_delayed(
        &self,
        plan: &Plan<'_>,
        outcomes: &[Outcome],
        at: Timestamp,
        now: Timestamp,
    ) {
        for (charge, outcome) in plan.charges().iter().zip(outcomes) {
            let algorithm = charge.counter.algorithm();
            let is_all_given_back = match algorithm {
                Algorithm::Packed(PackedAlgorithm::LeakyBucket(_)) => true,
                Algorithm::Packed(one @ (PackedAlgorithm::Gcra(_) | PackedAlgorithm::TokenBucket(_))) => {
                    let free_ns = |at: Timestamp, after: Nanos| u128::from(at.as_nanos()) + after.get();
                    let state = self.read_packed(self.seed.tag(charge)).state;
                    free_ns(at, outcome.reset_after) == free_ns(now, one.reset_after(&state, now))
                }
                _ => false,
            };
            if is_all_given_back {
                self.refund_newest(charge, now);
            } else {
                let charged_at = ChargedAt::from_outcomes(&Plan::of_one(*charge), &[*outcome], at);
                self.refund_charged_from(charge, charged_at.counted_from(algorithm), now);
            }
        }
    }

    /// As [`refund`](Self::refund) of a plan that is known to have been charged at an instant: nothing is taken from what was
    /// charged later.
    pub(crate) fn refund_charged_at(&self, plan: &Plan<'_>, charged_at: ChargedAt, now: Timestamp) {
        for charge in plan.charges() {
            self.refund_charged_from(charge, charged_at.counted_from(charge.counter.algorithm()), now);
        }
    }

    /// As [`refund`](Self::refund) of a plan of one charge, whose units are known to count from an instant on.
    pub(crate) fn refund_charged_from(&self, charge: &Charge<'_>, from: Timestamp, now: Timestamp) {
        let (tag, ask) = (self.seed.tag(charge), TimedCost { now, cost: charge.cost });
        match charge.counter.algorithm() {
            _ if charge.cost == 0 => {}
            Algorithm::Packed(algorithm) => {
                self.update_packed(tag, |state| algorithm.refund_charged(state, ask, from));
            }
            Algorithm::UsageLog(algorithm) => {
                let shard = &mut self.ledgers.lock(shard_of(tag));
                if shard.contains(tag) {
                    self.update_sharded(ShardEntry { shards: &self.ledgers, shard, tag }, now, |ledger| {
                        algorithm.refund_charged(ledger, ask, from);
                        ((), now.saturating_add(algorithm.reset_after(ledger, now)))
                    });
                }
            }
            Algorithm::Leases(_) => {}
        }
    }

    /// Forgets what the plan's keys used. Costs do not matter.
    pub fn reset(&self, plan: &Plan<'_>) {
        for charge in plan.charges() {
            let tag = self.seed.tag(charge);
            match charge.counter.algorithm() {
                Algorithm::Packed(_) => self.update_packed(tag, |state| *state = PackedState::NEVER_SEEN),
                Algorithm::UsageLog(_) => self.remove_sharded(&self.ledgers, tag),
                Algorithm::Leases(_) => self.remove_sharded(&self.leases, tag),
            }
        }
    }

    pub(crate) fn queue_groups(&self) -> &QueueGroups {
        &self.queue_groups
    }

    /// What the store holds and had to give up.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            bytes_used: self.budget.bytes_used().saturating_sub(self.ledgers.bytes_spare() + self.leases.bytes_spare()),
            bytes_max: self.budget.bytes_max(),
            live_evictions: self.live_evictions.load(Ordering::Relaxed),
        }
    }

    fn decide_sharded<A>(
        &self,
        shards: &Shards<A::State>,
        tag: u64,
        algorithm: &A,
        ask: TimedCost,
        charge: impl FnOnce(&mut A::State),
    ) -> Outcome
    where
        A: LimitAlgorithm<State: ShardedState>,
    {
        let shard = &mut shards.lock(shard_of(tag));
        let ruling = ChargeDecision::of_one(shard.with_state(tag, |state| algorithm.outcome_kind(state, ask)));
        self.charge_sharded(ShardEntry { shards, shard, tag }, algorithm, ask, ruling, charge)
    }

    /// The grant with a number that no state had handed out which is not there any more. Its shard is locked.
    fn raise_above_lost_fence(&self, grant: Grant) -> Grant {
        let least = FencingToken::new(self.lost_fence_max.load(Ordering::Relaxed).saturating_add(1));
        Grant { fencing_token: grant.fencing_token.max(least), ..grant }
    }

    /// Charges a state as the ruling demands, and reports.
    fn charge_sharded<A>(
        &self,
        place: ShardEntry<'_, A::State>,
        algorithm: &A,
        ask: TimedCost,
        ruling: ChargeDecision,
        charge: impl FnOnce(&mut A::State),
    ) -> Outcome
    where
        A: LimitAlgorithm<State: ShardedState>,
    {
        if !algorithm.is_charged(ask, ruling.decision) {
            return place.shard.with_state(place.tag, |state| algorithm.outcome(state, ask, ruling));
        }
        self.update_sharded(place, ask.now, |state| {
            charge(state);
            let outcome = algorithm.outcome(state, ask, ruling);
            (outcome, ask.now.saturating_add(outcome.reset_after))
        })
    }

    /// Changes a state; `change` says what it has to say and when the state is to be idle.
    fn update_sharded<S: ShardedState, R>(
        &self,
        place: ShardEntry<'_, S>,
        now: Timestamp,
        change: impl FnOnce(&mut S) -> (R, Timestamp),
    ) -> R {
        let ShardEntry { shards, shard, tag } = place;
        let mut room = self.eviction_context(now);
        let answer = shards.update(shard, tag, &mut room, change);
        if room.live_evictions > 0 {
            self.live_evictions.fetch_add(room.live_evictions, Ordering::Relaxed);
        }
        answer
    }

    fn remove_sharded<S: ShardedState>(&self, shards: &Shards<S>, tag: u64) {
        let mut shard = shards.lock(shard_of(tag));
        shards.remove(&mut shard, tag, &mut self.eviction_context(Timestamp::from_nanos(0)));
    }

    fn eviction_context(&self, now: Timestamp) -> shards::EvictionContext<'_> {
        shards::EvictionContext {
            budget: &self.budget,
            now: self.idle_before(now),
            live_evictions: 0,
            lost_fence_max: &self.lost_fence_max,
        }
    }

    /// States that ended before this instant may be dropped.
    #[inline]
    fn idle_before(&self, now: Timestamp) -> Timestamp {
        if self.retains_idle { Timestamp::from_nanos(0) } else { now }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
