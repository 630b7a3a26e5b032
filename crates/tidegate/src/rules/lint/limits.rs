//! Limits that admit nothing, count nothing, or let somebody past.

use tidegate_core::rules::{Action, Attribute, CostFrom, Key, KeyPart, Limits, Missing, Pattern, RuleLimit};
use tidegate_core::{Limit, LimitSpec};

use super::super::diagnostic::{Diagnostic, Report};
use super::super::file::{FileRule, LimitSpans};

pub(super) fn lint(report: &mut Report, rule: &FileRule) {
    let candidate = rule.rule.candidate.iter().zip(rule.at.candidate.iter());
    for (limit, at) in super::lists(rule).into_iter().flatten().chain(candidate) {
        admits_nothing(report, limit, at);
        costs_nothing(report, limit, at);
        let bypassed = bypass(report, rule, limit, at);
        if !bypassed {
            key_is_absent(report, rule, limit, at);
        }
    }
    candidate_is_the_limit(report, rule);
}

fn admits_nothing(report: &mut Report, limit: &RuleLimit, at: &LimitSpans) {
    if limit.limit.rate().limit() == 0 {
        let found = Diagnostic::warning("limit-zero", at.limit, "a limit of 0 admits nothing");
        return report.push(found.hint("remove the limit if nothing is to be limited: `limit: unlimited`"));
    }
    let (CostFrom::Fixed(cost), Some(most)) = (&limit.cost, most_at_once(limit)) else { return };
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

fn costs_nothing(report: &mut Report, limit: &RuleLimit, at: &LimitSpans) {
    if limit.cost == CostFrom::Fixed(0) {
        let found = Diagnostic::warning("cost-zero", at.cost, "a cost of 0 is never counted");
        report.push(found.hint("write 1 or more, or remove the limit"));
    }
}

/// The most that can be admitted at one instant, of a limit over which requests are denied.
fn most_at_once(limit: &RuleLimit) -> Option<u64> {
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

/// A client that leaves the header out is not limited. That is fine for a limit that only looks on.
fn bypass(report: &mut Report, rule: &FileRule, limit: &RuleLimit, at: &LimitSpans) -> bool {
    if limit.missing != Missing::Skip || limit.action != Action::Reject {
        return false;
    }
    let header = attributes(&limit.key)
        .find(|attribute| matches!(attribute, Attribute::Header(_)) && !is_certain(rule, attribute));
    let Some(header) = header else { return false };
    let message = format!("whoever leaves `{header}` out is not limited");
    let found = Diagnostic::warning("bypass", at.key, message);
    report.push(found.hint("write `missing: deny` or `missing: shared`, or match `{ exists: true }`"));
    true
}

/// The key is made of what the rule says is not there.
fn key_is_absent(report: &mut Report, rule: &FileRule, limit: &RuleLimit, at: &LimitSpans) {
    let absent = |attribute: &&Attribute| {
        let mut conditions = rule.rule.conditions.iter();
        conditions.any(|one| one.attribute == **attribute && one.pattern == Pattern::Absent)
    };
    let Some(attribute) = attributes(&limit.key).find(absent) else { return };
    let effect = match limit.missing {
        Missing::Skip => "the limit never applies",
        Missing::Deny => "every request is denied",
        Missing::Shared => "all share one counter",
    };
    let message = format!("the rule matches only what lacks `{attribute}`, so {effect}");
    let found = Diagnostic::warning("key-absent", at.key, message);
    report.push(found.hint("leave it out of the key, or change what the rule matches"));
}

/// The attributes of a key; the address is one.
fn attributes(key: &Key) -> impl Iterator<Item = &Attribute> {
    key.parts().iter().filter_map(|part| match part {
        KeyPart::Attribute(attribute) => Some(attribute),
        KeyPart::Ip { .. } => Some(&Attribute::Ip),
        KeyPart::PathSegment { .. } | KeyPart::Entry(_) => None,
    })
}

/// Whether what the rule matches has this attribute.
fn is_certain(rule: &FileRule, attribute: &Attribute) -> bool {
    let mut conditions = rule.rule.conditions.iter();
    conditions
        .any(|one| one.attribute == *attribute && !matches!(one.pattern, Pattern::Not(_) | Pattern::Absent))
}

/// A candidate that is one of the limits tells nothing new.
fn candidate_is_the_limit(report: &mut Report, rule: &FileRule) {
    let (Some(candidate), Some(at)) = (&rule.rule.candidate, &rule.at.candidate) else { return };
    let Limits::Same(limits) = &rule.rule.limits else { return };
    let same = |limit: &RuleLimit| {
        nameless(&limit.limit) == nameless(&candidate.limit)
            && (&limit.key, &limit.cost, limit.missing)
                == (&candidate.key, &candidate.cost, candidate.missing)
    };
    let Some(twin) = limits.iter().position(same) else { return };
    let found =
        Diagnostic::warning("candidate-identical", at.limit, "the candidate is the same as the limit");
    let found = match rule.at.limits.get(twin) {
        Some(limit) => found.related(limit.limit, "this limit"),
        None => found,
    };
    report.push(found.hint("change it to the limit to try out, or remove it"));
}

fn nameless(limit: &Limit) -> LimitSpec {
    LimitSpec { name: None, ..limit.spec() }
}
