//! Counters that count `if_over` and that a request names several times.
//!
//! A plan has one charge for each counter, with the sum of the costs. But a window that counts `if_over` considers the
//! cost of each descriptor by itself, as envoyproxy/ratelimit does with `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`: it
//! first reads all counters of a request, and if a descriptor is over its limit, it counts only such descriptors. So a
//! request that names a counter several times peeks first. The peek shows which descriptors count, and the next plan
//! charges these and no others, whatever the decision.
//!
//! Two such requests may both peek before either is charged, as in envoyproxy/ratelimit. The second one may then count
//! for descriptors that it should spare. It is still denied if it is over a limit.

use super::plan_draft::{PartCounter, PlanPart, PlanParts};
use super::{MatchedLimits, Ruleset};
use crate::algorithm::{CountDenied, PackedAlgorithm};
use crate::{Algorithm, Counter, Limit, Outcome, OutcomeKind, Plan};

/// What a limit charges to its main counter, after a peek.
#[derive(Clone, Debug)]
pub(super) struct PeekedCharge {
    pub counter: Counter,
    pub cost: u64,
}

impl PlanParts {
    /// Whether a peek must show which descriptors count.
    #[inline]
    pub(super) fn repeats_if_over(&self, plan: &Plan<'_>) -> bool {
        self.has_shared && plan.charges().iter().any(|charge| counts_if_over(charge.counter.limit()))
    }
}

impl PlanPart {
    /// Whether it is the main counter of a limit, and not one that this counter superseded.
    pub(super) fn is_current_main(&self) -> bool {
        self.counter == PartCounter::Main && self.until.is_none()
    }
}

impl MatchedLimits {
    /// Finds out which descriptors count, from the outcomes of a peek.
    #[cold]
    pub(super) fn apply_peek(&mut self, rules: &Ruleset, parts: &[PlanPart], outcomes: &[Outcome]) {
        let is_over = |part: &PlanPart| self.is_over(rules, part, parts, outcomes);
        let is_any_over = self.has_missing_enforced_key(rules) || parts.iter().any(is_over);
        let peeked = (0..).zip(&self.limits).map(|(index, matched)| {
            let counter = self.counter(rules, matched);
            if !counts_if_over(counter.limit()) {
                return PeekedCharge { counter: counter.clone(), cost: matched.cost };
            }
            let mut own = parts.iter().filter(|part| part.limit == index && part.is_current_main());
            let is_counted = !is_any_over || own.any(is_over);
            PeekedCharge {
                counter: counter.clone().counting_denied(CountDenied::Always),
                cost: if is_counted { matched.cost } else { 0 },
            }
        });
        self.peeked = peeked.collect();
    }

    /// Whether the cost of this part does not fit. If the counter counts `if_over`, only the part's own cost counts.
    fn is_over(&self, rules: &Ruleset, part: &PlanPart, parts: &[PlanPart], outcomes: &[Outcome]) -> bool {
        let limit_of = |part: &PlanPart| self.counter(rules, &self.limits[part.limit as usize]).limit();
        let cost_of = |part: &PlanPart| self.limits[part.limit as usize].cost;
        let outcome = &outcomes[part.charge as usize];
        let limit = limit_of(part);
        if !part.is_current_main() || !counts_if_over(limit) {
            return outcome.kind == OutcomeKind::Denied;
        }
        let same = || parts.iter().filter(|other| other.charge == part.charge);
        // The charge has the tightest of the limits.
        let tightest = same().map(|part| limit_of(part).rate().limit()).min().unwrap_or_default();
        let used_after = (tightest + outcome.over).saturating_sub(outcome.remaining);
        let is_any_over = outcomes.iter().any(|outcome| outcome.kind == OutcomeKind::Denied);
        let is_counted = !is_any_over || outcome.kind == OutcomeKind::Denied;
        let counted = if is_counted { same().map(cost_of).fold(0, u64::saturating_add) } else { 0 };
        let used_before = used_after.saturating_sub(counted);
        used_before.saturating_add(cost_of(part)) > limit.rate().limit()
    }
}

fn counts_if_over(limit: &Limit) -> bool {
    match limit.algorithm() {
        Algorithm::Packed(PackedAlgorithm::FixedWindow(window)) => window.count_denied == CountDenied::IfOver,
        _ => false,
    }
}
