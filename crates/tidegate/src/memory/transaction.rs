//! A plan of several charges: look at all, then charge all or none.
//!
//! All shards and pages that the plan touches are locked, each kind in ascending order: ledgers, leases, then pages;
//! so plans that cross each other wait and never deadlock; a peek, which reads pages under the locks of its
//! shards, keeps to the same order, and nobody who holds a page waits for a shard. Nothing is written before
//! everything that could stand in the way is out of the way: a page that needs room is relieved with no lock
//! held, and the plan starts again.

use smallvec::SmallVec;
use tidegate_core::algorithm::{Concurrency, LimitAlgorithm, UsageLogAlgorithm, PackedAlgorithm};
use tidegate_core::{
    Algorithm, TimedCost, Charge, Grant, Leases, UsageLog, Nanos, Outcome, PackedState, Plan, Role, ChargeDecision, Timestamp,
    OutcomeKind,
};

use super::page::{LockedPage, PageSlot};
use super::shards::{ShardedState, Shard, Shards, shard_of};
use super::single::SlotRequest;
use super::table::PagePressure;
use super::{MemoryStore, Outcomes, ShardEntry};
use crate::sync::MutexGuard;

/// Plans are short; longer ones go to the heap.
pub(super) type PlanVec<T> = SmallVec<[T; 4]>;

/// One charge and its state, as it is or by where it is.
pub(super) enum ChargeState<'p> {
    Packed { algorithm: &'p PackedAlgorithm, ask: TimedCost, tag: u64, slot: Option<PageSlot>, state: PackedState },
    Ledger { algorithm: &'p UsageLogAlgorithm, ask: TimedCost, tag: u64 },
    Leases { algorithm: &'p Concurrency, ask: TimedCost, tag: u64 },
}

/// Locked pages by number, in order.
type LockedPages<'s> = PlanVec<(u32, LockedPage<'s>)>;
/// Locked shards by number, in order.
pub(super) type ShardLocks<'s, S> = PlanVec<(usize, MutexGuard<'s, Shard<S>>)>;

/// What is not in pages, locked; ledgers first.
pub(super) struct PlanShards<'s> {
    ledgers: ShardLocks<'s, UsageLog>,
    pub(super) leases: ShardLocks<'s, Leases>,
}

/// A page is full; with every lock released, this tag needs room.
struct PageFull(u64);

impl MemoryStore {
    /// Answers as [`check`](Self::check) would and changes nothing.
    pub fn peek(&self, plan: &Plan<'_>, now: Timestamp) -> Outcomes {
        let beside = self.lock_plan_shards(plan);
        let lines = self.read_states(plan, now);
        let weighed = weigh_plan(plan, &lines, &beside);
        self.preview(&lines, &beside, &weighed)
    }

    /// What [`peek`](Self::peek) answers if the plan is denied, and less work than that if it is not.
    pub(super) fn peek_denied(&self, plan: &Plan<'_>, now: Timestamp) -> Option<Outcomes> {
        let beside = self.lock_plan_shards(plan);
        let lines = self.read_states(plan, now);
        let weighed = weigh_plan(plan, &lines, &beside);
        (weighed.decision == OutcomeKind::Denied).then(|| self.preview(&lines, &beside, &weighed))
    }

    /// The outcomes of a plan that is denied in any case. Charges limits that count denied attempts, if it is to be `counted`.
    pub(crate) fn deny(&self, plan: &Plan<'_>, now: Timestamp, counted: bool) -> Outcomes {
        let counts_denied = |charge: &Charge<'_>| charge.counter.algorithm().counts_denied();
        if counted && plan.charges().iter().any(counts_denied) {
            return self.transact_with(plan, now, None, weigh_denied_plan).0;
        }
        let beside = self.lock_plan_shards(plan);
        let lines = self.read_states(plan, now);
        let weighed = weigh_denied_plan(plan, &lines, &beside);
        self.preview(&lines, &beside, &weighed)
    }

