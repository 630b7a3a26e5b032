//! From the limits that a request falls under to the plan that charges them.

use smallvec::SmallVec;

use super::answer::PartOutcomes;
use super::compiled_limit::{CompiledLimit, CounterVersions};
use super::matched::{MatchedLimit, MatchedLimits};
use super::refusing::DENYING_COUNTERS;
use super::{ResolvedLimit, Ruleset};
use crate::migration::SupersededCounter;
use crate::{Algorithm, Charge, Counter, Outcome, Plan, PlanFull, StorePolicy, Role, Timestamp, OutcomeKind};

/// A plan, and what each of its charges is to the limits that the request falls under.
#[derive(Debug)]
pub struct PlanDraft<'a> {
    /// What the store is asked about.
    pub plan: Plan<'a>,
    /// What the charges are to the limits.
    pub parts: PlanParts,
}

/// What the charges of a plan are to the limits that the request falls under. It borrows nothing, and outlives the plan.
#[derive(Clone, Debug, Default)]
pub struct PlanParts(pub(super) SmallVec<[PlanPart; 4]>);

/// What a charge is to a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanPart {
    /// The limit, by its position among those that the request falls under.
    pub limit: u32,
    /// The charge, by its position in the plan.
    pub charge: u32,
    pub counter: PartCounter,
    /// Until when the counter is enforced, if it is superseded.
    pub until: Option<Timestamp>,
}

/// Which of a limit's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartCounter {
    Main,
    Secondary,
    Pool,
}

impl MatchedLimits {
    /// The plan that charges them. Superseded counters are in it as far as there is room.
    pub fn plan<'a>(&'a self, rules: &'a Ruleset, now: Timestamp) -> Result<PlanDraft<'a>, PlanFull> {
        let mut draft = PlanDraft { plan: Plan::new(), parts: PlanParts::default() };
        self.plan_into(&mut draft.plan, &mut draft.parts, rules, now)?;
        Ok(draft)
    }

