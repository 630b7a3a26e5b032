//! Limits that admit nothing, count nothing, or can be bypassed.

use tidegate_core::rules::{
    Action, Attribute, CostSource, EntryPatterns, KeyPart, KeySpec, OnMissingKey, Pattern, RuleLimit,
    RuleLimits, path_segment,
};
use tidegate_core::{Algorithm, Limit, LimitSpec};

use crate::rules::diagnostic::{Diagnostic, Report};
use crate::rules::file::{FileRule, LimitSpans};

pub(super) fn lint(report: &mut Report, rule: &FileRule) {
    for list in super::limit_lists(rule) {
        for (limit, at) in &list {
            lint_limit(report, rule, limit, at);
            // A client that omits a header bypasses the rule only if all limits of the list have it in their keys.
            let header = bypass_headers(rule, limit).find(|header| {
                list.iter().all(|(limit, _)| bypass_headers(rule, limit).any(|other| other == *header))
            });
            if let (Some(header), Action::Reject) = (header, &limit.action) {
                warn_bypass(report, header, at);
            }
        }
    }
    for (candidate, at) in rule.rule.candidate.iter().zip(rule.spans.candidate.iter()) {
        lint_limit(report, rule, candidate, at);
    }
    lint_identical_candidate(report, rule);
}

/// The checks for any limit, candidates included.
fn lint_limit(report: &mut Report, rule: &FileRule, limit: &RuleLimit, at: &LimitSpans) {
    lint_admits_nothing(report, rule, limit, at);
    lint_costs_nothing(report, limit, at);
    if bypass_headers(rule, limit).next().is_none() {
        lint_key_is_absent(report, rule, limit, at);
    }
}

fn lint_admits_nothing(report: &mut Report, rule: &FileRule, limit: &RuleLimit, at: &LimitSpans) {
    if limit.limit.rate().limit() == 0 {
        // In a rule or a plan that selects requests, it is a ban.
        let is_everyones = rule.rule.conditions.is_empty()
            && rule.rule.entries.is_none()
            && matches!(&rule.rule.limits, RuleLimits::Same(limits) if limits.contains(limit))
            && (limit.missing != OnMissingKey::Skip || limit.key.parts().is_empty());
        if is_everyones && admitted_at_once_max(limit).is_some() {
            let diagnostic = Diagnostic::warning("limit-zero", at.limit, "a limit of 0 denies every request");
            let hint =
                "restrict the rule with `match`, or write `limit: unlimited` if nothing should be limited";
            report.push(diagnostic.hint(hint));
        }
        return;
    }
    let (CostSource::Fixed(cost), Some(max)) = (&limit.cost, admitted_at_once_max(limit)) else { return };
    if *cost > max {
        let message = format!("a cost of {cost} is never admitted");
        let diagnostic = Diagnostic::warning("never-admitted", at.cost, message);
        let diagnostic = if at.cost == at.limit {
            diagnostic
        } else {
            diagnostic.related(at.limit, format!("at most {max} at once"))
        };
        report.push(
            diagnostic.hint(format!("lower the cost to {max} or less, or raise the limit or its burst")),
        );
    }
}

fn lint_costs_nothing(report: &mut Report, limit: &RuleLimit, at: &LimitSpans) {
    if limit.cost == CostSource::Fixed(0) {
        let diagnostic = Diagnostic::warning("cost-zero", at.cost, "a cost of 0 is never counted");
        report.push(diagnostic.hint("write 1 or more, or remove the limit"));
    }
}

/// The most that can be admitted at one instant, for a limit that denies.
fn admitted_at_once_max(limit: &RuleLimit) -> Option<u64> {
    let units = limit.limit.rate().limit();
    let LimitSpec { burst, queue, .. } = limit.limit.spec();
    let max = match (burst, queue) {
        (Some(burst), _) => burst,
        // One request leaves at once, the others wait.
        (_, Some(queue)) => queue.saturating_add(1),
        _ => units,
    };
    match &limit.action {
        Action::Reject | Action::ShadowBan | Action::Delay { .. } => Some(max),
        // How far these go over the limit does not depend on the limit alone.
        Action::Shadow | Action::Quota | Action::Soft(_) | Action::Elastic(_) => None,
    }
}

/// The headers that a client can omit so that the limit does not apply.
fn bypass_headers<'r>(rule: &'r FileRule, limit: &'r RuleLimit) -> impl Iterator<Item = &'r Attribute> {
    let can_be_omitted = |attribute: &&Attribute| {
        matches!(attribute, Attribute::Header(_)) && !is_always_present(rule, attribute)
    };
    key_attributes(&limit.key).filter(|_| limit.missing == OnMissingKey::Skip).filter(can_be_omitted)
}

fn warn_bypass(report: &mut Report, header: &Attribute, at: &LimitSpans) {
    let message = format!("a client that omits `{header}` is not limited by this rule");
    let diagnostic = Diagnostic::warning("bypass", at.key, message);
    report.push(diagnostic.hint("write `missing: deny` or `missing: shared`, or match `{ exists: true }`"));
}

