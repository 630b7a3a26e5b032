//! A plan of several charges: read all states, then charge all or none.
//!
//! All shards and pages of the plan are locked, each kind in ascending order: usage logs, leases, then pages. So plans
//! that overlap wait for each other and never deadlock. A peek reads pages while it holds the locks of its shards,
//! which is the same order, and no thread that holds a page waits for a shard. Nothing is written before it is certain
//! that all can be: if a page needs room, all locks are released, the page makes room, and the plan starts again.

use smallvec::SmallVec;
use tidegate_core::algorithm::{Concurrency, LimitAlgorithm, PackedAlgorithm, UsageLogAlgorithm};
use tidegate_core::{
    Algorithm, Charge, ChargeDecision, Counter, Grant, Leases, Nanos, Outcome, OutcomeKind, PackedState,
    Plan, Role, TimedCost, Timestamp, UsageLog,
};

use super::leases::{LeaseMemoryFull, memory_full_outcome};
use super::page::{LockedPage, PageSlot};
use super::shards::{Shard, ShardEntry, ShardedState, Shards, shard_of};
use super::{MemoryStore, Outcomes};
use crate::sync::{MutexGuard, Ordering};

/// Plans are short. Longer ones go to the heap.
pub(super) type PlanVec<T> = SmallVec<[T; 4]>;

/// One charge with its packed state, or with the tag of a state in a shard.
pub(super) enum ChargeState<'p> {
    Packed {
        counter: &'p Counter,
        algorithm: &'p PackedAlgorithm,
        timed_cost: TimedCost,
        tag: u64,
        slot: Option<PageSlot>,
        state: PackedState,
    },
    UsageLog {
        counter: &'p Counter,
        algorithm: &'p UsageLogAlgorithm,
        timed_cost: TimedCost,
        tag: u64,
    },
    Leases {
        counter: &'p Counter,
        algorithm: &'p Concurrency,
        timed_cost: TimedCost,
        tag: u64,
        /// Whether there is memory for the lease.
        has_room: bool,
    },
}

/// Locked pages by number, in ascending order.
type LockedPages<'s> = PlanVec<(u32, LockedPage<'s>)>;
/// Locked shards by number, in ascending order.
pub(super) type ShardLocks<'s, S> = PlanVec<(usize, MutexGuard<'s, Shard<S>>)>;

/// The locked shards of a plan, usage logs first.
pub(super) struct PlanShards<'s> {
    usage_logs: ShardLocks<'s, UsageLog>,
    pub(super) leases: ShardLocks<'s, Leases>,
}

/// A page is full and has to make room for this tag, once every lock is released.
struct PageFull(u64);

impl MemoryStore {
    /// Returns what [`check`](Self::check) would return, and changes nothing.
    pub fn peek(&self, plan: &Plan<'_>, now: Timestamp) -> Outcomes {
        let plan_shards = self.lock_plan_shards(plan);
        let charge_states = self.read_states(plan, now);
        let weighed = weigh_plan(plan, &charge_states, &plan_shards);
        self.preview(&charge_states, &plan_shards, &weighed)
    }

    /// As [`peek`](Self::peek) if the plan is denied. None, with less work, if it is not.
    pub(super) fn peek_denied(&self, plan: &Plan<'_>, now: Timestamp) -> Option<Outcomes> {
        let plan_shards = self.lock_plan_shards(plan);
        let charge_states = self.read_states(plan, now);
        let weighed = weigh_plan(plan, &charge_states, &plan_shards);
        (weighed.decision == OutcomeKind::Denied)
            .then(|| self.preview(&charge_states, &plan_shards, &weighed))
    }

    /// The outcomes of a plan that is denied in any case. If `counted`, charges limits that count denied attempts.
    pub(crate) fn deny(&self, plan: &Plan<'_>, now: Timestamp, counted: bool) -> Outcomes {
        let counts_denied = |charge: &Charge<'_>| charge.counter.algorithm().counts_denied();
        if counted && plan.charges().iter().any(counts_denied) {
            return self.transact_with(plan, now, None, weigh_denied_plan).0;
        }
        let plan_shards = self.lock_plan_shards(plan);
        let charge_states = self.read_states(plan, now);
        let weighed = weigh_denied_plan(plan, &charge_states, &plan_shards);
        self.preview(&charge_states, &plan_shards, &weighed)
    }

