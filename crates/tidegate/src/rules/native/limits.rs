//! Reads the limits of a rule: one, several, or by plan.

use std::collections::HashMap;

use tidegate_core::LimitId;
use tidegate_core::rules::{RuleLimit, RuleLimits};

use super::key::KeyScope;
use super::limit::{self, ParsedLimit};
use super::limit_settings::LimitSettings;
use super::tiers;
use crate::rules::Span;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::LimitSpans;
use crate::rules::yaml::{Fields, Node, NodeKind, Reader};

/// Limits of one rule at most, or of one plan if the rule has plans.
pub const LIMITS_PER_RULE_MAX: usize = 32;

/// The word for a rule without limits.
pub(super) const UNLIMITED: &str = "unlimited";

/// `limit`, `limits` or `tiers`, with the position of each limit.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &mut Fields<'_>,
    settings: &LimitSettings,
    scope: &KeyScope,
) -> Option<(RuleLimits, Vec<LimitSpans>)> {
    let rule = fields.span();
    let given: Vec<_> =
        ["limit", "limits", "tiers"].iter().filter_map(|name| Some((*name, fields.take(name)?))).collect();
    let (name, field) = match given[..] {
        [field] => field,
        [] => {
            let diagnostic = Diagnostic::error("missing-field", rule, "the rule has no limits");
            reader.push(diagnostic.hint(
                "add for example `limit: 100 per minute`, `limit: unlimited` or `limit: deny`, or `exempt: true`",
            ));
            return None;
        }
        [(first, first_field), (second, second_field), ..] => {
            let message = format!("`{first}` and `{second}` exclude each other");
            let diagnostic = Diagnostic::error("contradiction", second_field.key.span, message);
            reader.push(diagnostic.related(first_field.key.span, "the first").hint("leave one of them out"));
            return None;
        }
    };
    if name == "tiers" {
        return tiers::read(reader, field.value, settings, scope);
    }
    if let (true, NodeKind::Seq(_)) = (name == "limit", &field.value.kind) {
        reader.wrong_type_hint(field.value, "one limit", "write `limits` for several");
        return None;
    }
    let limits = read_list(reader, field.value, settings, scope)?;
    let (limits, spans) = split_spans(limits);
    Some((RuleLimits::Same(limits), spans))
}

/// `unlimited`, one limit, or a list of limits.
pub(super) fn read_list(
    reader: &mut Reader<'_>,
    node: &Node,
    settings: &LimitSettings,
    scope: &KeyScope,
) -> Option<Vec<ParsedLimit>> {
    if node.text() == Some(UNLIMITED) {
        return Some(Vec::new());
    }
    let nodes = reader.one_or_more(node);
    let error = match nodes.len() {
        0 => Some(("missing-field", "the list of limits is empty".to_owned())),
        1..=LIMITS_PER_RULE_MAX => None,
        many => Some(("too-many-limits", format!("{many} limits are too many"))),
    };
    if let Some((code, message)) = error {
        let hint = match code {
            "too-many-limits" => format!("a rule can have at most {LIMITS_PER_RULE_MAX}"),
            _ => format!("write `{UNLIMITED}` instead of the list if that is intended"),
        };
        reader.push(Diagnostic::error(code, node.span, message).hint(hint));
        return None;
    }
    let limits: Vec<ParsedLimit> =
        nodes.iter().filter_map(|node| limit::read(reader, node, settings, scope)).collect();
    check_unique_names(reader, &limits);
    if limits.len() == nodes.len() {
        check_unique_counters(reader, &limits);
    }
    (limits.len() == nodes.len()).then_some(limits)
}

/// Splits limits from their positions.
pub(super) fn split_spans(limits: Vec<ParsedLimit>) -> (Vec<RuleLimit>, Vec<LimitSpans>) {
    limits.into_iter().map(|limit| (limit.limit, limit.spans)).unzip()
}

/// Reports two limits with the same counters: one was what the other is.
fn check_unique_counters(reader: &mut Reader<'_>, limits: &[ParsedLimit]) {
    let mut first_limits: HashMap<LimitId, &ParsedLimit> = HashMap::new();
    for (index, limit) in limits.iter().enumerate() {
        let counter_id = limit.limit.counter_id(index);
        let Some(first) = first_limits.insert(counter_id, limit) else { continue };
        if limit.limit.was.is_some() || first.limit.was.is_some() {
            let message = "two limits cannot have the same counters";
            let diagnostic = Diagnostic::error("same-counters", limit.spans.limit, message);
            let diagnostic = diagnostic.related(first.spans.limit, "the other");
            reader
                .push(diagnostic.hint("`was` must be a former name or position that no other limit has now"));
        }
    }
}

fn check_unique_names(reader: &mut Reader<'_>, limits: &[ParsedLimit]) {
    let mut first_spans: HashMap<&str, Span> = HashMap::new();
    for limit in limits {
        let (Some(name), Some(span)) = (limit.limit.limit.name(), limit.name_span) else { continue };
        if let Some(first) = first_spans.insert(name, span) {
            let diagnostic =
                Diagnostic::error("duplicate-name", span, format!("two limits are named `{name}`"));
            reader.push(diagnostic.related(first, "first here").hint("choose another name"));
        }
    }
}
