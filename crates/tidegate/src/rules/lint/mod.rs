//! Warnings: rules that are legal, but most likely not what was intended.
//!
//! Each warning is right about the rules, or is not given: wrong warnings teach people to ignore them. The
//! rules can only be judged when the whole file was understood, so this runs only without errors. Warnings
//! about spelling are given where it is read (`native/style_warnings.rs`).

mod domain;
mod limits;
mod unreachable_rules;
mod useless_limits;

use tidegate_core::rules::{Lookup, RuleLimit, RuleLimits};

use super::diagnostic::Report;
use super::file::{FileRule, LimitSpans, RulesFile};

/// Adds the warnings about a domain.
pub(super) fn lint(report: &mut Report, file: &RulesFile) {
    domain::lint_without_rules(report, file);
    if file.lookup == Lookup::DescriptorTree {
        // Rules of levels have no conditions, and the rest is about conditions.
        return;
    }
    for rule in &file.rules {
        domain::lint_without_effect(report, file, rule);
        domain::lint_unused_plans(report, rule);
        limits::lint(report, rule);
        limits::lint_store_failure(report, rule);
        useless_limits::lint(report, rule);
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
    // If the default is the name of a plan, its limits have no positions and are not checked twice.
    let mut spans = rule.spans.limits.iter();
    lists.into_iter().map(|list| list.iter().zip(spans.by_ref().take(list.len())).collect()).collect()
}