    /// The outcomes of a plan that was admitted here with `outcomes`, was denied elsewhere, and was refunded.
    pub(crate) fn report_denied(&self, plan: &Plan<'_>, outcomes: &[Outcome], now: Timestamp) -> Outcomes {
        let plan_shards = self.lock_plan_shards(plan);
        let charge_states = self.read_states(plan, now);
        let kinds = outcomes.iter().map(|outcome| outcome.kind);
        let roles = plan.charges().iter().map(|charge| charge.role);
        let kinds = kinds.zip(roles).collect();
        let weighed = WeighedPlan { kinds, decision: OutcomeKind::Denied, is_any_over: true };
        report_denied(&charge_states, &plan_shards, &weighed)
    }

    fn preview(
        &self,
        charge_states: &[ChargeState<'_>],
        plan_shards: &PlanShards<'_>,
        weighed: &WeighedPlan,
    ) -> Outcomes {
        let grant = self.grant_for_plan(charge_states, plan_shards, weighed, None);
        let preview = |(charge_state, charge_decision): (&ChargeState<'_>, ChargeDecision)| match charge_state
        {
            ChargeState::Packed { algorithm, timed_cost, state, .. } => {
                algorithm.preview(state, *timed_cost, charge_decision)
            }
            ChargeState::UsageLog { algorithm, timed_cost, tag, .. } => {
                locked_at(&plan_shards.usage_logs, shard_of(*tag))
                    .with_state(*tag, |log| algorithm.preview(log, *timed_cost, charge_decision))
            }
            ChargeState::Leases { algorithm, timed_cost, tag, .. } => {
                locked_at(&plan_shards.leases, shard_of(*tag)).with_state(*tag, |leases| match grant {
                    Some(grant) if timed_cost.cost > 0 => {
                        // The summary is enough, except for the retry time of a denial.
                        let mut after = match charge_decision.outcome {
                            OutcomeKind::Allowed => algorithm.summary(leases, timed_cost.now),
                            OutcomeKind::Denied => leases.clone(),
                        };
                        after.acquire(grant, timed_cost.cost, timed_cost.now);
                        algorithm.outcome(&after, *timed_cost, charge_decision)
                    }
                    _ => algorithm.outcome(leases, *timed_cost, charge_decision),
                })
            }
        };
        charge_states.iter().zip(weighed.per_charge()).map(preview).collect()
    }

    /// Decides a plan and charges it, atomically. The grant covers all its leases, which last at most `ttl`. If there is
    /// no memory for a lease, the plan is denied and nothing is charged.
    pub(super) fn transact(
        &self,
        plan: &Plan<'_>,
        now: Timestamp,
        ttl: Option<Nanos>,
    ) -> (Outcomes, Result<Option<Grant>, LeaseMemoryFull>) {
        self.transact_with(plan, now, ttl, weigh_plan)
    }

    #[inline]
    fn transact_with(
        &self,
        plan: &Plan<'_>,
        now: Timestamp,
        ttl: Option<Nanos>,
        weigh: impl Fn(&Plan<'_>, &[ChargeState<'_>], &PlanShards<'_>) -> WeighedPlan,
    ) -> (Outcomes, Result<Option<Grant>, LeaseMemoryFull>) {
        loop {
            let mut plan_shards = self.lock_plan_shards(plan);
            let Some(mut pages) = self.lock_pages(plan) else { continue };
            let mut charge_states = plan_states(self, plan, now, |tag| {
                let page = locked_at(&pages, self.table.page_number(tag));
                let slot = page.find(tag);
                (slot, slot.map_or(PackedState::NEVER_SEEN, |slot| page.state(slot)))
            });
            let weighed = weigh(plan, &charge_states, &plan_shards);
            if let Err(PageFull(tag)) = self.reserve_slots(&mut charge_states, &weighed, &pages) {
                drop((pages, plan_shards));
                self.make_room(tag, now);
                continue;
            }
            if self.reserve_leases(&mut charge_states, &weighed, &mut plan_shards).is_err() {
                self.lease_refusals.fetch_add(1, Ordering::Relaxed);
                let denied = WeighedPlan { decision: OutcomeKind::Denied, is_any_over: true, ..weighed };
                return (report_denied(&charge_states, &plan_shards, &denied), Err(LeaseMemoryFull));
            }
            let grant = self.grant_for_plan(&charge_states, &plan_shards, &weighed, ttl);
            let apply =
                |(charge_state, charge_decision): (&ChargeState<'_>, ChargeDecision)| match charge_state {
                    ChargeState::Packed { counter, algorithm, timed_cost, tag, slot, state } => {
                        let mut state = *state;
                        algorithm.charge_if_due(&mut state, *timed_cost, charge_decision);
                        if let Some(slot) = slot {
                            let page = locked_at_mut(&mut pages, self.table.page_number(*tag));
                            self.put_packed(page, *slot, self.owned_tag(counter, *tag), state, now);
                        }
                        algorithm.outcome(&state, *timed_cost, charge_decision)
                    }
                    ChargeState::UsageLog { counter, algorithm, timed_cost, tag } => {
                        let shard = locked_at_mut(&mut plan_shards.usage_logs, shard_of(*tag));
                        let key = self.owned_tag(counter, *tag);
                        let entry = ShardEntry { shards: &self.usage_logs, shard, key };
                        self.charge_sharded(entry, *algorithm, *timed_cost, charge_decision, |log| {
                            algorithm.charge_decided(log, *timed_cost, charge_decision);
                        })
                    }
                    ChargeState::Leases { counter, algorithm, timed_cost, tag, has_room } => {
                        let shard = locked_at_mut(&mut plan_shards.leases, shard_of(*tag));
                        let key = self.owned_tag(counter, *tag);
                        let entry = ShardEntry { shards: &self.leases, shard, key };
                        if !has_room {
                            return memory_full_outcome();
                        }
                        self.charge_sharded(entry, *algorithm, *timed_cost, charge_decision, |leases| {
                            if let Some(grant) = grant {
                                leases.acquire(grant, timed_cost.cost, now);
                            }
                        })
                    }
                };
            return (charge_states.iter().zip(weighed.per_charge()).map(apply).collect(), Ok(grant));
        }
    }

    /// Makes room for every lease that will be granted. Grants nothing. Fails if an enforced limit has no room.
    fn reserve_leases(
        &self,
        charge_states: &mut [ChargeState<'_>],
        weighed: &WeighedPlan,
        plan_shards: &mut PlanShards<'_>,
    ) -> Result<(), LeaseMemoryFull> {
        for (charge_state, charge_decision) in charge_states.iter_mut().zip(weighed.per_charge()) {
            if let ChargeState::Leases { counter, algorithm, timed_cost, tag, has_room } = charge_state
                && algorithm.is_charged(*timed_cost, charge_decision)
            {
                let shard = locked_at_mut(&mut plan_shards.leases, shard_of(*tag));
                let key = self.owned_tag(counter, *tag);
                let mut entry = ShardEntry { shards: &self.leases, shard, key };
                *has_room = self.has_room_for_lease(&mut entry, timed_cost.now);
                if !*has_room && charge_decision.role == Role::Enforced {
                    return Err(LeaseMemoryFull);
                }
            }
        }
        Ok(())
    }

    /// The states of a plan, read without locking pages.
    fn read_states<'p>(&self, plan: &Plan<'p>, now: Timestamp) -> PlanVec<ChargeState<'p>> {
        plan_states(self, plan, now, |tag| {
            let read = self.read_packed(tag);
            (read.slot, read.state)
        })
    }

    /// Locks the pages of a plan. None if one was split meanwhile.
    fn lock_pages(&self, plan: &Plan<'_>) -> Option<LockedPages<'_>> {
        let tags: PlanVec<u64> =
            plan.charges().iter().filter(is_packed).map(|charge| self.seed.tag_of_charge(charge)).collect();
        let numbers: PlanVec<u32> = tags.iter().map(|tag| self.table.page_number(*tag)).collect();
        let pages =
            sorted_unique(numbers.clone()).map(|number| (number, self.table.page(number).lock())).collect();
        let is_unsplit = tags.iter().zip(numbers).all(|(tag, number)| self.table.page_number(*tag) == number);
        is_unsplit.then_some(pages)
    }

    /// Locks the shards of a plan.
    fn lock_plan_shards(&self, plan: &Plan<'_>) -> PlanShards<'_> {
        let usage_logs = lock_shards(&self.usage_logs, self.shards_of(plan, is_usage_log));
        PlanShards { usage_logs, leases: lock_shards(&self.leases, self.shards_of(plan, is_lease)) }
    }

    fn shards_of(&self, plan: &Plan<'_>, is_counted: impl Fn(&&Charge<'_>) -> bool) -> PlanVec<usize> {
        plan.charges()
            .iter()
            .filter(is_counted)
            .map(|charge| shard_of(self.seed.tag_of_charge(charge)))
            .collect()
    }

    /// Reserves a slot for every state that will be written. Writes nothing.
    fn reserve_slots(
        &self,
        charge_states: &mut [ChargeState<'_>],
        weighed: &WeighedPlan,
        pages: &LockedPages<'_>,
    ) -> Result<(), PageFull> {
        let mut reserved: PlanVec<(u32, PageSlot)> = SmallVec::new();
        for charge_state in charge_states.iter() {
            if let ChargeState::Packed { tag, slot: Some(slot), .. } = charge_state {
                reserved.push((self.table.page_number(*tag), *slot));
            }
        }
        for (charge_state, charge_decision) in charge_states.iter_mut().zip(weighed.per_charge()) {
            if let ChargeState::Packed { algorithm, timed_cost, tag, slot: slot @ None, .. } = charge_state
                && algorithm.is_charged(*timed_cost, charge_decision)
            {
                let page = self.table.page_number(*tag);
                let reserved_here: PlanVec<PageSlot> =
                    reserved.iter().filter(|(other, _)| *other == page).map(|(_, slot)| *slot).collect();
                let claimed = self.claim_slot(locked_at(pages, page), *tag, timed_cost.now, &reserved_here);
                let new = claimed.ok_or(PageFull(*tag))?;
                reserved.push((page, new));
                *slot = Some(new);
            }
        }
        Ok(())
    }
}

/// The charges of a plan with their states. `find` reads a packed state.
fn plan_states<'p>(
    store: &MemoryStore,
    plan: &Plan<'p>,
    now: Timestamp,
    find: impl Fn(u64) -> (Option<PageSlot>, PackedState),
) -> PlanVec<ChargeState<'p>> {
    let charge_state = |charge: &Charge<'p>| {
        let (tag, timed_cost) = (store.seed.tag_of_charge(charge), TimedCost { now, cost: charge.cost });
        match charge.counter.algorithm() {
            Algorithm::Packed(algorithm) => {
                let (slot, state) = find(tag);
                ChargeState::Packed { counter: charge.counter, algorithm, timed_cost, tag, slot, state }
            }
            Algorithm::UsageLog(algorithm) => {
                ChargeState::UsageLog { counter: charge.counter, algorithm, timed_cost, tag }
            }
            Algorithm::Leases(algorithm) => {
                ChargeState::Leases { counter: charge.counter, algorithm, timed_cost, tag, has_room: true }
            }
        }
    };
    plan.charges().iter().map(charge_state).collect()
}

