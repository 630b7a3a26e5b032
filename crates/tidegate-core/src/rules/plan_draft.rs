//! Makes the plan for the limits that a request falls under.

use smallvec::SmallVec;

use super::answer::PartOutcomes;
use super::compiled_limit::{CompiledLimit, CounterVersions};
use super::denying_counters::DENYING_COUNTERS;
use super::matched::{MatchedLimit, MatchedLimits};
use super::repeated_counters::PeekedCharge;
use super::{ResolvedLimit, Ruleset};
use crate::migration::SupersededCounter;
use crate::{
    Algorithm, Charge, Counter, Limit, Outcome, OutcomeKind, Plan, PlanFull, Role, StorePolicy, Timestamp,
};

/// A plan, and which limit each of its charges belongs to.
#[derive(Debug)]
pub struct PlanDraft<'a> {
    /// The plan for the store.
    pub plan: Plan<'a>,
    /// Which limits the charges belong to.
    pub parts: PlanParts,
}

/// Which limit each charge of a plan belongs to. It borrows nothing and outlives the plan.
#[derive(Clone, Debug, Default)]
pub struct PlanParts {
    pub(super) parts: SmallVec<[PlanPart; 4]>,
    /// Whether several limits have the same charge: a request may have descriptors with the same key.
    pub(super) has_shared: bool,
}

