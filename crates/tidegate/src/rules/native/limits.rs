//! The limits of a rule: one, several, or by plan.

use std::collections::HashMap;

use tidegate_core::rules::{LimitId, Limits, RuleLimit};

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::super::file::LimitSpans;
use super::super::reader::{Fields, Reader};
use super::super::yaml::{Kind, Node};
use super::key::Scope;
use super::limit::{self, ReadLimit};
use super::terms::Terms;
use super::tiers;

/// The most limits of one rule; of one plan, where it has plans.
pub const LIMITS_PER_RULE_MAX: usize = 32;

/// What a rule without limits is written as.
const UNLIMITED: &str = "unlimited";

/// `limit`, `limits` or `tiers`, and where each of the limits stands.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &mut Fields<'_>,
    terms: &Terms,
    scope: &Scope,
) -> Option<(Limits, Vec<LimitSpans>)> {
    let rule = fields.span();
    let given: Vec<_> =
        ["limit", "limits", "tiers"].iter().filter_map(|name| Some((*name, fields.take(name)?))).collect();
    let (name, field) = match given[..] {
        [one] => one,
        [] => {
            let found = Diagnostic::error("missing-field", rule, "the rule has no limits");
            reader.note(found.hint("add for example `limit: 100 per minute`, or `limit: unlimited`"));
            return None;
        }
        [(first, one), (second, other), ..] => {
            let message = format!("`{first}` and `{second}` do not go together");
            let found = Diagnostic::error("contradiction", other.key.span, message);
            reader.note(found.related(one.key.span, "the first").hint("leave one of them out"));
            return None;
        }
    };
    if name == "tiers" {
        return tiers::read(reader, field.value, terms, scope);
    }
    if let (true, Kind::Seq(_)) = (name == "limit", &field.value.kind) {
        reader.wrong_type_hint(field.value, "one limit", "write `limits` for several");
        return None;
    }
    let read = list(reader, field.value, terms, scope)?;
    let (limits, at) = split(read);
    Some((Limits::Same(limits), at))
}

/// `unlimited`, one limit, or a list of them.
pub(super) fn list(
    reader: &mut Reader<'_>,
    node: &Node,
    terms: &Terms,
    scope: &Scope,
) -> Option<Vec<ReadLimit>> {
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
        reader.note(Diagnostic::error(code, node.span, message).hint(hint));
        return None;
    }
    let read: Vec<ReadLimit> =
        nodes.iter().filter_map(|node| limit::read(reader, node, terms, scope)).collect();
    names_once(reader, &read);
    if read.len() == nodes.len() {
        known_once(reader, &read);
    }
    (read.len() == nodes.len()).then_some(read)
}

/// Limits, and where they stand.
pub(super) fn split(read: Vec<ReadLimit>) -> (Vec<RuleLimit>, Vec<LimitSpans>) {
    read.into_iter().map(|read| (read.limit, read.at)).unzip()
}

/// No two limits have the same counters: what one of them was is not what another one is.
fn known_once(reader: &mut Reader<'_>, read: &[ReadLimit]) {
    let mut seen: HashMap<LimitId, &ReadLimit> = HashMap::new();
    for (place, one) in read.iter().enumerate() {
        let known_by = one.limit.identity(place);
        let Some(first) = seen.insert(known_by, one) else { continue };
        if one.limit.was.is_some() || first.limit.was.is_some() {
            let message = "two limits cannot have the same counters";
            let found = Diagnostic::error("same-counters", one.at.limit, message);
            let found = found.related(first.at.limit, "the other");
            reader.note(found.hint("`was` is what one limit was called, or its place, and no other is now"));
        }
    }
}

fn names_once(reader: &mut Reader<'_>, read: &[ReadLimit]) {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for one in read {
        let (Some(name), Some(at)) = (one.limit.limit.name(), one.name) else { continue };
        if let Some(first) = seen.insert(name, at) {
            let found = Diagnostic::error("duplicate-name", at, format!("two limits are named `{name}`"));
            reader.note(found.related(first, "first here").hint("names tell limits apart; choose another"));
        }
    }
}