/// The outcome kind and role of each charge, and the decision of the plan.
pub(super) struct WeighedPlan {
    kinds: PlanVec<(OutcomeKind, Role)>,
    decision: OutcomeKind,
    /// Whether any charge does not fit, or the plan is denied anyway.
    is_any_over: bool,
}

impl WeighedPlan {
    /// The decision for each charge.
    pub(super) fn per_charge(&self) -> impl Iterator<Item = ChargeDecision> {
        self.kinds.iter().map(|(kind, role)| ChargeDecision {
            outcome: *kind,
            decision: self.decision,
            role: *role,
            is_any_over: self.is_any_over,
        })
    }
}

/// The outcomes of a plan that is denied and charges nothing, not even limits that count denied attempts.
fn report_denied(
    charge_states: &[ChargeState<'_>],
    plan_shards: &PlanShards<'_>,
    weighed: &WeighedPlan,
) -> Outcomes {
    let report = |(charge_state, charge_decision): (&ChargeState<'_>, ChargeDecision)| match charge_state {
        ChargeState::Packed { algorithm, timed_cost, state, .. } => {
            algorithm.outcome(state, *timed_cost, charge_decision)
        }
        ChargeState::UsageLog { algorithm, timed_cost, tag, .. } => {
            locked_at(&plan_shards.usage_logs, shard_of(*tag))
                .with_state(*tag, |log| algorithm.outcome(log, *timed_cost, charge_decision))
        }
        ChargeState::Leases { has_room: false, .. } => memory_full_outcome(),
        ChargeState::Leases { algorithm, timed_cost, tag, .. } => {
            locked_at(&plan_shards.leases, shard_of(*tag))
                .with_state(*tag, |leases| algorithm.outcome(leases, *timed_cost, charge_decision))
        }
    };
    charge_states.iter().zip(weighed.per_charge()).map(report).collect()
}

fn weigh_plan(
    plan: &Plan<'_>,
    charge_states: &[ChargeState<'_>],
    plan_shards: &PlanShards<'_>,
) -> WeighedPlan {
    let weigh = |charge_state: &ChargeState<'_>| match charge_state {
        ChargeState::Packed { algorithm, timed_cost, state, .. } => {
            algorithm.outcome_kind(state, *timed_cost)
        }
        ChargeState::UsageLog { algorithm, timed_cost, tag, .. } => {
            locked_at(&plan_shards.usage_logs, shard_of(*tag))
                .with_state(*tag, |log| algorithm.outcome_kind(log, *timed_cost))
        }
        ChargeState::Leases { algorithm, timed_cost, tag, .. } => {
            locked_at(&plan_shards.leases, shard_of(*tag))
                .with_state(*tag, |leases| algorithm.outcome_kind(leases, *timed_cost))
        }
    };
    let roles = plan.charges().iter().map(|charge| charge.role);
    let kinds: PlanVec<(OutcomeKind, Role)> = charge_states.iter().map(weigh).zip(roles).collect();
    let enforced = kinds.iter().filter(|(_, role)| *role == Role::Enforced);
    let decision = enforced.map(|(kind, _)| *kind).max().unwrap_or(OutcomeKind::Allowed);
    let is_any_over = kinds.iter().any(|(kind, _)| *kind == OutcomeKind::Denied);
    WeighedPlan { kinds, decision, is_any_over }
}

/// As [`weigh_plan`], for a plan that is denied in any case.
fn weigh_denied_plan(
    plan: &Plan<'_>,
    charge_states: &[ChargeState<'_>],
    plan_shards: &PlanShards<'_>,
) -> WeighedPlan {
    let weighed = weigh_plan(plan, charge_states, plan_shards);
    WeighedPlan { decision: OutcomeKind::Denied, is_any_over: true, ..weighed }
}

/// Locks these shards, in ascending order.
pub(super) fn lock_shards<S: ShardedState>(shards: &Shards<S>, numbers: PlanVec<usize>) -> ShardLocks<'_, S> {
    sorted_unique(numbers).map(|number| (number, shards.lock(number))).collect()
}

fn is_usage_log(charge: &&Charge<'_>) -> bool {
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
    &locks[locks.partition_point(|(locked, _)| *locked < number)].1
}

pub(super) fn locked_at_mut<N: Ord + Copy, L>(locks: &mut [(N, L)], number: N) -> &mut L {
    let at = locks.partition_point(|(locked, _)| *locked < number);
    &mut locks[at].1
}
