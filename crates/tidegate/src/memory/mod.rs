//! The embedded store: every counter of this process, in bounded memory.
//!
//! States of 16 bytes live in a [`table`] of 4 KiB [`page`]s; [`ledgers`] live beside it. Keys are known by a
//! [`seed`]ed 64-bit hash alone. A plan of one charge takes the short way, [`single`]; a longer one is a
//! [`transaction`].
//!
//! The bytes are bounded by `memory_max`. What no longer matters is overwritten first. When only live state is
//! left, a new key takes the place of the one in a small sample that is nearest its reset, and
//! [`MemoryStats::live_evictions`] counts it.
//!
//! A [`snapshot`] brings it over a restart.

mod budget;
mod ledgers;
#[cfg(all(test, loom))]
mod loom_tests;
mod page;
mod seed;
mod single;
mod snapshot;
mod sync;
mod table;
mod transaction;
#[cfg(all(test, not(loom)))]
mod walk_tests;

use smallvec::SmallVec;
use tidegate_core::algorithm::{Counting, LedgerAlgorithm, PackedAlgorithm};
use tidegate_core::{
    Algorithm, Ask, Charge, Decision, Ledger, Outcome, Packed, Plan, Ruling, Timestamp, Verdict,
};

use budget::Budget;
use ledgers::{Ledgers, Shard};
use seed::Seed;
use sync::{AtomicU64, Ordering};
use table::Table;

pub use snapshot::{Found, Restored, SNAPSHOT_EVERY_MIN, SnapshotError, SnapshotReport, SnapshotWriter};

/// One outcome per charge of a plan, in its order.
pub type Outcomes = SmallVec<[Outcome; 4]>;

/// The default bound of a store.
pub const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// The least bound of a store.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// What an unbounded store tries to reserve; it is content with less.
const UNBOUNDED_BYTES: u64 = 1 << 40;

/// Counters in this process's memory.
pub struct MemoryStore {
    table: Table,
    ledgers: Ledgers,
    budget: Budget,
    seed: Seed,
    keeps_idle: bool,
    live_evictions: AtomicU64,
    /// One snapshot at a time.
    snapshotting: std::sync::Mutex<()>,
}