/// A charge and the limit it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanPart {
    /// The index of the limit among those that the request falls under.
    pub limit: u32,
    /// The index of the charge in the plan.
    pub charge: u32,
    pub counter: PartCounter,
    /// For a superseded counter: until when it is enforced.
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
    /// The plan that charges the limits. Superseded counters are included as far as there is room.
    pub fn plan<'a>(&'a self, rules: &'a Ruleset, now: Timestamp) -> Result<PlanDraft<'a>, PlanFull> {
        let mut draft = PlanDraft { plan: Plan::new(), parts: PlanParts::default() };
        self.plan_into(&mut draft.plan, &mut draft.parts, rules, now)?;
        Ok(draft)
    }

    /// Like [`plan`](Self::plan), but writes to an empty plan and overwrites the parts of an earlier one. Moving a plan
    /// costs time because of its size, so a decision makes it in its final location.
    pub(super) fn plan_into<'a>(
        &'a self,
        plan: &mut Plan<'a>,
        parts: &mut PlanParts,
        rules: &'a Ruleset,
        now: Timestamp,
    ) -> Result<(), PlanFull> {
        parts.parts.clear();
        parts.has_shared = false;
        let mut draft = DraftWriter { plan, parts };
        let mut has_superseded = false;
        for (index, matched) in (0..).zip(&self.limits) {
            let Some(key) = self.key(matched) else { continue };
            let resolved = rules.resolve(&matched.limit);
            let main = self.main_counter(index, matched, key, resolved);
            draft.add(&main, main.current, None)?;
            has_superseded |= !main.superseded.is_empty();
            if let Some(secondary) = self.secondary_counter(index, matched, key, resolved, rules) {
                draft.add(&secondary, secondary.current, None)?;
                has_superseded |= !secondary.superseded.is_empty();
            }
        }
        if self.has_missing_enforced_key(rules) {
            // This charge denies the request, so that the other limits treat it as denied. It keeps no state. It uses
            // the key and the key form of another charge, for stores that keep the keys of one entity together.
            let first = draft.plan.charges().first();
            let (key, form) =
                first.map_or_else(Default::default, |charge| (charge.key, charge.counter.key_form()));
            draft.plan.add(Charge::new(key, DENYING_COUNTERS.for_key_form(form), 1))?;
        }
        if !rules.allows_charges(draft.plan.charges().len()) {
            return Err(PlanFull);
        }
        if has_superseded {
            // A plan without room for superseded counters is still decided.
            let _ = self.add_superseded(&mut draft, rules, now);
        }
        Ok(())
    }

    /// The plan of a candidate, which is decided on its own. `None` if the descriptor lacks a part of its key.
    pub fn candidate_plan<'a>(&'a self, rules: &'a Ruleset, candidate: &'a MatchedLimit) -> Option<Plan<'a>> {
        let limit = rules.resolve(&candidate.limit).limit;
        let key = self.key(candidate)?;
        let charge = Charge { policy: limit.policy, ..Charge::new(key, &limit.main.current, candidate.cost) };
        Some(Plan::of_one(charge))
    }

    /// The plan of all counters that may have a lease of the request: current counters, superseded ones however old,
    /// and pools, whether the request borrowed from them or not.
    pub fn lease_plan<'a>(&'a self, rules: &'a Ruleset) -> Result<Plan<'a>, PlanFull> {
        let mut plan = Plan::new();
        for matched in &self.limits {
            let Some(key) = self.key(matched) else { continue };
            let resolved = rules.resolve(&matched.limit);
            let limit = resolved.limit;
            let counters =
                std::iter::once(&limit.main).chain(&limit.secondary).map(|versions| (versions, key));
            // A pool has one counter for all keys.
            let pool = self.pool(rules, limit).map(|pool| (pool, [].as_slice()));
            for (versions, key) in counters.chain(pool) {
                let is_lease = |counter: &&Counter| matches!(counter.algorithm(), Algorithm::Leases(_));
                for counter in versions.versions().map(|(counter, _)| counter).filter(is_lease) {
                    let charge = Charge::new(key, counter, matched.cost);
                    plan.add(Charge { role: resolved.role(), policy: limit.policy, ..charge })?;
                }
            }
        }
        Ok(plan)
    }

    /// Whether the plan is denied, whatever the store says, and counts nothing. Then a peek is enough. With a check, a
    /// store whose keys are on several servers would charge some of them and refund them.
    pub(super) fn is_denied_uncounted(&self, plan: &Plan<'_>) -> bool {
        let charges = plan.charges();
        self.has_missing_key
            && charges.iter().any(|charge| DENYING_COUNTERS.contains(charge.counter))
            && charges.iter().any(|charge| charge.key != charges[0].key)
            && !counts_denied(plan)
    }

    /// Whether a limit may borrow from a pool while another limit counts denied attempts. Then a peek must first find
    /// out which limits borrow. Otherwise an attempt would be counted each time that the store is asked.
    pub(super) fn needs_peek(&self, rules: &Ruleset, plan: &Plan<'_>) -> bool {
        self.has_pool && self.limits.iter().any(|matched| may_borrow(rules, matched)) && counts_denied(plan)
    }

    /// Whether the request is denied, whatever the store says, because it lacks a part of a key.
    pub(super) fn has_missing_enforced_key(&self, rules: &Ruleset) -> bool {
        let lacks_key =
            |matched: &MatchedLimit| !matched.has_key() && rules.resolve(&matched.limit).is_enforced();
        self.has_missing_key && self.limits.iter().any(lacks_key)
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
            for part in [main].into_iter().chain(self.secondary_counter(index, matched, key, resolved, rules))
            {
                for old in part.superseded.iter().filter(|old| now < old.until) {
                    draft.add(&part, &old.counter, Some(old.until))?;
                }
            }
        }
        Ok(())
    }

    /// The main counter of a limit, with the L for this request.
    pub(super) fn counter<'a>(&'a self, rules: &'a Ruleset, matched: &'a MatchedLimit) -> &'a Counter {
        let resized = matched.resized.map(|resized| &self.resized[resized.index as usize]);
        resized.unwrap_or_else(|| &rules.resolve(&matched.limit).limit.main.current)
    }

    /// The limit of the main counter of the limit at `index`, with the L for this request, and the units that it
    /// charges.
    pub(super) fn main_charge<'a>(&'a self, rules: &'a Ruleset, index: usize) -> (&'a Limit, u64) {
        match self.peeked.get(index) {
            Some(PeekedCharge { counter, cost }) => (counter.limit(), *cost),
            None => (self.counter(rules, &self.limits[index]).limit(), self.limits[index].cost),
        }
    }

    /// The charge on the main counter of a limit.
    #[inline]
    fn main_counter<'a>(
        &'a self,
        index: u32,
        matched: &MatchedLimit,
        key: &'a [u8],
        resolved: ResolvedLimit<'a>,
    ) -> CountedPart<'a> {
        let CounterVersions { current, superseded } = &resolved.limit.main;
        // Superseded counters keep their own L.
        let mut current = matched.resized.map_or(current, |resized| &self.resized[resized.index as usize]);
        let (mut cost, policy, role) = (matched.cost, resolved.limit.policy, resolved.role());
        if let Some(peeked) = self.peeked.get(index as usize) {
            (current, cost) = (&peeked.counter, peeked.cost);
        }
        CountedPart { index, counter: PartCounter::Main, key, cost, policy, current, superseded, role }
    }

    /// The charge on the secondary counter of a limit, or on the pool that it borrows from.
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
        let secondary = limit.secondary.as_ref()?;
        let (counter, key, versions, role) = match self.pool(rules, limit) {
            // A pool has one counter for all keys.
            Some(pool) if matched.granted_outcome.is_some() => {
                (PartCounter::Pool, [].as_slice(), pool, Role::Enforced)
            }
            Some(_) => (PartCounter::Secondary, key, secondary, Role::Enforced),
            None => (PartCounter::Secondary, key, secondary, Role::Observed),
        };
        let CounterVersions { current, superseded } = versions;
        let policy = match counter {
            // A pool may have any algorithm, and rules with other modes borrow from it too.
            PartCounter::Pool => limit.policy.strict_or_local(),
            PartCounter::Main | PartCounter::Secondary => limit.policy,
        };
        let cost = matched.cost;
        Some(CountedPart { index, counter, key, cost, policy, current, superseded, role })
    }

    fn pool<'a>(&self, rules: &'a Ruleset, limit: &CompiledLimit) -> Option<&'a CounterVersions> {
        limit.pool.zip(self.domain).map(|(pool, domain)| rules.domain_at(domain).pool(pool))
    }
}

