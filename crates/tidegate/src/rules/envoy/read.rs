//! From the tree of a file to rules: one rule for each descriptor that has a limit, or has nothing at all.

use std::collections::HashMap;

use tidegate_core::rules::{
    EntryPatterns, KeyPart, KeySpec, Lookup, Metadata, Net, Pattern, PatternError, Rule, RuleLimits,
};

use super::limits::{self, Depth, DescriptorLimits};
use super::mapping::{self, Mapping};
use super::{metadata, rule_name, scalars};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::{FileRule, LimitNames, RuleSpans, RulesFile, Spanned};
use crate::rules::yaml::{Fields, Node, NodeKind, Reader, printable};
use crate::rules::{Counting, Span};

/// The content of the file, if its domain is valid.
pub(crate) fn read(reader: &mut Reader<'_>, root: &Node, counting: Counting) -> Option<RulesFile> {
    let mut fields = Mapping::File.fields(reader, root)?;
    let domain = read_domain(reader, &mut fields);
    let mut walk = DescriptorWalk { counting, ..DescriptorWalk::default() };
    if let Some(list) = fields.value("descriptors") {
        walk.read_level(reader, list);
    }
    Mapping::File.finish(reader, fields);
    Some(RulesFile {
        domain: domain?,
        apply: None,
        lookup: Lookup::DescriptorTree,
        count_denied: counting.count_denied(),
        pools: Vec::new(),
        rules: walk.rules,
        limit_names: walk.names,
    })
}

