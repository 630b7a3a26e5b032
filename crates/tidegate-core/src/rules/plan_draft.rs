//! From the limits that a request falls under to the plan that charges them.

use smallvec::SmallVec;

use super::answer::PartOutcomes;
use super::compiled_limit::{CompiledLimit, CounterVersions};
use super::matched::{MatchedKey, MatchedLimit, MatchedLimits};
use super::refusing::REFUSING;
use super::{ResolvedLimit, Ruleset};
use crate::{Algorithm, Charge, Counter, Outcome, Plan, PlanFull, Role, Timestamp, Verdict};

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
    pub limit: usize,
    /// The charge, by its position in the plan.
    pub charge: usize,
    pub counter: PartCounter,
    /// Until when the counter is enforced, if it is superseded.
    pub until: Option<Timestamp>,
}

/// Which of a limit's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartCounter {
    Main,
    Second,
    Pool,
}

impl MatchedLimits {
    /// The plan that charges them. Superseded counters are in it as far as there is room.
    pub fn plan<'a>(&'a self, rules: &'a Ruleset, now: Timestamp) -> Result<PlanDraft<'a>, PlanFull> {
        let mut draft = PlanDraft { plan: Plan::new(), parts: PlanParts::default() };
        self.add_to(&mut draft, rules, |part| part.until.is_none())?;
        if self.lacks_a_key(rules) {
            // The request is denied whatever the others say; they answer as to a request that is denied. This charge keeps no
            // state. It takes the key of another charge, in the same form, for stores that keep the keys of one entity together.
            let first = draft.plan.charges().first();
            let (key, form) =
                first.map_or_else(Default::default, |charge| (charge.key, charge.counter.key_form()));
            draft.plan.add(Charge::new(key, REFUSING.of(form), 1))?;
        }
        // A plan without room for superseded counters is still decided.
        let _ = self.add_to(&mut draft, rules, |part| part.until.is_some_and(|until| now < until));
        Ok(draft)
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
    pub fn plan_of_leases<'a>(&'a self, rules: &'a Ruleset) -> Result<Plan<'a>, PlanFull> {
        let mut plan = Plan::new();
        for matched in &self.limits {
            let Some(key) = self.key(matched) else { continue };
            let resolved = rules.resolve(&matched.limit);
            let limit = resolved.limit;
            let own = std::iter::once(&limit.main).chain(&limit.second).map(|versions| (versions, key));
            // A pool has one counter for all keys.
            let pool = self.pool(rules, limit).map(|pool| (pool, [].as_slice()));
            for (versions, key) in own.chain(pool) {
                let is_lease = |counter: &&Counter| matches!(counter.algorithm(), Algorithm::Leases(_));
                for counter in versions.all().map(|(counter, _)| counter).filter(is_lease) {
                    let charge = Charge::new(key, counter, matched.cost);
                    plan.add(Charge { role: resolved.role(), policy: limit.policy, ..charge })?;
                }
            }
        }
        Ok(plan)
    }

    /// Whether the request is denied whatever the store says, because it lacks a part of a key.
    fn lacks_a_key(&self, rules: &Ruleset) -> bool {
        let lacks = |matched: &MatchedLimit| {
            matched.key == MatchedKey::Missing && rules.resolve(&matched.limit).is_enforced()
        };
        self.limits.iter().any(lacks)
    }

    fn add_to<'a>(
        &'a self,
        draft: &mut PlanDraft<'a>,
        rules: &'a Ruleset,
        is_wanted: impl Fn(&Counted<'_>) -> bool,
    ) -> Result<(), PlanFull> {
        for (index, matched) in self.limits.iter().enumerate() {
            let Some(key) = self.key(matched) else { continue };
            let resolved = rules.resolve(&matched.limit);
            let policy = resolved.limit.policy;
            for Counted { which, counter, role, until } in
                self.counted(rules, matched, resolved).filter(&is_wanted)
            {
                // A pool has one counter for all keys.
                let key = if which == PartCounter::Pool { &[] } else { key };
                let charge = draft.plan.add(Charge { key, counter, cost: matched.cost, role, policy })?;
                draft.parts.0.push(PlanPart { limit: index, charge, counter: which, until });
            }
        }
        Ok(())
    }

    /// The counters of a limit.
    fn counted<'a>(
        &'a self,
        rules: &'a Ruleset,
        matched: &'a MatchedLimit,
        resolved: ResolvedLimit<'a>,
    ) -> impl Iterator<Item = Counted<'a>> {
        let limit = resolved.limit;
        let role = resolved.role();
        let main = limit.main.all().map(move |(counter, until)| {
            // Superseded counters have windows of their own; the other L does not belong to them.
            let resized = matched.resized.filter(|_| until.is_none());
            let counter = resized.map_or(counter, |resized| &self.resized[resized.index]);
            Counted { which: PartCounter::Main, counter, role, until }
        });
        let second = match (self.pool(rules, limit), &limit.second) {
            (Some(pool), _) if matched.borrows.is_some() => Some((PartCounter::Pool, pool, Role::Enforced)),
            (Some(_), Some(granted)) => Some((PartCounter::Second, granted, Role::Enforced)),
            (None, Some(soft)) => Some((PartCounter::Second, soft, Role::Observed)),
            (_, None) => None,
        };
        let second = second.into_iter().flat_map(|(which, versions, role)| {
            versions.all().map(move |(counter, until)| Counted { which, counter, role, until })
        });
        main.chain(second)
    }

    fn pool<'a>(&self, rules: &'a Ruleset, limit: &CompiledLimit) -> Option<&'a CounterVersions> {
        limit.pool.zip(self.domain).map(|(pool, domain)| rules.at(domain).pool(pool))
    }
}