impl PlanParts {
    /// The limits that have a pool and have used up what is always granted, each with the outcome of that part.
    pub(super) fn borrowing_limits(
        &self,
        rules: &Ruleset,
        matched: &MatchedLimits,
        outcomes: &[Outcome],
        now: Timestamp,
    ) -> SmallVec<[(u32, Outcome); 1]> {
        let with_pool = (0..).zip(&matched.limits).filter(|(_, matched)| may_borrow(rules, matched));
        let granted = with_pool.filter_map(|(index, _)| {
            let part = PartOutcomes { parts: &self.parts, limit: index, outcomes, now };
            Some((index, part.merged(PartCounter::Secondary)?))
        });
        granted.filter(|(_, granted)| granted.kind == OutcomeKind::Denied).collect()
    }
}

/// A charge for a limit, on its main or secondary counter, with the counters that this one superseded.
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

/// Writes a plan and its parts.
struct DraftWriter<'d, 'a> {
    plan: &'d mut Plan<'a>,
    parts: &'d mut PlanParts,
}

impl<'a> DraftWriter<'_, 'a> {
    #[inline]
    fn add(
        &mut self,
        part: &CountedPart<'a>,
        counter: &'a Counter,
        until: Option<Timestamp>,
    ) -> Result<(), PlanFull> {
        let CountedPart { index, counter: which, key, cost, policy, role, .. } = *part;
        // A superseded counter may have an algorithm without such modes.
        let policy = if until.is_some() { policy.strict_or_local() } else { policy };
        let charges = self.plan.charges().len();
        let charge = self.plan.add(Charge { key, counter, cost, role, policy })?;
        self.parts.has_shared |= charge < charges;
        // A plan has few charges, so this always fits.
        let charge = u32::try_from(charge).unwrap_or(u32::MAX);
        self.parts.parts.push(PlanPart { limit: index, charge, counter: which, until });
        Ok(())
    }
}

fn counts_denied(plan: &Plan<'_>) -> bool {
    plan.charges().iter().any(|charge| charge.counter.algorithm().counts_denied())
}

fn may_borrow(rules: &Ruleset, matched: &MatchedLimit) -> bool {
    matched.granted_outcome.is_none() && rules.resolve(&matched.limit).limit.pool.is_some()
}