    /// The outcomes of a plan that was admitted here with `outcomes`, denied elsewhere, and given back.
    pub(crate) fn report_denied(&self, plan: &Plan<'_>, outcomes: &[Outcome], now: Timestamp) -> Outcomes {
        let beside = self.lock_plan_shards(plan);
        let lines = self.read_states(plan, now);
        let report = |((line, charge), outcome): ((&ChargeState<'_>, &Charge<'_>), &Outcome)| {
            let ruling = ChargeDecision { outcome: outcome.kind, decision: OutcomeKind::Denied, role: charge.role };
            match line {
                ChargeState::Packed { algorithm, ask, state, .. } => algorithm.outcome(state, *ask, ruling),
                ChargeState::Ledger { algorithm, ask, tag } => locked_at(&beside.ledgers, shard_of(*tag))
                    .with_state(*tag, |ledger| algorithm.outcome(ledger, *ask, ruling)),
                ChargeState::Leases { algorithm, ask, tag } => locked_at(&beside.leases, shard_of(*tag))
                    .with_state(*tag, |leases| algorithm.outcome(leases, *ask, ruling)),
            }
        };
        lines.iter().zip(plan.charges()).zip(outcomes).map(report).collect()
    }

    fn preview(&self, lines: &[ChargeState<'_>], beside: &PlanShards<'_>, weighed: &WeighedPlan) -> Outcomes {
        let grant = self.grant_for_plan(lines, beside, weighed, None);
        let preview = |(line, ruling): (&ChargeState<'_>, ChargeDecision)| match line {
            ChargeState::Packed { algorithm, ask, state, .. } => algorithm.preview(state, *ask, ruling),
            ChargeState::Ledger { algorithm, ask, tag } => locked_at(&beside.ledgers, shard_of(*tag))
                .with_state(*tag, |ledger| algorithm.preview(ledger, *ask, ruling)),
            ChargeState::Leases { algorithm, ask, tag } => {
                locked_at(&beside.leases, shard_of(*tag)).with_state(*tag, |leases| match grant {
                    Some(grant) if ask.cost > 0 => {
                        // Only when to retry depends on more than the sketch shows.
                        let mut after = match ruling.outcome {
                            OutcomeKind::Allowed => algorithm.summary(leases, ask.now),
                            OutcomeKind::Denied => leases.clone(),
                        };
                        after.acquire(grant, ask.cost, ask.now);
                        algorithm.outcome(&after, *ask, ruling)
                    }
                    _ => algorithm.outcome(leases, *ask, ruling),
                })
            }
        };
        lines.iter().zip(weighed.per_charge()).map(preview).collect()
    }

    /// Decides a plan and charges it, atomically. The grant is that of all its leases, which last no longer than
    /// `ttl`.
    pub(super) fn transact(
        &self,
        plan: &Plan<'_>,
        now: Timestamp,
        ttl: Option<Nanos>,
    ) -> (Outcomes, Option<Grant>) {
        self.transact_with(plan, now, ttl, weigh_plan)
    }

    #[inline]
    fn transact_with(
        &self,
        plan: &Plan<'_>,
        now: Timestamp,
        ttl: Option<Nanos>,
        weigh: impl Fn(&Plan<'_>, &[ChargeState<'_>], &PlanShards<'_>) -> WeighedPlan,
    ) -> (Outcomes, Option<Grant>) {
        let mut pressure = PagePressure::Normal;
        loop {
            let mut beside = self.lock_plan_shards(plan);
            let Some(mut pages) = self.lock_pages(plan) else { continue };
            let mut lines = charge_states(self, plan, now, |tag| {
                let page = locked_at(&pages, self.table.page_of(tag));
                let slot = page.find(tag);
                (slot, slot.map_or(PackedState::NEVER_SEEN, |slot| page.state(slot)))
            });
            let weighed = weigh(plan, &lines, &beside);
            if let Err(PageFull(tag)) = self.reserve_slots(&mut lines, weighed.decision, &pages, pressure) {
                drop((pages, beside));
                pressure = self.table.make_room(tag, self.idle_before(now), &self.budget);
                continue;
            }
            let grant = self.grant_for_plan(&lines, &beside, &weighed, ttl);
            let settle = |(line, ruling): (&ChargeState<'_>, ChargeDecision)| match line {
                ChargeState::Packed { algorithm, ask, tag, slot, state } => {
                    let mut state = *state;
                    algorithm.charge_if_due(&mut state, *ask, ruling);
                    if let Some(slot) = slot {
                        self.put_packed(locked_at_mut(&mut pages, self.table.page_of(*tag)), *slot, *tag, state, now);
                    }
                    algorithm.outcome(&state, *ask, ruling)
                }
                ChargeState::Ledger { algorithm, ask, tag } => {
                    let shard = locked_at_mut(&mut beside.ledgers, shard_of(*tag));
                    let place = ShardEntry { shards: &self.ledgers, shard, tag: *tag };
                    self.charge_sharded(place, *algorithm, *ask, ruling, |ledger| {
                        algorithm.charge_decided(ledger, *ask, ruling);
                    })
                }
                ChargeState::Leases { algorithm, ask, tag } => {
                    let shard = locked_at_mut(&mut beside.leases, shard_of(*tag));
                    let place = ShardEntry { shards: &self.leases, shard, tag: *tag };
                    self.charge_sharded(place, *algorithm, *ask, ruling, |leases| {
                        if let Some(grant) = grant {
                            leases.acquire(grant, ask.cost, now);
                        }
                    })
                }
            };
            return (lines.iter().zip(weighed.per_charge()).map(settle).collect(), grant);
        }
    }

    /// The lines of a plan that is only looked at.
    fn read_states<'p>(&self, plan: &Plan<'p>, now: Timestamp) -> PlanVec<ChargeState<'p>> {
        charge_states(self, plan, now, |tag| {
            let seen = self.read_packed(tag);
            (seen.slot, seen.state)
        })
    }

    /// Locks the pages that the plan touches; none if one was split meanwhile.
    fn lock_pages(&self, plan: &Plan<'_>) -> Option<LockedPages<'_>> {
        let tags: PlanVec<u64> =
            plan.charges().iter().filter(is_packed).map(|charge| self.seed.tag(charge)).collect();
        let wanted: PlanVec<u32> = tags.iter().map(|tag| self.table.page_of(*tag)).collect();
        let pages = sorted_unique(wanted.clone()).map(|page| (page, self.table.page(page).lock())).collect();
        let unsplit = tags.iter().zip(wanted).all(|(tag, page)| self.table.page_of(*tag) == page);
        unsplit.then_some(pages)
    }

    /// Locks the shards that the plan touches.
    fn lock_plan_shards(&self, plan: &Plan<'_>) -> PlanShards<'_> {
        let ledgers = lock_shards(&self.ledgers, self.shards_of(plan, is_ledger));
        PlanShards { ledgers, leases: lock_shards(&self.leases, self.shards_of(plan, is_lease)) }
    }

    fn shards_of(&self, plan: &Plan<'_>, wanted: impl Fn(&&Charge<'_>) -> bool) -> PlanVec<usize> {
        plan.charges().iter().filter(wanted).map(|charge| shard_of(self.seed.tag(charge))).collect()
    }

    /// Gives every line that is going to be written a slot. Writes nothing.
    fn reserve_slots(
        &self,
        lines: &mut [ChargeState<'_>],
        fate: OutcomeKind,
        pages: &LockedPages<'_>,
        pressure: PagePressure,
    ) -> Result<(), PageFull> {
        let mut taken: PlanVec<(u32, PageSlot)> = SmallVec::new();
        for line in lines.iter() {
            if let ChargeState::Packed { tag, slot: Some(slot), .. } = line {
                taken.push((self.table.page_of(*tag), *slot));
            }
        }
        for line in lines {
            if let ChargeState::Packed { algorithm, ask, tag, slot: slot @ None, .. } = line
                && algorithm.is_charged(*ask, fate)
            {
                let page = self.table.page_of(*tag);
                let here: PlanVec<PageSlot> =
                    taken.iter().filter(|(other, _)| *other == page).map(|(_, slot)| *slot).collect();
                let wanted = SlotRequest { tag: *tag, now: ask.now, reserved: &here, pressure };
                let new = self.claim_slot(locked_at(pages, page), &wanted).ok_or(PageFull(*tag))?;
                taken.push((page, new));
                *slot = Some(new);
            }
        }
        Ok(())
    }
}

/// The lines of a plan; `find` knows where a packed state is.
fn charge_states<'p>(
    store: &MemoryStore,
    plan: &Plan<'p>,
    now: Timestamp,
    find: impl Fn(u64) -> (Option<PageSlot>, PackedState),
) -> PlanVec<ChargeState<'p>> {
    let line = |charge: &Charge<'p>| {
        let (tag, ask) = (store.seed.tag(charge), TimedCost { now, cost: charge.cost });
        match charge.counter.algorithm() {
            Algorithm::Packed(algorithm) => {
                let (slot, state) = find(tag);
                ChargeState::Packed { algorithm, ask, tag, slot, state }
            }
            Algorithm::UsageLog(algorithm) => ChargeState::Ledger { algorithm, ask, tag },
            Algorithm::Leases(algorithm) => ChargeState::Leases { algorithm, ask, tag },
        }
    };
    plan.charges().iter().map(line).collect()
}

