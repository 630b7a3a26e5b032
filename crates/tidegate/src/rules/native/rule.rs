//! Reads a rule.

use tidegate_core::LimitSpec;
use tidegate_core::rules::{
    Action, ElasticSource, Metadata, MetadataValue, OnOverrideMiss, Overridable, Rule, RuleLimit, RuleLimits,
};

use super::key::KeyScope;
use super::limit_settings::LimitSettings;
use super::{StoreSettings, conditions, entries, limit, limits};
use crate::rules::Span;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::{FileRule, LimitSpans, RuleSpans, Spanned};
use crate::rules::yaml::{self, Field, Fields, Node, NodeKind, Reader, printable};

/// Former names of a rule at most.
const WAS_MAX: usize = 32;

/// Reads a rule as far as possible: what other rules refer to is there even if its limits are wrong.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<FileRule> {
    let mut fields = Fields::of(reader, node, "a rule")?;
    let mut file_rule = FileRule { rule: Rule::default(), spans: RuleSpans::whole(node.span) };
    let name = fields.required(reader, "name", "give every rule its own name: `name: login`");
    let name = name.and_then(|node| Some(Spanned { value: super::name(reader, node)?, span: node.span }));
    read_names(reader, fields.value("was"), WAS_MAX, &mut file_rule.rule.was, &mut file_rule.spans.was);
    let scope = read_match(reader, &mut fields, &mut file_rule);
    let settings = LimitSettings::default().override_with(reader, &mut fields, &scope);
    if is_exemption(reader, &mut fields) {
        file_rule.rule.is_exemption = true;
        report_limits_of_exemption(reader, &mut fields);
    } else if let Some((limits, spans)) = limits::read(reader, &mut fields, &settings, &scope) {
        file_rule.rule.limits = limits;
        file_rule.spans.limits = spans;
    }
    if let Some(node) = fields.value("candidate") {
        read_candidate(reader, node, &settings, &scope, &mut file_rule);
    }
    read_names(
        reader,
        fields.value("replaces"),
        usize::MAX,
        &mut file_rule.rule.replaces,
        &mut file_rule.spans.replaces,
    );
    if let Some(node) = fields.value("metadata") {
        file_rule.rule.metadata = read_metadata(reader, node);
    }
    file_rule.spans.on_store_failure = node.get("on_store_failure").map(|value| value.span);
    let store_settings = StoreSettings::read(reader, &mut fields);
    store_settings.mode.check_limits(reader, file_rule.all_limits_and_candidate());
    store_settings.apply(&mut file_rule.rule);
    read_override_settings(reader, &mut fields, &mut file_rule.rule);
    report_misplaced_limit_options(reader, &mut fields);
    fields.finish(reader, "a rule");
    let Spanned { value, span } = name?;
    (file_rule.rule.name, file_rule.spans.name) = (value.into(), span);
    Some(file_rule)
}

/// Whether single keys of the rule may have overrides, and what happens until they are loaded.
fn read_override_settings(reader: &mut Reader<'_>, fields: &mut Fields<'_>, rule: &mut Rule) {
    if let Some(false) = fields.value("overrides").and_then(|node| reader.boolean(node)) {
        rule.overridable = Overridable::No;
    }
    if let Some(node) = fields.value("override_miss") {
        let keywords = [("wait", OnOverrideMiss::Wait), ("default", OnOverrideMiss::Default)];
        rule.on_override_miss =
            reader.keyword("value of `override_miss`", node, &keywords).unwrap_or_default();
    }
}