/// Warns about a key whose attribute the rule excludes.
fn lint_key_is_absent(report: &mut Report, rule: &FileRule, limit: &RuleLimit, at: &LimitSpans) {
    let Some(part) = limit.key.parts().iter().find(|part| is_never_present(rule, part)) else { return };
    let effect = match limit.missing {
        OnMissingKey::Skip => "the limit never applies",
        OnMissingKey::Deny => "every request is denied",
        OnMissingKey::Shared if limit.key.parts().len() == 1 => "all requests share one counter",
        OnMissingKey::Shared => "it does not separate counters",
    };
    let message = format!("the rule matches only requests without `{part}`, so {effect}");
    let diagnostic = Diagnostic::warning("key-absent", at.key, message);
    report.push(diagnostic.hint("remove it from the key, or change what the rule matches"));
}

/// Whether the requests of the rule never have this part of a key.
fn is_never_present(rule: &FileRule, part: &KeyPart) -> bool {
    let attribute = match part {
        KeyPart::Attribute(attribute) => attribute,
        KeyPart::Address { attribute, .. } => &Attribute::Address(*attribute),
        KeyPart::PathSegment { index, .. } => {
            return rule.rule.conditions.iter().any(|condition| match &condition.pattern {
                Pattern::Path(path) => !path.is_open_ended() && *index >= path.segments().len(),
                Pattern::Exact(path) if condition.attribute == Attribute::Path => {
                    path_segment(path, *index).is_none()
                }
                _ => false,
            });
        }
        KeyPart::Entry(_) | KeyPart::EntryName(_) => return false,
    };
    let mut conditions = rule.rule.conditions.iter();
    let is_excluded =
        conditions.any(|condition| condition.attribute == *attribute && condition.pattern == Pattern::Absent);
    let lacks = |entries: &EntryPatterns| {
        !entries.allows_more && !entries.patterns.iter().any(|(name, _)| attribute.matches_key(name))
    };
    is_excluded || rule.rule.entries.as_ref().is_some_and(lacks)
}

/// The attributes of a key, without addresses.
fn key_attributes(key: &KeySpec) -> impl Iterator<Item = &Attribute> {
    key.parts().iter().filter_map(|part| match part {
        KeyPart::Attribute(attribute) => Some(attribute),
        KeyPart::Address { .. } | KeyPart::PathSegment { .. } | KeyPart::Entry(_) | KeyPart::EntryName(_) => {
            None
        }
    })
}

/// Whether all requests of the rule have this attribute.
fn is_always_present(rule: &FileRule, attribute: &Attribute) -> bool {
    let is_entry =
        |entries: &EntryPatterns| entries.patterns.iter().any(|(name, _)| attribute.matches_key(name));
    let mut conditions = rule.rule.conditions.iter();
    let is_there = |pattern: &Pattern| !matches!(pattern, Pattern::Not(_) | Pattern::Absent);
    rule.rule.entries.as_ref().is_some_and(is_entry)
        || conditions.any(|condition| condition.attribute == *attribute && is_there(&condition.pattern))
}

/// Warns about a candidate that equals a limit, and so shows nothing new.
fn lint_identical_candidate(report: &mut Report, rule: &FileRule) {
    let (Some(candidate), Some(at)) = (&rule.rule.candidate, &rule.spans.candidate) else { return };
    let RuleLimits::Same(limits) = &rule.rule.limits else { return };
    let same = |limit: &RuleLimit| {
        // A limit that lets requests pass is charged for them, and a candidate is not.
        matches!(limit.action, Action::Reject | Action::ShadowBan)
            && spec_without_name(&limit.limit) == spec_without_name(&candidate.limit)
            && (&limit.key, &limit.cost, limit.missing)
                == (&candidate.key, &candidate.cost, candidate.missing)
    };
    let Some(index) = limits.iter().position(same) else { return };
    let diagnostic =
        Diagnostic::warning("candidate-identical", at.limit, "the candidate is the same as the limit");
    let diagnostic = match rule.spans.limits.get(index) {
        Some(limit) => diagnostic.related(limit.limit, "this limit"),
        None => diagnostic,
    };
    report.push(diagnostic.hint("change it to the limit you want to try, or remove it"));
}

fn spec_without_name(limit: &Limit) -> LimitSpec {
    LimitSpec { name: None, ..limit.spec() }
}

/// By default a concurrency limit denies while the shared store does not reply: nodes that cannot see each
/// other would hand out the same units. Rules with tiers get no warning, because their limits are for
/// different plans.
pub(crate) fn lint_store_failure(report: &mut Report, rule: &FileRule) {
    let (RuleLimits::Same(limits), None) = (&rule.rule.limits, rule.spans.on_store_failure) else { return };
    for (_, at) in limits.iter().zip(&rule.spans.limits).filter(|(limit, _)| is_enforced_lease(limit)) {
        let message = "in a fleet, requests under this concurrency limit are denied while the shared store does not answer";
        let diagnostic = Diagnostic::warning("lock-without-store", at.limit, message);
        report.push(diagnostic.hint(
            "write `on_store_failure: deny` in the rule if that is intended, or `on_store_failure: local` if each node may \
             hand out its share meanwhile",
        ));
    }
}

fn is_enforced_lease(limit: &RuleLimit) -> bool {
    matches!(limit.limit.algorithm(), Algorithm::Leases(_)) && limit.is_enforced()
}
