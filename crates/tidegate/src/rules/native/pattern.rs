//! Reads the pattern for the value of an attribute.

use tidegate_core::rules::{Attribute, Net, PathPattern, Pattern, PatternError};

use super::style_warnings;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Field, Fields, Node, NodeKind, Reader, printable};

/// The names of the matchers.
pub(super) const MATCHERS: [&str; 6] = ["exact", "prefix", "wildcard", "regex", "not", "exists"];

/// A value, a list of values, or a mapping of one matcher to its argument.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute) -> Option<Pattern> {
    match &node.kind {
        NodeKind::Null => {
            reader.wrong_type_hint(node, "a value", "write `{ exists: true }` for any value, or quote it");
            None
        }
        NodeKind::Scalar { text, .. } => {
            style_warnings::warn_value(reader, node, attribute);
            let pattern = value_pattern(text, attribute);
            ok_or_report(reader, node, pattern)
        }
        NodeKind::Seq(items) => any_of(reader, node, items, attribute),
        NodeKind::Map(_) => read_matcher(reader, node, attribute),
    }
}

/// What a single value means.
fn value_pattern(text: &str, attribute: &Attribute) -> Result<Pattern, PatternError> {
    match attribute {
        Attribute::Path => {
            let pattern = Pattern::path(text)?;
            if is_path_pattern(text) { Ok(pattern) } else { Pattern::exact(text) }
        }
        Attribute::Address(_) => Pattern::nets([Net::parse(text)?]),
        _ => Pattern::exact(text),
    }
}

fn is_path_pattern(text: &str) -> bool {
    text.contains(['{', '}', '*'])
}

/// Whether no path can match this: paths start with a slash and are cut before a query.
fn cannot_match_path(matcher: &str, text: &str) -> bool {
    // The target of `OPTIONS *`.
    if (matcher, text) == ("exact", "*") {
        return false;
    }
    let starts_like_path = text.starts_with('/') || (matcher == "wildcard" && text.starts_with('*'));
    !starts_like_path || text.contains(['?', '#'])
}

fn ok_or_report<T>(reader: &mut Reader<'_>, node: &Node, result: Result<T, PatternError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            reader.push(Diagnostic::error("bad-pattern", node.span, error.problem()).hint(error.hint()));
            None
        }
    }
}

/// Any of the values of a list. One path pattern makes all of them patterns.
fn any_of(reader: &mut Reader<'_>, node: &Node, items: &[Node], attribute: &Attribute) -> Option<Pattern> {
    let (mut values, mut paths, mut nets) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_valid = true;
    for item in items {
        match read_item(reader, item, attribute) {
            Some(ListItem::Value(value)) => values.push(value),
            Some(ListItem::Path(text, path)) => {
                values.push(text);
                paths.push(path);
            }
            Some(ListItem::Net(net)) => nets.push(net),
            None => is_valid = false,
        }
    }
    if !is_valid {
        return None;
    }
    let pattern = match attribute {
        Attribute::Address(_) => Pattern::nets(nets),
        Attribute::Path if values.iter().any(|text| is_path_pattern(text)) => Pattern::paths(paths),
        _ => Pattern::one_of(values),
    };
    ok_or_report(reader, node, pattern)
}

enum ListItem<'n> {
    Value(&'n str),
    Path(&'n str, PathPattern),
    Net(Net),
}

fn read_item<'n>(reader: &mut Reader<'_>, item: &'n Node, attribute: &Attribute) -> Option<ListItem<'n>> {
    let Some(text) = item.text() else {
        reader.wrong_type_hint(
            item,
            "a value",
            "a list holds plain values; write a matcher alone, or use a regex",
        );
        return None;
    };
    style_warnings::warn_item(reader, item, attribute);
    let result = match attribute {
        Attribute::Address(_) => Net::parse(text).map(ListItem::Net),
        Attribute::Path => PathPattern::parse(text).map(|path| ListItem::Path(text, path)),
        _ => Ok(ListItem::Value(text)),
    };
    ok_or_report(reader, item, result)
}

/// `{ prefix: eu- }` and the like.
fn read_matcher(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute) -> Option<Pattern> {
    let mut fields = Fields::of(reader, node, "a matcher")?;
    let matchers: Vec<(&str, Field<'_>)> =
        MATCHERS.iter().filter_map(|name| Some((*name, fields.take(name)?))).collect();
    fields.finish(reader, "a matcher");
    match matchers[..] {
        [(name, field)] => read_one_matcher(reader, name, field.value, attribute),
        [] => {
            let is_empty = matches!(&node.kind, NodeKind::Map(fields) if fields.is_empty());
            if is_empty {
                let diagnostic = Diagnostic::error("missing-field", node.span, "there is no matcher");
                reader.push(diagnostic.hint("write for example `{ prefix: eu- }` or `{ exists: true }`"));
            }
            None
        }
        [(first, first_field), (second, second_field), ..] => {
            let message = format!("`{first}` and `{second}` exclude each other");
            let diagnostic = Diagnostic::error("contradiction", second_field.key.span, message);
            reader.push(
                diagnostic
                    .related(first_field.key.span, "the first")
                    .hint("use one matcher for each attribute"),
            );
            None
        }
    }
}

fn read_one_matcher(
    reader: &mut Reader<'_>,
    name: &str,
    node: &Node,
    attribute: &Attribute,
) -> Option<Pattern> {
    match name {
        "not" => return read(reader, node, attribute).map(Pattern::negated),
        "exists" => {
            return Some(if reader.boolean(node)? { Pattern::Any } else { Pattern::Absent });
        }
        _ => {}
    }
    let text = reader.text(node)?;
    let pattern = match (name, attribute) {
        ("exact", Attribute::Address(_)) => value_pattern(text, attribute),
        (_, Attribute::Address(_)) => {
            let message =
                format!("`{name}` does not work with `{attribute}`, which is compared as an address");
            let diagnostic = Diagnostic::error("bad-pattern", node.span, message);
            reader.push(
                diagnostic.hint(format!("write address blocks, for example `{attribute}: 10.0.0.0/8`")),
            );
            return None;
        }
        (_, Attribute::Path) if name != "regex" && cannot_match_path(name, text) => {
            let message = format!("no path can match `{}`", printable(text));
            let diagnostic = Diagnostic::error("bad-pattern", node.span, message);
            reader.push(diagnostic.hint("paths begin with `/` and are compared up to `?` or `#`"));
            return None;
        }
        ("exact", _) => Pattern::exact(text),
        ("prefix", _) => Pattern::prefix(text),
        ("wildcard", _) => Pattern::wildcard(text),
        _ => Pattern::regex(text, attribute.case()),
    };
    let pattern = ok_or_report(reader, node, pattern)?;
    #[cfg(feature = "identity")]
    style_warnings::warn_directory(reader, node, name, attribute);
    Some(pattern)
}
