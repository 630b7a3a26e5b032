//! Limits that admit nothing, count nothing, or let somebody past.

use tidegate_core::rules::{
    Action, Attribute, CostSource, EntryPatterns, KeySpec, KeyPart, RuleLimits, OnMissingKey, Pattern, RuleLimit, path_segment,
};
use tidegate_core::{Limit, LimitSpec};

use super::super::diagnostic::{Diagnostic, Report};
use super::super::file::{FileRule, LimitSpans};

pub(super) fn lint(report: &mut Report, rule: &FileRule) {
    for list in super::limit_lists(rule) {
        for (limit, at) in &list {
            lint_limit(report, rule, limit, at);
            // Whoever leaves a header out is let past only if that is so with every limit of the list.
            let header = bypass_headers(rule, limit).find(|header| {
                list.iter().all(|(other, _)| bypass_headers(rule, other).any(|one| one == *header))
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

/// What may be odd about any limit, candidates included.
fn lint_limit(report: &mut Report, rule: &FileRule, limit: &RuleLimit, at: &LimitSpans) {
    lint_admits_nothing(report, rule, limit, at);
    lint_costs_nothing(report, limit, at);
    if bypass_headers(rule, limit).next().is_none() {
        lint_key_is_absent(report, rule, limit, at);
    }
}

fn lint_admits_nothing(report: &mut Report, rule: &FileRule, limit: &RuleLimit, at: &LimitSpans) {
    if limit.limit.rate().limit() == 0 {
        // Of a rule or a plan that says for whom, it is a ban.
        let is_everyones = rule.rule.conditions.is_empty()
            && rule.rule.entries.is_none()
            && matches!(&rule.rule.limits, RuleLimits::Same(limits) if limits.contains(limit))
            && (limit.missing != OnMissingKey::Skip || limit.key.parts().is_empty());
        if is_everyones && admitted_at_once_max(limit).is_some() {
            let found =
                Diagnostic::warning("limit-zero", at.limit, "a limit of 0 admits nothing, for anybody");
            let hint =
                "say whom it is for with `match`, or write `limit: unlimited` if nothing is to be limited";
            report.push(found.hint(hint));
        }
        return;
    }
    let (CostSource::Fixed(cost), Some(most)) = (&limit.cost, admitted_at_once_max(limit)) else { return };
    if *cost > most {
        let message = format!("a cost of {cost} is never admitted");
        let found = Diagnostic::warning("never-admitted", at.cost, message);
        let found = if at.cost == at.limit {
            found
        } else {
            found.related(at.limit, format!("{most} at once are the most"))
        };
        report.push(found.hint(format!("lower the cost to {most} or less, or raise the limit or its burst")));
    }
}

fn lint_costs_nothing(report: &mut Report, limit: &RuleLimit, at: &LimitSpans) {
    if limit.cost == CostSource::Fixed(0) {
        let found = Diagnostic::warning("cost-zero", at.cost, "a cost of 0 is never counted");
        report.push(found.hint("write 1 or more, or remove the limit"));
    }
}

/// The most that can be admitted at one instant, of a limit over which requests are denied.
fn admitted_at_once_max(limit: &RuleLimit) -> Option<u64> {
    let units = limit.limit.rate().limit();
    let LimitSpec { burst, queue, .. } = limit.limit.spec();
    let most = match (burst, queue) {
        (Some(burst), _) => burst,
        // One leaves at once, the others wait.
        (_, Some(queue)) => queue.saturating_add(1),
        _ => units,
    };
    match &limit.action {
        Action::Reject | Action::ShadowBan | Action::Delay { .. } => Some(most),
        // How far these go over the limit depends on more than the limit.
        Action::Shadow | Action::Quota | Action::Soft(_) | Action::Elastic(_) => None,
    }
}

/// The headers that a client can leave out so that the limit does not apply.
fn bypass_headers<'r>(rule: &'r FileRule, limit: &'r RuleLimit) -> impl Iterator<Item = &'r Attribute> {
    let is_clients =
        |attribute: &&Attribute| matches!(attribute, Attribute::Header(_)) && !is_always_present(rule, attribute);
    key_attributes(&limit.key).filter(|_| limit.missing == OnMissingKey::Skip).filter(is_clients)
}

fn warn_bypass(report: &mut Report, header: &Attribute, at: &LimitSpans) {
    let message = format!("whoever leaves `{header}` out is not limited by this rule");
    let found = Diagnostic::warning("bypass", at.key, message);
    report.push(found.hint("write `missing: deny` or `missing: shared`, or match `{ exists: true }`"));
}

/// The key is made of what the rule says is not there.
fn lint_key_is_absent(report: &mut Report, rule: &FileRule, limit: &RuleLimit, at: &LimitSpans) {
    let Some(part) = limit.key.parts().iter().find(|part| is_never_present(rule, part)) else { return };
    let effect = match limit.missing {
        OnMissingKey::Skip => "the limit never applies",
        OnMissingKey::Deny => "every request is denied",
        OnMissingKey::Shared if limit.key.parts().len() == 1 => "all share one counter",
        OnMissingKey::Shared => "it tells nobody apart",
    };
    let message = format!("the rule matches only what lacks `{part}`, so {effect}");
    let found = Diagnostic::warning("key-absent", at.key, message);
    report.push(found.hint("leave it out of the key, or change what the rule matches"));
}

/// Whether what the rule matches never has this part of a key.
fn is_never_present(rule: &FileRule, part: &KeyPart) -> bool {
    let attribute = match part {
        KeyPart::Attribute(attribute) => attribute,
        KeyPart::Ip { .. } => &Attribute::Ip,
        KeyPart::PathSegment { index: place, .. } => {
            return rule.rule.conditions.iter().any(|one| match &one.pattern {
                Pattern::Path(path) => !path.is_open_ended() && *place >= path.segments().len(),
                Pattern::Exact(path) if one.attribute == Attribute::Path => {
                    path_segment(path, *place).is_none()
                }
                _ => false,
            });
        }
        KeyPart::Entry(_) => return false,
    };
    let mut conditions = rule.rule.conditions.iter();
    let denied = conditions.any(|one| one.attribute == *attribute && one.pattern == Pattern::Absent);
    let lacks =
        |entries: &EntryPatterns| !entries.allows_more && !entries.patterns.iter().any(|(name, _)| attribute.matches_key(name));
    denied || rule.rule.entries.as_ref().is_some_and(lacks)
}

/// The attributes of a key; the address is one.
fn key_attributes(key: &KeySpec) -> impl Iterator<Item = &Attribute> {
    key.parts().iter().filter_map(|part| match part {
        KeyPart::Attribute(attribute) => Some(attribute),
        KeyPart::Ip { .. } => Some(&Attribute::Ip),
        KeyPart::PathSegment { .. } | KeyPart::Entry(_) => None,
    })
}

/// Whether what the rule matches has this attribute.
fn is_always_present(rule: &FileRule, attribute: &Attribute) -> bool {
    let is_entry = |entries: &EntryPatterns| entries.patterns.iter().any(|(name, _)| attribute.matches_key(name));
    let mut conditions = rule.rule.conditions.iter();
    let is_there = |pattern: &Pattern| !matches!(pattern, Pattern::Not(_) | Pattern::Absent);
    rule.rule.entries.as_ref().is_some_and(is_entry)
        || conditions.any(|one| one.attribute == *attribute && is_there(&one.pattern))
}

/// A candidate that is one of the limits tells nothing new.
fn lint_identical_candidate(report: &mut Report, rule: &FileRule) {
    let (Some(candidate), Some(at)) = (&rule.rule.candidate, &rule.spans.candidate) else { return };
    let RuleLimits::Same(limits) = &rule.rule.limits else { return };
    let same = |limit: &RuleLimit| {
        // A limit that lets requests pass is charged for them, which a candidate is not.
        matches!(limit.action, Action::Reject | Action::ShadowBan)
            && spec_without_name(&limit.limit) == spec_without_name(&candidate.limit)
            && (&limit.key, &limit.cost, limit.missing)
                == (&candidate.key, &candidate.cost, candidate.missing)
    };
    let Some(twin) = limits.iter().position(same) else { return };
    let found =
        Diagnostic::warning("candidate-identical", at.limit, "the candidate is the same as the limit");
    let found = match rule.spans.limits.get(twin) {
        Some(limit) => found.related(limit.limit, "this limit"),
        None => found,
    };
    report.push(found.hint("change it to the limit to try out, or remove it"));
}

fn spec_without_name(limit: &Limit) -> LimitSpec {
    LimitSpec { name: None, ..limit.spec() }
}
