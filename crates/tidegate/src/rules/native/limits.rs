//! The limits of a rule: one, several, or by plan.

use std::collections::HashMap;

use tidegate_core::rules::{LimitId, RuleLimits, RuleLimit};

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::super::file::LimitSpans;
use super::super::reader::{Fields, Reader};
use super::super::yaml::{NodeKind, Node};
use super::key::KeyScope;
use super::limit::{self, ParsedLimit};
use super::limit_settings::LimitSettings;
use super::tiers;

/// The most limits of one rule; of one plan, where it has plans.
pub const LIMITS_PER_RULE_MAX: usize = 32;

/// What a rule without limits is written as.
const UNLIMITED: &str = "unlimited";

/// `limit`, `limits` or `tiers`, and where each of the limits stands.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &mut Fields<'_>,
    terms: &LimitSettings,
    scope: &KeyScope,
) -> Option<(RuleLimits, Vec<LimitSpans>)> {
    let rule = fields.span();
    let given: Vec<_> =
        ["limit", "limits", "tiers"].iter().filter_map(|name| Some((*name, fields.take(name)?))).collect();
    let (name, field) = match given[..] {
        [one] => one,
        [] => {
            let found = Diagnostic::error("missing-field", rule, "the rule has no limits");
            reader.push(found.hint("add for example `limit: 100 per minute`, or `limit: unlimited`"));
            return None;
        }
        [(first, one), (second, other), ..] => {
            let message = format!("`{first}` and `{second}` do not go together");
            let found = Diagnostic::error("contradiction", other.key.span, message);
            reader.push(found.related(one.key.span, "the first").hint("leave one of them out"));
            return None;
        }
    };
    if name == "tiers" {
        return tiers::read(reader, field.value, terms, scope);
    }
    if let (true, NodeKind::Seq(_)) = (name == "limit", &field.value.kind) {
        reader.wrong_type_hint(field.value, "one limit", "write `limits` for several");
        return None;
    }
    let read = read_list(reader, field.value, terms, scope)?;
    let (limits, at) = split_spans(read);
    Some((RuleLimits::Same(limits), at))
}

/// `unlimited`, one limit, or a list of them.
pub(super) fn read_list(
    reader: &mut Reader<'_>,
    node: &Node,
    terms: &LimitSettings,
    scope: &KeyScope,
) -> Option<Vec<ParsedLimit>> {
    if node.text() == Some(UNLIMITED) {
        return Some(Vec::new());
    }
    let nodes = reader.one_or_more(node);
    let refused = match nodes.len() {
        0 => Some(("missing-field", "the list of limits is empty".to_owned())),
        1..=LIMITS_PER_RULE_MAX => None,
        many => Some(("too-many-limits", format!("{many} limits are too many"))),
    };
    if let Some((code, message)) = refused {
        let hint = match code {
            "too-many-limits" => format!("a rule has {LIMITS_PER_RULE_MAX} at most"),
            _ => format!("write `{UNLIMITED}` instead of the list if that is meant"),
        };
        reader.push(Diagnostic::error(code, node.span, message).hint(hint));
        return None;
    }
    let read: Vec<ParsedLimit> =
        nodes.iter().filter_map(|node| limit::read(reader, node, terms, scope)).collect();
    check_unique_names(reader, &read);
    if read.len() == nodes.len() {
        check_unique_counters(reader, &read);
    }
    (read.len() == nodes.len()).then_some(read)
}

/// Limits, and where they stand.
pub(super) fn split_spans(read: Vec<ParsedLimit>) -> (Vec<RuleLimit>, Vec<LimitSpans>) {
    read.into_iter().map(|read| (read.limit, read.spans)).unzip()
}

/// No two limits have the same counters: what one of them was is not what another one is.
fn check_unique_counters(reader: &mut Reader<'_>, read: &[ParsedLimit]) {
    let mut seen: HashMap<LimitId, &ParsedLimit> = HashMap::new();
    for (place, one) in read.iter().enumerate() {
        let known_by = one.limit.counter_id(place);
        let Some(first) = seen.insert(known_by, one) else { continue };
        if one.limit.was.is_some() || first.limit.was.is_some() {
            let message = "two limits cannot have the same counters";
            let found = Diagnostic::error("same-counters", one.spans.limit, message);
            let found = found.related(first.spans.limit, "the other");
            reader.push(found.hint("`was` is what one limit was called, or its place, and no other is now"));
        }
    }
}

fn check_unique_names(reader: &mut Reader<'_>, read: &[ParsedLimit]) {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for one in read {
        let (Some(name), Some(at)) = (one.limit.limit.name(), one.name_span) else { continue };
        if let Some(first) = seen.insert(name, at) {
            let found = Diagnostic::error("duplicate-name", at, format!("two limits are named `{name}`"));
            reader.push(found.related(first, "first here").hint("names tell limits apart; choose another"));
        }
    }
}