    /// As [`plan`](Self::plan), written to an empty plan and instead of the parts of an earlier one. A plan is larger than what
    /// the compiler moves for free, so a decision makes it where it stays.
    pub(super) fn plan_into<'a>(
        &'a self,
        plan: &mut Plan<'a>,
        parts: &mut PlanParts,
        rules: &'a Ruleset,
        now: Timestamp,
    ) -> Result<(), PlanFull> {
        parts.0.clear();
        let mut draft = DraftWriter { plan, parts };
        let mut has_superseded = false;
        for (index, matched) in (0..).zip(&self.limits) {
            let Some(key) = self.key(matched) else { continue };
            let resolved = rules.resolve(&matched.limit);
            let main = self.main_counter(index, matched, key, resolved);
            draft.add(&main, main.current, None)?;
            has_superseded |= !main.superseded.is_empty();
            if let Some(second) = self.secondary_counter(index, matched, key, resolved, rules) {
                draft.add(&second, second.current, None)?;
                has_superseded |= !second.superseded.is_empty();
            }
        }
        if self.has_missing_enforced_key(rules) {
            // The request is denied whatever the others say; they answer as to a request that is denied. This charge keeps no
            // state. It takes the key of another charge, in the same form, for stores that keep the keys of one entity together.
            let first = draft.plan.charges().first();
            let (key, form) =
                first.map_or_else(Default::default, |charge| (charge.key, charge.counter.key_form()));
            draft.plan.add(Charge::new(key, DENYING_COUNTERS.for_key_form(form), 1))?;
        }
        if has_superseded {
            // A plan without room for superseded counters is still decided.
            let _ = self.add_superseded(&mut draft, rules, now);
        }
        Ok(())
    }

    /// The plan of a candidate, which is asked about by itself; none if its key cannot be made.
    pub fn candidate_plan<'a>(&'a self, rules: &'a Ruleset, candidate: &'a MatchedLimit) -> Option<Plan<'a>> {
        let limit = rules.resolve(&candidate.limit).limit;
        let key = self.key(candidate)?;
        let charge = Charge { policy: limit.policy, ..Charge::new(key, &limit.main.current, candidate.cost) };
        Some(Plan::of_one(charge))
    }

    /// The plan of all counters that may hold a lease of the request: those that hold it now, superseded ones, however old,
    /// and pools, whether the request borrowed from them or not.
    pub fn lease_plan<'a>(&'a self, rules: &'a Ruleset) -> Result<Plan<'a>, PlanFull> {
        let mut plan = Plan::new();
        for matched in &self.limits {
            let Some(key) = self.key(matched) else { continue };
            let resolved = rules.resolve(&matched.limit);
            let limit = resolved.limit;
            let own = std::iter::once(&limit.main).chain(&limit.secondary).map(|versions| (versions, key));
            // A pool has one counter for all keys.
            let pool = self.pool(rules, limit).map(|pool| (pool, [].as_slice()));
            for (versions, key) in own.chain(pool) {
                let is_lease = |counter: &&Counter| matches!(counter.algorithm(), Algorithm::Leases(_));
                for counter in versions.versions().map(|(counter, _)| counter).filter(is_lease) {
                    let charge = Charge::new(key, counter, matched.cost);
                    plan.add(Charge { role: resolved.role(), policy: limit.policy, ..charge })?;
                }
            }
        }
        Ok(plan)
    }

    /// Whether the request is denied whatever the store says, because it lacks a part of a key.
    fn has_missing_enforced_key(&self, rules: &Ruleset) -> bool {
        let lacks =
            |matched: &MatchedLimit| !matched.has_key() && rules.resolve(&matched.limit).is_enforced();
        self.has_missing_key && self.limits.iter().any(lacks)
    }

    /// Adds the superseded counters that are still enforced.
    #[cold]
    fn add_superseded<'a>(
        &'a self,
        draft: &mut DraftWriter<'_, 'a>,
        rules: &'a Ruleset,
        now: Timestamp,
    ) -> Result<(), PlanFull> {
        for (index, matched) in (0..).zip(&self.limits) {
            let Some(key) = self.key(matched) else { continue };
            let resolved = rules.resolve(&matched.limit);
            let main = self.main_counter(index, matched, key, resolved);
            for counted in [main].into_iter().chain(self.secondary_counter(index, matched, key, resolved, rules)) {
                for old in counted.superseded.iter().filter(|old| now < old.until) {
                    draft.add(&counted, &old.counter, Some(old.until))?;
                }
            }
        }
        Ok(())
    }

    /// What is counted by the main counter of a limit.
    #[inline]
    fn main_counter<'a>(
        &'a self,
        index: u32,
        matched: &MatchedLimit,
        key: &'a [u8],
        resolved: ResolvedLimit<'a>,
    ) -> CountedPart<'a> {
        let CounterVersions { current, superseded } = &resolved.limit.main;
        // Superseded counters have windows of their own; the other L does not belong to them.
        let current = matched.resized.map_or(current, |resized| &self.resized[resized.index as usize]);
        let (cost, policy, role) = (matched.cost, resolved.limit.policy, resolved.role());
        CountedPart { index, counter: PartCounter::Main, key, cost, policy, current, superseded, role }
    }

    /// What is counted by the second counter of a limit, or by the pool that it borrows from.
    #[inline]
    fn secondary_counter<'a>(
        &'a self,
        index: u32,
        matched: &MatchedLimit,
        key: &'a [u8],
        resolved: ResolvedLimit<'a>,
        rules: &'a Ruleset,
    ) -> Option<CountedPart<'a>> {
        let limit = resolved.limit;
        let second = limit.secondary.as_ref()?;
        let (which, key, versions, role) = match self.pool(rules, limit) {
            // A pool has one counter for all keys.
            Some(pool) if matched.granted_outcome.is_some() => {
                (PartCounter::Pool, [].as_slice(), pool, Role::Enforced)
            }
            Some(_) => (PartCounter::Secondary, key, second, Role::Enforced),
            None => (PartCounter::Secondary, key, second, Role::Observed),
        };
        let CounterVersions { current, superseded } = versions;
        let (cost, policy) = (matched.cost, limit.policy);
        Some(CountedPart { index, counter: which, key, cost, policy, current, superseded, role })
    }

    fn pool<'a>(&self, rules: &'a Ruleset, limit: &CompiledLimit) -> Option<&'a CounterVersions> {
        limit.pool.zip(self.domain).map(|(pool, domain)| rules.domain_at(domain).pool(pool))
    }
}

