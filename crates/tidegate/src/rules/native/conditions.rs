//! Reads the conditions of a rule: attributes and their patterns.

use std::collections::HashMap;

use tidegate_core::rules::{Attribute, Condition, PathPattern, Pattern};

use super::key::parse_attribute;
use super::{pattern, spelling, style_warnings};
use crate::rules::Span;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::Spanned;
use crate::rules::yaml::{Node, NodeKind, Reader, printable};

/// The conditions of `match`, each with its position.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<Spanned<Condition>> {
    let mut first_spans: HashMap<Attribute, Span> = HashMap::new();
    let mut conditions = Vec::new();
    for (key, value) in
        reader.mapping_hint(node, "write `match: { method: POST, path: /login }`").unwrap_or_default()
    {
        if let Some(hint) = nested_headers_hint(key, value) {
            let message = "headers are not nested";
            reader.push(Diagnostic::error("bad-attribute", key.span, message).hint(hint));
            continue;
        }
        let Some(attribute) = attribute(reader, key) else { continue };
        if let Some(first) = first_spans.insert(attribute.clone(), key.span) {
            let message = format!("duplicate attribute `{attribute}`");
            let diagnostic = Diagnostic::error("duplicate-field", key.span, message).label("again here");
            reader.push(diagnostic.related(first, "first here").hint("leave one of them out"));
            continue;
        }
        if let Some(pattern) = pattern::read(reader, value, &attribute) {
            conditions.push(Spanned { value: Condition { attribute, pattern }, span: value.span });
        }
    }
    conditions
}

/// How to write `headers: { x-api-key: foo }`, which is a mapping that is not a matcher.
fn nested_headers_hint(key: &Node, value: &Node) -> Option<String> {
    let NodeKind::Map(fields) = &value.kind else { return None };
    let is_header = key.text().is_some_and(|key| ["header", "headers"].contains(&key));
    let (name, value) = fields
        .iter()
        .find(|(name, _)| name.text().is_some_and(|name| is_header && !pattern::MATCHERS.contains(&name)))?;
    let value = value.text().map_or_else(|| "...".to_owned(), printable);
    Some(format!("write `header.{}: {value}`", printable(name.text()?)))
}

/// An attribute's name.
pub(super) fn attribute(reader: &mut Reader<'_>, node: &Node) -> Option<Attribute> {
    let text = reader.name(node)?;
    match parse_attribute(text) {
        Ok(attribute) => {
            style_warnings::warn_attribute_case(reader, node);
            spelling::warn_attribute(reader, node);
            Some(attribute)
        }
        Err(hint) => {
            let message = format!("`{}` is not an attribute", printable(text));
            reader.push(Diagnostic::error("bad-attribute", node.span, message).hint(hint));
            None
        }
    }
}

/// The patterns of the path; empty if another kind of pattern matches it.
pub(super) fn path_patterns(conditions: &[Spanned<Condition>]) -> &[PathPattern] {
    let path = conditions.iter().find(|condition| condition.value.attribute == Attribute::Path);
    match path.map(|path| &path.value.pattern) {
        Some(Pattern::Path(path)) => std::slice::from_ref(path),
        Some(Pattern::Paths(set)) => set.paths(),
        _ => &[],
    }
}
