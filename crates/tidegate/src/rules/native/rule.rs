//! A rule.

use tidegate_core::LimitSpec;
use tidegate_core::rules::{Action, ElasticSource, RuleLimits, Rule, RuleLimit};

use super::super::diagnostic::Diagnostic;
use super::super::file::{FileRule, LimitSpans, RuleSpans, Spanned};
use super::super::reader::{Field, Fields, Reader};
use super::super::yaml::{NodeKind, Node, printable};
use super::key::KeyScope;
use super::limit_settings::LimitSettings;
use super::{StoreSettings, entries, limit, limits, conditions};

/// The most names and values that a rule carries along.
const METADATA_MAX: usize = 64;
/// The most names that a rule had.
const WAS_MAX: usize = 32;

/// A rule, as far as it can be made out: what others refer to is there even if its limits are not.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<FileRule> {
    let mut fields = Fields::of(reader, node, "a rule")?;
    let mut read = FileRule { rule: Rule::default(), spans: RuleSpans::whole(node.span) };
    let name = fields.required(reader, "name", "every rule has a name of its own: `name: login`");
    let name = name.and_then(|node| Some(Spanned { value: super::name(reader, node)?, span: node.span }));
    read_names(reader, fields.value("was"), WAS_MAX, &mut read.rule.was, &mut read.spans.was);
    let scope = read_match(reader, &mut fields, &mut read);
    let terms = LimitSettings::default().override_with(reader, &mut fields, &scope);
    if let Some((limits, at)) = limits::read(reader, &mut fields, &terms, &scope) {
        read.rule.limits = limits;
        read.spans.limits = at;
    }
    if let Some(node) = fields.value("candidate") {
        read_candidate(reader, node, &terms, &scope, &mut read);
    }
    read_names(reader, fields.value("replaces"), usize::MAX, &mut read.rule.replaces, &mut read.spans.replaces);
    if let Some(node) = fields.value("metadata") {
        read.rule.metadata = read_metadata(reader, node);
    }
    read.spans.on_store_failure = node.get("on_store_failure").map(|said| said.span);
    StoreSettings::read(reader, &mut fields).apply(&mut read.rule);
    report_misplaced_limit_options(reader, &mut fields);
    fields.finish(reader, "a rule");
    let Spanned { value, span } = name?;
    (read.rule.name, read.spans.name) = (value.into(), span);
    Some(read)
}

/// `match` or `entries`, and what keys may refer to.
fn read_match(reader: &mut Reader<'_>, fields: &mut Fields<'_>, read: &mut FileRule) -> KeyScope {
    match (fields.take("match"), fields.take("entries")) {
        (Some(Field { key: first, .. }), Some(Field { key, .. })) => {
            let found =
                Diagnostic::error("contradiction", key.span, "`match` and `entries` do not go together");
            reader.push(found.related(first.span, "the first").hint("leave one of them out"));
            KeyScope::default()
        }
        (Some(Field { value, .. }), None) => {
            let conditions = conditions::read(reader, value);
            let scope = KeyScope::from_paths(conditions::path_patterns(&conditions));
            for condition in conditions {
                read.rule.conditions.push(condition.value);
                read.spans.conditions.push(condition.span);
            }
            scope
        }
        (None, Some(Field { value, .. })) => {
            read.rule.entries = entries::read(reader, value);
            read.rule
                .entries
                .as_ref()
                .map(|entries| KeyScope::from_entries(entries::count(entries)))
                .unwrap_or_default()
        }
        (None, None) => KeyScope::default(),
    }
}

/// One name or several, and where they stand.
fn read_names(
    reader: &mut Reader<'_>,
    node: Option<&Node>,
    max: usize,
    names: &mut Vec<Box<str>>,
    at: &mut Vec<super::super::Span>,
) {
    let Some(node) = node else { return };
    let nodes = reader.one_or_more(node);
    if nodes.len() > max {
        let found =
            Diagnostic::error("too-many-names", node.span, format!("{} names are too many", nodes.len()));
        return reader.push(found.hint(format!("{max} are the most; the oldest alone would do")));
    }
    for node in nodes {
        if let Some(name) = super::name(reader, node) {
            names.push(name.into());
            at.push(node.span);
        }
    }
}

/// A limit that is only reported. Whatever the rule does over its limits, a candidate does nothing.
fn read_candidate(reader: &mut Reader<'_>, node: &Node, terms: &LimitSettings, scope: &KeyScope, read: &mut FileRule) {
    let own_action = node.get("action");
    if let Some(action) = own_action.filter(|action| action.text() != Some("reject")) {
        let message = "a candidate has no action other than `reject`";
        let found = Diagnostic::error("contradiction", action.span, message);
        return reader
            .push(found.hint("leave it out: a candidate is evaluated and reported, and denies nothing"));
    }
    if let NodeKind::Seq(_) = &node.kind {
        return reader.wrong_type_hint(node, "one limit", "a rule has one candidate at a time");
    }
    let terms = terms.clone().without_action();
    if let Some(limit) = limit::read(reader, node, &terms, scope) {
        read.rule.candidate = Some(limit.limit);
        read.spans.candidate = Some(limit.spans);
    }
}

fn read_metadata(reader: &mut Reader<'_>, node: &Node) -> Vec<(Box<str>, Box<str>)> {
    let fields = reader.mapping(node).unwrap_or_default();
    if fields.len() > METADATA_MAX {
        let message = format!("{} names of metadata are too many", fields.len());
        let found = Diagnostic::error("too-many-names", node.span, message);
        reader.push(found.hint(format!("{METADATA_MAX} are the most")));
        return Vec::new();
    }
    let read =
        |(key, value): &(Node, Node)| Some((Box::from(reader.name(key)?), Box::from(reader.text(value)?)));
    fields.iter().filter_map(read).collect()
}

/// `per` beside `limit` is an easy mistake, and "a rule has no field `per`" would not say what to do.
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
    /// Every limit, with where it stands: those of all plans, the default's own, the candidate.
    pub(in super::super) fn all_limits(&self) -> impl Iterator<Item = (&RuleLimit, Option<&LimitSpans>)> {
        let limits: Vec<&RuleLimit> = match &self.rule.limits {
            RuleLimits::Same(limits) => limits.iter().collect(),
            RuleLimits::Tiers(tiers) => {
                tiers.plans.iter().flat_map(|(_, limits)| limits).chain(&tiers.default).collect()
            }
        };
        let places = self.spans.limits.iter().map(Some).chain(std::iter::repeat(None));
        limits.into_iter().zip(places)
    }

    /// The pools that its limits refer to.
    pub(in super::super) fn pools(&self) -> impl Iterator<Item = (&str, super::super::Span)> {
        self.all_limits().filter_map(|(limit, at)| match &limit.action {
            Action::Elastic(elastic) => match &elastic.source {
                ElasticSource::Pool(name) => Some((&**name, at.map_or(self.spans.rule, |at| at.action))),
                ElasticSource::Signal(_) => None,
            },
            _ => None,
        })
    }
}