/// What is counted for a limit: its main counter or its second one, with the counters that it superseded.
struct CountedPart<'a> {
    index: u32,
    counter: PartCounter,
    key: &'a [u8],
    cost: u64,
    policy: StorePolicy,
    current: &'a Counter,
    superseded: &'a [SupersededCounter],
    role: Role,
}

/// A plan that is being made, and its parts.
struct DraftWriter<'d, 'a> {
    plan: &'d mut Plan<'a>,
    parts: &'d mut PlanParts,
}

impl<'a> DraftWriter<'_, 'a> {
    #[inline]
    fn add(
        &mut self,
        counted: &CountedPart<'a>,
        counter: &'a Counter,
        until: Option<Timestamp>,
    ) -> Result<(), PlanFull> {
        let CountedPart { index, counter: which, key, cost, policy, role, .. } = *counted;
        let charge = self.plan.add(Charge { key, counter, cost, role, policy })?;
        // A plan has few charges.
        let charge = u32::try_from(charge).unwrap_or(u32::MAX);
        self.parts.0.push(PlanPart { limit: index, charge, counter: which, until });
        Ok(())
    }
}

impl MatchedLimits {
    /// Whether their plan is denied whatever the store says, and leaves no trace: then a peek is enough. A store that keeps its
    /// keys in several places would charge some of them and give that back.
    pub(super) fn is_denied_uncounted(&self, plan: &Plan<'_>) -> bool {
        let charges = plan.charges();
        self.has_missing_key
            && charges.iter().any(|charge| DENYING_COUNTERS.contains(charge.counter))
            && charges.iter().any(|charge| charge.key != charges[0].key)
            && !counts_denied(plan)
    }

    /// Whether limits may borrow from pools, and other limits count denied attempts. Then it has to be known before charging
    /// which limits borrow, or an attempt would count each time that the store is asked.
    pub(super) fn needs_peek(&self, rules: &Ruleset, plan: &Plan<'_>) -> bool {
        self.has_pool && self.limits.iter().any(|one| may_borrow(rules, one)) && counts_denied(plan)
    }
}

fn counts_denied(plan: &Plan<'_>) -> bool {
    plan.charges().iter().any(|charge| charge.counter.algorithm().counts_denied())
}

impl PlanParts {
    /// The limits that have nothing left of what they always grant and have a pool to borrow from, each with the outcome of
    /// what it always grants.
    pub(super) fn borrowing_limits(
        &self,
        rules: &Ruleset,
        matched: &MatchedLimits,
        outcomes: &[Outcome],
        now: Timestamp,
    ) -> SmallVec<[(u32, Outcome); 1]> {
        let able = (0..).zip(&matched.limits).filter(|(_, one)| may_borrow(rules, one));
        let granted = able.filter_map(|(index, _)| {
            let part = PartOutcomes { parts: &self.0, limit: index, outcomes, now };
            Some((index, part.merged(PartCounter::Secondary)?))
        });
        granted.filter(|(_, granted)| granted.kind == OutcomeKind::Denied).collect()
    }
}

fn may_borrow(rules: &Ruleset, matched: &MatchedLimit) -> bool {
    matched.granted_outcome.is_none() && rules.resolve(&matched.limit).limit.pool.is_some()
}
