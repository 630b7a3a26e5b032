//! Rules that never apply in a domain where the first rule that matches applies.
//!
//! A rule is unreachable if all conditions of an earlier rule are among its own, or if the earlier rule only
//! needs an attribute to exist where this one needs a value. Earlier rules are found by their conditions, so
//! a hundred thousand rules take a hundred thousand lookups of a few sets each.

use std::collections::HashMap;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};
use tidegate_core::rules::{Apply, Condition, Pattern};

use crate::rules::Span;
use crate::rules::diagnostic::{Diagnostic, Report};
use crate::rules::file::{FileRule, RulesFile};
use crate::rules::yaml::printable;

/// For a rule with more conditions, not every subset is looked up.
const CONDITIONS_ALL_SUBSETS_MAX: usize = 5;

pub(super) fn lint(report: &mut Report, file: &RulesFile) {
    if file.apply.map(|apply| apply.value).unwrap_or_default() != Apply::First {
        return;
    }
    // The conditions of each rule, and the first rule that has them.
    let mut first: HashMap<Vec<ConditionDigest>, (&str, Span)> = HashMap::new();
    for rule in &file.rules {
        let sets = covering_sets(rule);
        let cover = sets.iter().find_map(|set| Some((first.get(set)?, set.is_empty())));
        if let Some(((name, at), matches_all)) = cover {
            warn_unreachable(report, rule, (name, *at), matches_all);
        }
        first.entry(condition_set(rule)).or_insert((&rule.rule.name, rule.spans.name));
    }
}

fn warn_unreachable(report: &mut Report, rule: &FileRule, cover: (&str, Span), matches_all: bool) {
    let message = format!("rule `{}` never applies", printable(&rule.rule.name));
    let label = if matches_all {
        format!("`{}` matches everything and comes first", printable(cover.0))
    } else {
        format!("`{}` matches all that this rule matches and comes first", printable(cover.0))
    };
    let diagnostic = Diagnostic::warning("never-applies", rule.spans.name, message).related(cover.1, label);
    report.push(
        diagnostic.hint("only the first rule that matches applies: move this one before it, or remove it"),
    );
}

/// The conditions of the rule itself.
fn condition_set(rule: &FileRule) -> Vec<ConditionDigest> {
    match &rule.rule.entries {
        Some(entries) => vec![digest(&format!("entries {entries:?}"))],
        None => sorted(rule.rule.conditions.iter().map(condition_digest).collect()),
    }
}

/// The sets of conditions with which an earlier rule matches whenever this one does.
fn covering_sets(rule: &FileRule) -> Vec<Vec<ConditionDigest>> {
    let conditions = &rule.rule.conditions;
    if rule.rule.entries.is_some() {
        return vec![Vec::new(), condition_set(rule)];
    }
    if conditions.len() > CONDITIONS_ALL_SUBSETS_MAX {
        let each = conditions.iter().map(|condition| vec![condition_digest(condition)]);
        return std::iter::once(Vec::new()).chain(each).chain([condition_set(rule)]).collect();
    }
    let mut sets = vec![Vec::new()];
    for condition in conditions {
        let with = |added: ConditionDigest| {
            move |set: &Vec<ConditionDigest>| sorted(set.iter().copied().chain([added]).collect())
        };
        let mut longer: Vec<Vec<ConditionDigest>> =
            sets.iter().map(with(condition_digest(condition))).collect();
        if needs_value(&condition.pattern) {
            let any = Condition { attribute: condition.attribute.clone(), pattern: Pattern::Any };
            longer.extend(sets.iter().map(with(condition_digest(&any))));
        }
        sets.extend(longer);
    }
    sets
}

/// Whether it matches only if the attribute exists, and needs more than that.
fn needs_value(pattern: &Pattern) -> bool {
    !matches!(pattern, Pattern::Any | Pattern::Not(_) | Pattern::Absent)
}

/// A digest of a condition: a set of a hundred thousand values is in a few hundred of these lists.
type ConditionDigest = u128;

fn condition_digest(condition: &Condition) -> ConditionDigest {
    digest(&format!("{:?} {:?}", condition.attribute, condition.pattern))
}

fn digest(text: &str) -> ConditionDigest {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish128().as_u128()
}

fn sorted(mut set: Vec<ConditionDigest>) -> Vec<ConditionDigest> {
    set.sort_unstable();
    set
}
