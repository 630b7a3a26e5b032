//! From the tree of a file to rules: a rule for each descriptor that has a limit, or nothing at all.

use std::collections::HashMap;

use tidegate_core::rules::{EntryPatterns, KeySpec, KeyPart, RuleLimits, Lookup, Pattern, PatternError, Rule};

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::super::file::{FileRule, RuleSpans, RulesFile, Spanned};
use super::super::reader::{Fields, Reader};
use super::super::yaml::{NodeKind, Node, printable};
use super::limits::{self, Depth, DescriptorLimits};
use super::mapping::{self, Mapping};
use super::replaces::{self, LimitNames};
use super::{metadata, rule_name, scalars};

/// What the file says, if nothing is wrong with its domain.
pub(crate) fn read(reader: &mut Reader<'_>, root: &Node) -> Option<RulesFile> {
    let mut fields = Mapping::File.fields(reader, root)?;
    let domain = read_domain(reader, &mut fields);
    let mut walk = DescriptorWalk::default();
    if let Some(list) = fields.value("descriptors") {
        walk.read_level(reader, list);
    }
    Mapping::File.finish(reader, fields);
    replaces::resolve(reader, &mut walk.rules, &walk.names);
    Some(RulesFile {
        domain: domain?,
        apply: None,
        lookup: Lookup::DescriptorTree,
        pools: Vec::new(),
        rules: walk.rules,
    })
}