/// What a store holds and what it had to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes in use for counters.
    pub bytes_used: u64,
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

    fn new(memory_max: u64, keeps_idle: bool) -> Self {
        // Neither kind of state may crowd the other out: each can always have an eighth.
        let share_max = memory_max - memory_max / 8;
        let budget = Budget::new(memory_max);
        Self {
            table: Table::new(usize::try_from(share_max).unwrap_or(usize::MAX), &budget),
            ledgers: Ledgers::new(share_max),
            budget,
            seed: Seed::random(),
            keeps_idle,
            live_evictions: AtomicU64::new(0),
            snapshotting: std::sync::Mutex::new(()),
        }
    }

    /// Decides a plan: charges all of it or none.
    ///
    /// A denial that counts nothing only reads. It holds from the moment at which the limit that denied it was
    /// read; what the others still had is from the same moment, give or take the time of the call.
    pub fn check(&self, plan: &Plan<'_>, now: Timestamp) -> Outcomes {
        match plan.charges() {
            [charge] => std::iter::once(*self.check_one(charge, now)).collect(),
            charges => {
                if !charges.iter().any(counts_denied) {
                    let outcomes = self.peek(plan, now);
                    if outcomes.iter().any(|outcome| outcome.verdict == Verdict::Denied) {
                        return outcomes;
                    }
                }
                self.transact(plan, now)
            }
        }
    }

    /// Decides a plan of one charge.
    #[inline]
    pub fn check_one(&self, charge: &Charge<'_>, now: Timestamp) -> Decision {
        let tag = self.seed.tag(charge);
        let ask = Ask { now, cost: charge.cost };
        match charge.counter.algorithm() {
            Algorithm::Packed(algorithm) => match algorithm {
                // A function for each: one for all of them would be slower for every one.
                PackedAlgorithm::Gcra(one) => self.decide_packed(tag, one, ask),
                PackedAlgorithm::TokenBucket(one) => self.decide_packed(tag, one, ask),
                PackedAlgorithm::LeakyBucket(one) => self.decide_packed(tag, one, ask),
                PackedAlgorithm::FixedWindow(one) => self.decide_packed(tag, one, ask),
                PackedAlgorithm::SlidingWindow(one) => self.decide_packed(tag, one, ask),
            },
            Algorithm::Ledger(algorithm) => Decision::of_one(self.decide_ledger(tag, algorithm, ask)),
        }
    }

    /// Gives back what a plan charged: the newest units of each key, no more than it used.
    pub fn refund(&self, plan: &Plan<'_>, now: Timestamp) {
        for charge in plan.charges().iter().filter(|charge| charge.cost > 0) {
            let tag = self.seed.tag(charge);
            let ask = Ask { now, cost: charge.cost };
            match charge.counter.algorithm() {
                Algorithm::Packed(algorithm) => {
                    self.update_packed(tag, |state| algorithm.refund(state, ask));
                }
                Algorithm::Ledger(algorithm) => {
                    let mut shard = self.ledgers.lock(Ledgers::shard_of(tag));
                    if shard.holds(tag) {
                        self.update_ledger(&mut shard, tag, now, |ledger| {
                            algorithm.refund(ledger, ask);
                            ((), now.saturating_add(algorithm.reset_after(ledger, now)))
                        });
                    }
                }
            }
        }
    }

    /// Forgets what the plan's keys used. Costs do not matter.
    pub fn reset(&self, plan: &Plan<'_>) {
        for charge in plan.charges() {
            let tag = self.seed.tag(charge);
            match charge.counter.algorithm() {
                Algorithm::Packed(_) => self.update_packed(tag, |state| *state = Packed::NEVER_SEEN),
                Algorithm::Ledger(_) => {
                    let mut shard = self.ledgers.lock(Ledgers::shard_of(tag));
                    self.ledgers.forget(&mut shard, tag, &mut self.room(Timestamp::from_nanos(0)));
                }
            }
        }
    }

    /// What the store holds and had to give up.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            bytes_used: self.budget.used(),
            live_evictions: self.live_evictions.load(Ordering::Relaxed),
        }
    }

    fn decide_ledger(&self, tag: u64, algorithm: &LedgerAlgorithm, ask: Ask) -> Outcome {
        let mut shard = self.ledgers.lock(Ledgers::shard_of(tag));
        let verdict = shard.with(tag, |ledger| algorithm.weigh(ledger, ask));
        self.settle_ledger(&mut shard, tag, algorithm, ask, Ruling::alone(verdict))
    }

    /// Charges a ledger as the ruling demands, and reports.
    fn settle_ledger(
        &self,
        shard: &mut Shard,
        tag: u64,
        algorithm: &LedgerAlgorithm,
        ask: Ask,
        ruling: Ruling,
    ) -> Outcome {
        if !algorithm.is_charged(ask, ruling.fate) {
            return shard.with(tag, |ledger| algorithm.report(ledger, ask, ruling));
        }
        self.update_ledger(shard, tag, ask.now, |ledger| {
            algorithm.charge(ledger, ask);
            let outcome = algorithm.report(ledger, ask, ruling);
            (outcome, ask.now.saturating_add(outcome.reset_after))
        })
    }

    fn update_ledger<R>(
        &self,
        shard: &mut Shard,
        tag: u64,
        now: Timestamp,
        change: impl FnOnce(&mut Ledger) -> (R, Timestamp),
    ) -> R {
        let mut room = self.room(now);
        let answer = self.ledgers.update(shard, tag, &mut room, change);
        if room.live_evictions > 0 {
            self.live_evictions.fetch_add(room.live_evictions, Ordering::Relaxed);
        }
        answer
    }

    fn room(&self, now: Timestamp) -> ledgers::Room<'_> {
        ledgers::Room { budget: &self.budget, now: self.idle_before(now), live_evictions: 0 }
    }

    /// States that ended before this instant may be dropped.
    #[inline]
    fn idle_before(&self, now: Timestamp) -> Timestamp {
        if self.keeps_idle { Timestamp::from_nanos(0) } else { now }
    }
}

#[inline]
fn counts_denied(charge: &Charge<'_>) -> bool {
    match charge.counter.algorithm() {
        Algorithm::Packed(algorithm) => algorithm.counts_denied(),
        Algorithm::Ledger(algorithm) => algorithm.counts_denied(),
    }
}