/// The verdict on each line and its role, and what becomes of all of them.
pub(super) struct WeighedPlan {
    verdicts: PlanVec<(OutcomeKind, Role)>,
    decision: OutcomeKind,
}

impl WeighedPlan {
    /// The ruling on each line.
    pub(super) fn per_charge(&self) -> impl Iterator<Item = ChargeDecision> {
        self.verdicts.iter().map(|(verdict, role)| ChargeDecision { outcome: *verdict, decision: self.decision, role: *role })
    }
}

fn weigh_plan(plan: &Plan<'_>, lines: &[ChargeState<'_>], beside: &PlanShards<'_>) -> WeighedPlan {
    let weigh = |line: &ChargeState<'_>| match line {
        ChargeState::Packed { algorithm, ask, state, .. } => algorithm.outcome_kind(state, *ask),
        ChargeState::Ledger { algorithm, ask, tag } => {
            locked_at(&beside.ledgers, shard_of(*tag)).with_state(*tag, |ledger| algorithm.outcome_kind(ledger, *ask))
        }
        ChargeState::Leases { algorithm, ask, tag } => {
            locked_at(&beside.leases, shard_of(*tag)).with_state(*tag, |leases| algorithm.outcome_kind(leases, *ask))
        }
    };
    let roles = plan.charges().iter().map(|charge| charge.role);
    let each: PlanVec<(OutcomeKind, Role)> = lines.iter().map(weigh).zip(roles).collect();
    let enforced = each.iter().filter(|(_, role)| *role == Role::Enforced);
    let fate = enforced.map(|(verdict, _)| *verdict).max().unwrap_or(OutcomeKind::Allowed);
    WeighedPlan { verdicts: each, decision: fate }
}

