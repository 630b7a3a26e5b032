//! Domains and rules without effect.

use std::collections::{HashMap, HashSet};

use tidegate_core::rules::{
    Action, Apply, CaseSensitivity, Elastic, ElasticSource, Margin, OnMissingKey, Pattern, RuleLimit,
    RuleLimits,
};

use crate::rules::diagnostic::{Diagnostic, Report};
use crate::rules::file::{FileRule, RulesFile};
use crate::rules::yaml::printable;

/// More limits than this for every request are probably a mistake.
const LIMITS_AT_ONCE_MAX: usize = 64;

pub(super) fn lint_without_rules(report: &mut Report, file: &RulesFile) {
    if file.rules.is_empty() {
        let message = format!("domain `{}` has no rules", printable(&file.domain.value));
        let diagnostic = Diagnostic::warning("no-rules", file.domain.span, message);
        report.push(diagnostic.label("nothing is limited here").hint("add rules, or remove the file"));
    }
}

/// If all matching rules apply, a rule without limits, replacements and metadata has no effect.
pub(super) fn lint_without_effect(report: &mut Report, file: &RulesFile, rule: &FileRule) {
    let apply = file.apply.map(|apply| apply.value).unwrap_or_default();
    let unlimited = matches!(&rule.rule.limits, RuleLimits::Same(limits) if limits.is_empty());
    let silent =
        rule.rule.replaces.is_empty() && rule.rule.metadata.is_empty() && rule.rule.candidate.is_none();
    if rule.rule.is_exemption {
        lint_exempts_everything(report, file, rule);
    } else if apply == Apply::All && unlimited && silent {
        let message = format!("rule `{}` has no effect", printable(&rule.rule.name));
        let diagnostic = Diagnostic::warning("no-effect", rule.spans.name, message);
        report.push(diagnostic.hint(
            "all rules that match apply, so an unlimited rule lifts no other limit; write `exempt: true` instead of \
             the limit, or name those rules in `replaces`",
        ));
    }
}

/// An exemption for every request makes all other rules useless.
fn lint_exempts_everything(report: &mut Report, file: &RulesFile, rule: &FileRule) {
    let matches_all = rule.rule.conditions.is_empty() && rule.rule.entries.is_none();
    if matches_all && file.rules.len() > 1 {
        let message = format!("rule `{}` exempts every request", printable(&rule.rule.name));
        let diagnostic = Diagnostic::warning("exempts-everything", rule.spans.name, message);
        report.push(
            diagnostic
                .label("so no other rule ever applies")
                .hint("say which requests it is for with `match`"),
        );
    }
}

/// More limits for every request than anyone intends: each of them costs time.
pub(super) fn lint_too_many_limits(report: &mut Report, file: &RulesFile) {
    if file.apply.map(|apply| apply.value).unwrap_or_default() == Apply::First {
        return;
    }
    let for_everyone = |rule: &&FileRule| rule.rule.conditions.is_empty() && rule.rule.entries.is_none();
    let replaced: HashSet<&str> = file
        .rules
        .iter()
        .filter(for_everyone)
        .flat_map(|rule| rule.rule.replaces.iter().map(|name| &**name))
        .collect();
    let applies = |rule: &&FileRule| !replaced.contains(&*rule.rule.name);
    let mut counters = 0;
    for rule in file.rules.iter().filter(for_everyone).filter(applies) {
        let before = counters;
        counters += super::limit_lists(rule).iter().map(|list| count_counters(list)).min().unwrap_or(0);
        if before <= LIMITS_AT_ONCE_MAX && counters > LIMITS_AT_ONCE_MAX {
            let message =
                format!("from here on every request falls under more than {LIMITS_AT_ONCE_MAX} limits");
            let diagnostic = Diagnostic::warning("too-many-at-once", rule.spans.name, message);
            let diagnostic = diagnostic.label("each request charges all of them");
            report.push(diagnostic.hint("let fewer rules match everything, or write `apply: first`"));
        }
    }
}

/// How many counters a list of limits uses for every request: soft limits with a margin and pools use one
/// more.
fn count_counters<A>(list: &[(&RuleLimit, A)]) -> usize {
    let count_of = |(limit, _): &(&RuleLimit, A)| match &limit.action {
        _ if limit.missing == OnMissingKey::Skip && !limit.key.parts().is_empty() => 0,
        Action::Soft(Margin::Percent(_))
        | Action::Elastic(Elastic { source: ElasticSource::Pool(_), .. }) => 2,
        _ => 1,
    };
    list.iter().map(count_of).sum()
}

/// Rules that replace each other: if both match, neither applies.
pub(super) fn lint_mutual_replacement(report: &mut Report, file: &RulesFile) {
    let numbered = || file.rules.iter().enumerate();
    let by_name: HashMap<&str, (usize, &FileRule)> =
        numbered().map(|(number, rule)| (&*rule.rule.name, (number, rule))).collect();
    let pairs: HashSet<(usize, usize)> = numbered()
        .flat_map(|(number, rule)| rule.rule.replaces.iter().map(move |name| (number, name)))
        .filter_map(|(number, name)| Some((number, by_name.get(&**name)?.0)))
        .collect();
    for (number, rule) in numbered() {
        for (name, at) in rule.rule.replaces.iter().zip(&rule.spans.replaces) {
            let Some((other_number, other)) = by_name.get(&**name) else { continue };
            // Reported once, for the first of them.
            if number < *other_number && pairs.contains(&(*other_number, number)) {
                let (name, other_name) = (printable(&rule.rule.name), printable(name));
                let message = format!("rules `{name}` and `{other_name}` replace each other");
                let diagnostic = Diagnostic::warning("replace-each-other", *at, message)
                    .label("where both match, neither applies")
                    .related(other.spans.name, "the other");
                report.push(diagnostic.hint("leave one of the two names out"));
                break;
            }
        }
    }
}

/// Plans that the rule's own conditions exclude.
pub(super) fn lint_unused_plans(report: &mut Report, rule: &FileRule) {
    let RuleLimits::Tiers(tiers) = &rule.rule.limits else { return };
    for (condition, at) in rule.rule.conditions.iter().zip(&rule.spans.conditions) {
        if condition.attribute != tiers.attribute {
            continue;
        }
        let is_plan = |value: &str, plan: &str| match tiers.attribute.case() {
            CaseSensitivity::Sensitive => value == plan,
            CaseSensitivity::Insensitive => value.eq_ignore_ascii_case(plan),
        };
        let possible = |plan: &str| match &condition.pattern {
            Pattern::Exact(value) => is_plan(value, plan),
            Pattern::OneOf(values) => values.values().iter().any(|value| is_plan(value, plan)),
            Pattern::Absent => false,
            _ => true,
        };
        let is_default = |limits: &[RuleLimit]| *limits == *tiers.default;
        for (plan, _) in tiers.plans.iter().filter(|(plan, limits)| !possible(plan) && !is_default(limits)) {
            let message = format!("plan `{}` is never chosen", printable(plan));
            let diagnostic = Diagnostic::warning("plan-never-chosen", *at, message);
            report.push(
                diagnostic
                    .label(format!("the rule matches no other `{}`", tiers.attribute))
                    .hint("remove this condition or the plan"),
            );
        }
    }
}