fn read_domain(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Option<Spanned<Box<str>>> {
    let hint = "write for example `domain: edge`, as Envoy's filter says it";
    let node = fields.required(reader, "domain", hint)?;
    let text = scalars::text(reader, node)?;
    if text.is_empty() {
        reader.push(Diagnostic::error("empty-domain", node.span, "the domain is empty").hint(hint));
        return None;
    }
    Some(Spanned { value: text.into(), span: node.span })
}

/// The way down the descriptors, and the rules found on it.
#[derive(Default)]
struct DescriptorWalk {
    /// The levels above.
    path: Vec<PathLevel>,
    rules: Vec<FileRule>,
    /// What each rule is called by `replaces`, and what it replaces.
    names: Vec<LimitNames>,
}

/// One entry of the descriptors to come.
struct PathLevel {
    key: Box<str>,
    pattern: Pattern,
    /// All that matches the wildcard shares a counter.
    shared: bool,
    /// Metrics tell its values apart.
    in_metric: bool,
    /// Where the value stands, or the key if there is none.
    span: Span,
}

impl DescriptorWalk {
    fn read_level(&mut self, reader: &mut Reader<'_>, list: &Node) {
        let mut seen = HashMap::new();
        for item in mapping::list(reader, list, "key: remote_address") {
            self.read_descriptor(reader, item, &mut seen);
        }
    }

    fn read_descriptor(&mut self, reader: &mut Reader<'_>, node: &Node, seen: &mut HashMap<String, Span>) {
        let Some(mut fields) = Mapping::Descriptor.fields(reader, node) else { return };
        let level = read_path_level(reader, &mut fields).filter(|level| check_unique(reader, level, seen));
        // What stands below one that cannot be made out is read, so that all that is wrong is said at once.
        self.path.push(level.unwrap_or_else(|| PathLevel::unknown(node)));
        let limits = limits::read(reader, &mut fields, self.key(), Depth(self.path.len()));
        let metadata = fields.value("metadata").map(|node| metadata::read(reader, node)).unwrap_or_default();
        let below = fields.value("descriptors");
        Mapping::Descriptor.finish(reader, fields);

        let is_known = self.path.iter().all(|level| !level.key.is_empty());
        let is_end = below.is_none_or(is_empty);
        if is_known && (limits.limits.is_some() || is_end) {
            self.add_rule(node, limits, metadata);
        }
        if let Some(list) = below {
            self.read_level(reader, list);
        }
        self.path.pop();
    }

    /// The rule of a descriptor that ends at this path.
    fn add_rule(&mut self, node: &Node, said: DescriptorLimits, metadata: Vec<(Box<str>, Box<str>)>) {
        let told_apart = |level: &PathLevel| {
            let varies = !matches!(level.pattern, Pattern::Exact(_)) && !level.shared;
            varies && (level.in_metric || said.detailed_metric)
        };
        let metric_entries = self.entry_indexes(told_apart).collect();
        let placeholder = said.limits.is_none();
        let (limits, limits_at) = said.limits.into_iter().flatten().unzip();
        let mut rule = Rule {
            name: rule_name::of_path(self.path.iter().map(|level| (&*level.key, &level.pattern))).into(),
            entries: Some(EntryPatterns {
                patterns: self.path.iter().map(|level| (level.key.clone(), level.pattern.clone())).collect(),
                allows_more: false,
            }),
            limits: RuleLimits::Same(limits),
            metadata,
            metric_entries,
            is_placeholder: placeholder,
            ..Rule::default()
        };
        said.shared_store.apply(&mut rule);
        let name = self.path.last().map_or(node.span, |level| level.span);
        let at = RuleSpans { name, limits: limits_at, ..RuleSpans::whole(node.span) };
        self.rules.push(FileRule { rule, spans: at });
        self.names.push(said.names);
    }

    /// The values of all entries, less those that share a counter.
    fn key(&self) -> KeySpec {
        KeySpec::new(self.entry_indexes(|level| !level.shared).map(KeyPart::Entry))
    }

    /// The places of the levels that are wanted.
    fn entry_indexes(&self, wanted: impl Fn(&PathLevel) -> bool) -> impl Iterator<Item = usize> {
        self.path.iter().enumerate().filter(move |(_, level)| wanted(level)).map(|(place, _)| place)
    }
}

impl PathLevel {
    /// In the place of one that could not be made out: no key is empty.
    fn unknown(node: &Node) -> Self {
        Self { key: "".into(), pattern: Pattern::Any, shared: false, in_metric: false, span: node.span }
    }
}

/// The key and the value of a descriptor, and what else holds for its level.
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
    if let (Some(field), true, false) = (shared, is_shared, matches!(pattern, Pattern::Wildcard(_))) {
        let message = "`share_threshold` needs a value with a `*` in it";
        let hint = "values that match share one counter then; without a wildcard there is nothing to share: leave it out";
        reader.push(Diagnostic::error("share-without-wildcard", field.key.span, message).hint(hint));
    }
    let key = key?;
    let text = scalars::text(reader, key)?;
    if text.is_empty() {
        reader.push(Diagnostic::error("empty-key", key.span, "the key is empty").hint(hint));
        return None;
    }
    let at = match &pattern {
        Pattern::Any => key.span,
        _ => value.map_or(key.span, |field| field.value.span),
    };
    Some(PathLevel { key: text.into(), pattern, shared: is_shared, in_metric, span: at })
}

fn parse_pattern(value: &str) -> Result<Pattern, PatternError> {
    match value {
        "" => Ok(Pattern::Any),
        _ if value.contains('*') => Pattern::wildcard(value),
        _ => Pattern::exact(value),
    }
}

/// Whether it does. There, key and value are looked up together, so that two that read the same cannot stand beside each
/// other.
fn check_unique(reader: &mut Reader<'_>, level: &PathLevel, seen: &mut HashMap<String, Span>) -> bool {
    let name = rule_name::level_name(&level.key, &level.pattern);
    let Some(first) = seen.get(&name) else {
        seen.insert(name, level.span);
        return true;
    };
    let message = format!("the descriptor `{}` stands twice", printable(&name));
    let hint = "give one of them another key or value, or put their fields together";
    let found = Diagnostic::error("duplicate-descriptor", level.span, message).label("again here");
    reader.push(found.related(*first, "first here").hint(hint));
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
