//! What a rule matches: attributes and what they have to be.

use std::collections::HashMap;

use tidegate_core::rules::{Attribute, Condition, PathPattern, Pattern};

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::super::file::Spanned;
use super::super::reader::Reader;
use super::super::yaml::{Node, printable};
use super::key::parse_attribute;
use super::{style_warnings, pattern};

/// The conditions of `match`, each with where it stands.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<Spanned<Condition>> {
    let mut seen: HashMap<Attribute, Span> = HashMap::new();
    let mut conditions = Vec::new();
    for (key, value) in reader.mapping(node).unwrap_or_default() {
        let Some(attribute) = attribute(reader, key) else { continue };
        if let Some(first) = seen.insert(attribute.clone(), key.span) {
            let message = format!("attribute `{attribute}` stands twice");
            let found = Diagnostic::error("duplicate-field", key.span, message).label("again here");
            reader.push(found.related(first, "first here").hint("leave one of them out"));
            continue;
        }
        if let Some(pattern) = pattern::read(reader, value, &attribute) {
            conditions.push(Spanned { value: Condition { attribute, pattern }, span: value.span });
        }
    }
    conditions
}

/// An attribute's name.
pub(super) fn attribute(reader: &mut Reader<'_>, node: &Node) -> Option<Attribute> {
    let text = reader.name(node)?;
    match parse_attribute(text) {
        Ok(attribute) => {
            style_warnings::warn_attribute_case(reader, node);
            Some(attribute)
        }
        Err(hint) => {
            let message = format!("`{}` is not an attribute", printable(text));
            reader.push(Diagnostic::error("bad-attribute", node.span, message).hint(hint));
            None
        }
    }
}

/// The patterns of the path, of which it has any; none if it has to be something else.
pub(super) fn path_patterns(conditions: &[Spanned<Condition>]) -> &[PathPattern] {
    let path = conditions.iter().find(|condition| condition.value.attribute == Attribute::Path);
    match path.map(|path| &path.value.pattern) {
        Some(Pattern::Path(path)) => std::slice::from_ref(path),
        Some(Pattern::Paths(set)) => set.paths(),
        _ => &[],
    }
}