/// The same for a plan that is denied in any case.
fn weigh_denied_plan(plan: &Plan<'_>, lines: &[ChargeState<'_>], beside: &PlanShards<'_>) -> WeighedPlan {
    WeighedPlan { decision: OutcomeKind::Denied, ..weigh_plan(plan, lines, beside) }
}

/// Locks these shards, in order.
pub(super) fn lock_shards<S: ShardedState>(shards: &Shards<S>, numbers: PlanVec<usize>) -> ShardLocks<'_, S> {
    sorted_unique(numbers).map(|number| (number, shards.lock(number))).collect()
}

fn is_ledger(charge: &&Charge<'_>) -> bool {
    matches!(charge.counter.algorithm(), Algorithm::UsageLog(_))
}

pub(super) fn is_lease(charge: &&Charge<'_>) -> bool {
    matches!(charge.counter.algorithm(), Algorithm::Leases(_))
}

fn is_packed(charge: &&Charge<'_>) -> bool {
    matches!(charge.counter.algorithm(), Algorithm::Packed(_))
}

fn sorted_unique<N: Ord>(mut numbers: PlanVec<N>) -> impl Iterator<Item = N> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter()
}

pub(super) fn locked_at<N: Ord + Copy, L>(locks: &[(N, L)], number: N) -> &L {
    &locks[locks.partition_point(|(held, _)| *held < number)].1
}

pub(super) fn locked_at_mut<N: Ord + Copy, L>(locks: &mut [(N, L)], number: N) -> &mut L {
    let at = locks.partition_point(|(held, _)| *held < number);
    &mut locks[at].1
}