/// A counter of a limit.
struct Counted<'a> {
    which: PartCounter,
    counter: &'a Counter,
    role: Role,
    until: Option<Timestamp>,
}

impl PlanDraft<'_> {
    /// Whether the plan is denied whatever the store says, and leaves no trace: then a peek is enough. A store that keeps its
    /// keys in several places would charge some of them and give that back.
    pub fn is_denied_without_trace(&self) -> bool {
        let charges = self.plan.charges();
        charges.iter().any(|charge| REFUSING.is(charge.counter))
            && charges.iter().any(|charge| charge.key != charges[0].key)
            && !charges.iter().any(|charge| charge.counter.algorithm().counts_denied())
    }

    /// Whether limits may borrow from pools, and other limits count denied attempts. Then it has to be known before charging
    /// which limits borrow, or an attempt would count each time that the store is asked.
    pub(super) fn has_to_be_peeked(&self, rules: &Ruleset, matched: &MatchedLimits) -> bool {
        matched.limits.iter().any(|one| may_borrow(rules, one))
            && self.plan.charges().iter().any(|charge| charge.counter.algorithm().counts_denied())
    }
}

impl PlanParts {
    /// The limits that have nothing left of what they always grant and have a pool to borrow from, each with the outcome of
    /// what it always grants.
    pub(super) fn borrowing(
        &self,
        rules: &Ruleset,
        matched: &MatchedLimits,
        outcomes: &[Outcome],
        now: Timestamp,
    ) -> SmallVec<[(usize, Outcome); 1]> {
        let may_borrow = |index: &usize| may_borrow(rules, &matched.limits[*index]);
        let granted = (0..matched.limits.len()).filter(may_borrow).filter_map(|index| {
            let part = PartOutcomes { parts: &self.0, limit: index, outcomes, now };
            Some((index, part.of(PartCounter::Second)?))
        });
        granted.filter(|(_, granted)| granted.verdict == Verdict::Denied).collect()
    }
}

fn may_borrow(rules: &Ruleset, matched: &MatchedLimit) -> bool {
    matched.borrows.is_none() && rules.resolve(&matched.limit).limit.pool.is_some()
}