fn read_domain(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Option<Spanned<Box<str>>> {
    let hint = "write for example `domain: edge`, the domain in Envoy's filter";
    let node = fields.required(reader, "domain", hint)?;
    let text = scalars::text(reader, node)?;
    if text.is_empty() {
        reader.push(Diagnostic::error("empty-domain", node.span, "the domain is empty").hint(hint));
        return None;
    }
    Some(Spanned { value: text.into(), span: node.span })
}

/// The path to the current descriptor, and the rules found so far.
#[derive(Default)]
struct DescriptorWalk {
    counting: Counting,
    /// The levels above.
    path: Vec<PathLevel>,
    rules: Vec<FileRule>,
    /// For each rule, its name in `replaces`, and what it replaces.
    names: Vec<LimitNames>,
}

/// One level of a path, which matches one entry.
struct PathLevel {
    key: Box<str>,
    pattern: Pattern,
    /// All values that match the wildcard share a counter.
    shared: bool,
    /// Metrics distinguish its values.
    in_metric: bool,
    /// The position of the value, or of the key if there is none.
    span: Span,
}

impl DescriptorWalk {
    fn read_level(&mut self, reader: &mut Reader<'_>, list: &Node) {
        let mut first_spans = HashMap::new();
        for item in mapping::list(reader, list, "key: remote_address") {
            self.read_descriptor(reader, item, &mut first_spans);
        }
    }

    fn read_descriptor(
        &mut self,
        reader: &mut Reader<'_>,
        node: &Node,
        first_spans: &mut HashMap<String, Span>,
    ) {
        let Some(mut fields) = Mapping::Descriptor.fields(reader, node) else { return };
        let level =
            read_path_level(reader, &mut fields).filter(|level| check_unique(reader, level, first_spans));
        // Descriptors below an invalid one are read too, so that all errors are reported together.
        self.path.push(level.unwrap_or_else(|| PathLevel::unknown(node)));
        let limits = limits::read(reader, &mut fields, self.key(), Depth(self.path.len()), self.counting);
        let metadata = fields.value("metadata").map(|node| metadata::read(reader, node)).unwrap_or_default();
        let children = fields.value("descriptors");
        Mapping::Descriptor.finish(reader, fields);

        let is_known = self.path.iter().all(|level| !level.key.is_empty());
        let is_end = children.is_none_or(is_empty);
        if is_known && (limits.limits.is_some() || is_end) {
            self.add_rule(node, limits, metadata);
        }
        if let Some(list) = children {
            self.read_level(reader, list);
        }
        self.path.pop();
    }

    /// Adds the rule of a descriptor that ends at this path.
    fn add_rule(&mut self, node: &Node, descriptor: DescriptorLimits, metadata: Metadata) {
        let is_in_metrics = |level: &PathLevel| {
            let varies = !matches!(level.pattern, Pattern::Exact(_)) && !level.shared;
            varies && (level.in_metric || descriptor.detailed_metric)
        };
        let metric_entries = self.entry_indexes(is_in_metrics).collect();
        let is_placeholder = descriptor.limits.is_none();
        let (limits, limit_spans) = descriptor.limits.into_iter().flatten().unzip();
        let mut rule = Rule {
            name: rule_name::of_path(self.path.iter().map(|level| (&*level.key, &level.pattern))).into(),
            entries: Some(EntryPatterns {
                patterns: self.path.iter().map(|level| (level.key.clone(), level.pattern.clone())).collect(),
                allows_more: false,
            }),
            limits: RuleLimits::Same(limits),
            limit_name: descriptor.names.name.clone(),
            metadata,
            metric_entries,
            is_placeholder,
            ..Rule::default()
        };
        descriptor.shared_store.apply(&mut rule);
        let name = self.path.last().map_or(node.span, |level| level.span);
        let spans = RuleSpans { name, limits: limit_spans, ..RuleSpans::whole(node.span) };
        self.rules.push(FileRule { rule, spans });
        self.names.push(descriptor.names);
    }

    /// The values of all entries, except those that share a counter, and the keys that match a wildcard.
    fn key(&self) -> KeySpec {
        let values = self.entry_indexes(|level| !level.shared).map(KeyPart::Entry);
        let names = self.entry_indexes(PathLevel::has_key_wildcard).map(KeyPart::EntryName);
        KeySpec::new(values.chain(names))
    }

    /// The indexes of the wanted levels.
    fn entry_indexes(&self, is_included: impl Fn(&PathLevel) -> bool) -> impl Iterator<Item = usize> {
        self.path.iter().enumerate().filter(move |(_, level)| is_included(level)).map(|(index, _)| index)
    }
}

impl PathLevel {
    /// Whether the key ends in a star that stands for the rest of the key, or for the rest and a value.
    fn has_key_wildcard(&self) -> bool {
        self.pattern == Pattern::Any && self.key.ends_with('*')
    }

    /// Stands for an invalid level: no valid key is empty.
    fn unknown(node: &Node) -> Self {
        Self { key: "".into(), pattern: Pattern::Any, shared: false, in_metric: false, span: node.span }
    }
}

/// The key and the value of a descriptor, and the other settings of its level.
fn read_path_level(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Option<PathLevel> {
    let hint = "write for example `key: remote_address`";
    let key = fields.required(reader, "key", hint);
    let value = fields.take("value");
    let shared = fields.take("share_threshold");
    let in_metric =
        fields.value("value_to_metric").is_some_and(|node| scalars::boolean(reader, node) == Some(true));
    let pattern = match value {
        None => Pattern::Any,
        Some(value) => match parse_pattern(scalars::text(reader, value.value)?) {
            Ok(pattern) => pattern,
            Err(error) => {
                reader.push(
                    Diagnostic::error("bad-pattern", value.value.span, error.problem()).hint(error.hint()),
                );
                return None;
            }
        },
    };
    let is_shared = shared.is_some_and(|field| scalars::boolean(reader, field.value) == Some(true));
    let has_key_wildcard =
        pattern == Pattern::Any && key.and_then(Node::text).is_some_and(|text| text.ends_with('*'));
    let has_wildcard = has_key_wildcard || matches!(pattern, Pattern::Wildcard(_));
    if let (Some(field), true, false) = (shared, is_shared, has_wildcard) {
        let message = "`share_threshold` needs a value that contains `*`, or a key that ends in `*`";
        let hint = "values that match then share one counter; without a wildcard there is nothing to share: leave it out";
        reader.push(Diagnostic::error("share-without-wildcard", field.key.span, message).hint(hint));
    }
    let key = key?;
    let text = scalars::text(reader, key)?;
    if text.is_empty() {
        reader.push(Diagnostic::error("empty-key", key.span, "the key is empty").hint(hint));
        return None;
    }
    warn_block_as_text(reader, text, &pattern, value.map(|field| field.value));
    let at = match &pattern {
        Pattern::Any => key.span,
        _ => value.map_or(key.span, |field| field.value.span),
    };
    Some(PathLevel { key: text.into(), pattern, shared: is_shared, in_metric, span: at })
}

/// Warns about a block of addresses for Envoy's attribute that is one address. Here, as in envoyproxy/ratelimit, it is text.
fn warn_block_as_text(reader: &mut Reader<'_>, key: &str, pattern: &Pattern, value: Option<&Node>) {
    let (Pattern::Exact(block), Some(value)) = (pattern, value) else { return };
    if key != "remote_address" || !block.contains('/') || Net::parse(block).is_err() {
        return;
    }
    let message =
        format!("`remote_address` is compared as text, so no address matches `{}`", printable(block));
    let hint = "let Envoy send `masked_remote_address`, or convert the file with `tidegate convert`: blocks match in native \
                rules";
    reader.push(Diagnostic::warning("cidr-as-text", value.span, message).hint(hint));
}

fn parse_pattern(value: &str) -> Result<Pattern, PatternError> {
    match value {
        "" => Ok(Pattern::Any),
        _ if value.contains('*') => Pattern::wildcard(value),
        _ => Pattern::exact(value),
    }
}

/// Whether the descriptor is unique on its level. envoyproxy/ratelimit looks up key and value together, so
/// two with the same text cannot exist there.
fn check_unique(reader: &mut Reader<'_>, level: &PathLevel, first_spans: &mut HashMap<String, Span>) -> bool {
    let name = rule_name::level_name(&level.key, &level.pattern);
    let Some(first) = first_spans.get(&name) else {
        first_spans.insert(name, level.span);
        return true;
    };
    let message = format!("duplicate descriptor `{}`", printable(&name));
    let hint = "give one of them another key or value, or merge their fields";
    let diagnostic = Diagnostic::error("duplicate-descriptor", level.span, message).label("again here");
    reader.push(diagnostic.related(*first, "first here").hint(hint));
    false
}

/// No list at all, or one without items.
fn is_empty(list: &Node) -> bool {
    match &list.kind {
        NodeKind::Null => true,
        NodeKind::Seq(items) => items.is_empty(),
        _ => false,
    }
}