fn is_exemption(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> bool {
    fields.value("exempt").and_then(|node| reader.boolean(node)).unwrap_or(false)
}

/// An exemption limits nothing, so a limit beside it is a mistake.
fn report_limits_of_exemption(reader: &mut Reader<'_>, fields: &mut Fields<'_>) {
    let of_limits = ["limit", "limits", "tiers", "candidate", "key", "missing", "cost", "action", "replaces"];
    for name in of_limits {
        let Some(field) = fields.take_unlisted(name) else { continue };
        let message = format!("a rule with `exempt: true` has no `{name}`");
        let hint = "no other rule applies to its requests, and it limits nothing; leave one of the two out";
        reader.push(Diagnostic::error("contradiction", field.key.span, message).hint(hint));
    }
}

/// `match` or `entries`, and what keys may refer to.
fn read_match(reader: &mut Reader<'_>, fields: &mut Fields<'_>, file_rule: &mut FileRule) -> KeyScope {
    match (fields.take("match"), fields.take("entries")) {
        (Some(Field { key: first, .. }), Some(Field { key, .. })) => {
            let diagnostic =
                Diagnostic::error("contradiction", key.span, "`match` and `entries` exclude each other");
            reader.push(diagnostic.related(first.span, "the first").hint("leave one of them out"));
            KeyScope::default()
        }
        (Some(Field { value, .. }), None) => {
            let conditions = conditions::read(reader, value);
            let scope = KeyScope::from_paths(conditions::path_patterns(&conditions));
            for condition in conditions {
                file_rule.rule.conditions.push(condition.value);
                file_rule.spans.conditions.push(condition.span);
            }
            scope
        }
        (None, Some(Field { value, .. })) => {
            file_rule.rule.entries = entries::read(reader, value);
            file_rule
                .rule
                .entries
                .as_ref()
                .map(|entries| KeyScope::from_entries(entries::count(entries)))
                .unwrap_or_default()
        }
        (None, None) => KeyScope::default(),
    }
}

/// One name or several, with their positions.
fn read_names(
    reader: &mut Reader<'_>,
    node: Option<&Node>,
    max: usize,
    names: &mut Vec<Box<str>>,
    spans: &mut Vec<Span>,
) {
    let Some(node) = node else { return };
    let nodes = reader.one_or_more(node);
    if nodes.len() > max {
        let diagnostic =
            Diagnostic::error("too-many-names", node.span, format!("{} names are too many", nodes.len()));
        return reader.push(diagnostic.hint(format!("the maximum is {max}; the oldest name is enough")));
    }
    for node in nodes {
        if let Some(name) = super::name(reader, node) {
            names.push(name.into());
            spans.push(node.span);
        }
    }
}

/// A limit that is only reported. A candidate does nothing, whatever the rule does over its limits.
fn read_candidate(
    reader: &mut Reader<'_>,
    node: &Node,
    settings: &LimitSettings,
    scope: &KeyScope,
    file_rule: &mut FileRule,
) {
    let own_action = node.get("action");
    if let Some(action) = own_action.filter(|action| action.text() != Some("reject")) {
        let message = "a candidate has no action other than `reject`";
        let diagnostic = Diagnostic::error("contradiction", action.span, message);
        return reader.push(
            diagnostic.hint("leave it out: a candidate is evaluated and reported, and denies nothing"),
        );
    }
    if let NodeKind::Seq(_) = &node.kind {
        return reader.wrong_type_hint(node, "one limit", "a rule has at most one candidate");
    }
    let settings = settings.clone().without_action();
    if let Some(limit) = limit::read(reader, node, &settings, scope) {
        file_rule.rule.candidate = Some(limit.limit);
        file_rule.spans.candidate = Some(limit.spans);
    }
}

fn read_metadata(reader: &mut Reader<'_>, node: &Node) -> Metadata {
    // Reports any other value.
    let _ = reader.mapping(node);
    yaml::read_metadata(reader, node, |text| match text {
        "true" | "True" | "TRUE" => Some(MetadataValue::Boolean(true)),
        "false" | "False" | "FALSE" => Some(MetadataValue::Boolean(false)),
        _ => yaml::decimal(text).map(MetadataValue::Number),
    })
}

/// `per` beside `limit` is an easy mistake, and "a rule has no field `per`" would not help.
fn report_misplaced_limit_options(reader: &mut Reader<'_>, fields: &mut Fields<'_>) {
    for option in LimitSpec::FIELDS.into_iter().filter(|field| !["limit", "name"].contains(field)) {
        let Some(field) = fields.take_unlisted(option) else { continue };
        let message = format!("`{option}` belongs to a limit, not to the rule");
        let value = field.value.text().map_or_else(|| "...".to_owned(), printable);
        let hint = format!("write `limit: {{ limit: ..., {option}: {value} }}`");
        reader.push(Diagnostic::error("unknown-field", field.key.span, message).hint(hint));
    }
}

impl FileRule {
    /// Every limit that has a position: those of all plans, of the default, and the candidate.
    fn all_limits_and_candidate(&self) -> impl Iterator<Item = (&RuleLimit, &LimitSpans)> {
        let limits = self.all_limits().filter_map(|(limit, at)| Some((limit, at?)));
        limits.chain(self.rule.candidate.iter().zip(&self.spans.candidate))
    }

    /// Every limit with its position: those of all plans and of the default.
    pub(crate) fn all_limits(&self) -> impl Iterator<Item = (&RuleLimit, Option<&LimitSpans>)> {
        let limits: Vec<&RuleLimit> = match &self.rule.limits {
            RuleLimits::Same(limits) => limits.iter().collect(),
            RuleLimits::Tiers(tiers) => {
                tiers.plans.iter().flat_map(|(_, limits)| limits).chain(&tiers.default).collect()
            }
        };
        let spans = self.spans.limits.iter().map(Some).chain(std::iter::repeat(None));
        limits.into_iter().zip(spans)
    }

    /// The pools that its limits refer to.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (&str, Span)> {
        self.all_limits().filter_map(|(limit, at)| match &limit.action {
            Action::Elastic(elastic) => match &elastic.source {
                ElasticSource::Pool(name) => Some((&**name, at.map_or(self.spans.rule, |at| at.action))),
                ElasticSource::Signal(_) => None,
            },
            _ => None,
        })
    }
}
