//! What is legal and most likely not what was meant.
//!
//! Each of these is right about the rules or says nothing: a warning that is wrong teaches people to ignore them. What
//! a file says can only be judged when all of it was understood, so nobody looks here before the errors are gone.
//! What shows in the writing alone is warned of where it is read (`native/odd.rs`).

mod domain;
mod dominated;
mod limits;
mod locks;
mod unreachable_rules;

use tidegate_core::rules::{RuleLimits, Lookup, RuleLimit};

use super::diagnostic::Report;
use super::file::{FileRule, LimitSpans, RulesFile};

/// Notes what is odd about a domain.
pub(super) fn lint(report: &mut Report, file: &RulesFile) {
    domain::lint_without_rules(report, file);
    if file.lookup == Lookup::DescriptorTree {
        // Rules of levels say what they are by their place; what follows is about conditions.
        return;
    }
    for rule in &file.rules {
        domain::lint_without_effect(report, file, rule);
        domain::lint_unused_plans(report, rule);
        limits::lint(report, rule);
        locks::lint_store_failure(report, rule);
        dominated::lint(report, rule);
    }
    domain::lint_mutual_replacement(report, file);
    domain::lint_too_many_limits(report, file);
    unreachable_rules::lint(report, file);
}

/// The lists of limits of a rule that are charged together: one, or one for each plan.
fn limit_lists(rule: &FileRule) -> Vec<Vec<(&RuleLimit, &LimitSpans)>> {
    let lists: Vec<&[RuleLimit]> = match &rule.rule.limits {
        RuleLimits::Same(limits) => vec![limits],
        RuleLimits::Tiers(tiers) => {
            let plans = tiers.plans.iter().map(|(_, limits)| &**limits);
            plans.chain(std::iter::once(&*tiers.default)).collect()
        }
    };
    // The default's limits have no places if they are those of a plan, and are not looked at twice.
    let mut places = rule.spans.limits.iter();
    lists.into_iter().map(|list| list.iter().zip(places.by_ref().take(list.len())).collect()).collect()
}
