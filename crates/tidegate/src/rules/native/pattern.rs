//! What the value of an attribute has to be.

use tidegate_core::rules::{Attribute, Net, Pattern, PatternError};

use super::super::diagnostic::Diagnostic;
use super::super::reader::{Field, Fields, Reader};
use super::super::yaml::{Kind, Node, shown};
use super::odd;

/// A value, a list of them, or a mapping of one matcher to what it takes.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute) -> Option<Pattern> {
    match &node.kind {
        Kind::Null => {
            reader.wrong_type_hint(node, "a value", "write `{ exists: true }` for any value, or quote it");
            None
        }
        Kind::Scalar { text, .. } => {
            odd::value(reader, node, attribute);
            let pattern = value(text, attribute);
            checked(reader, node, pattern)
        }
        Kind::Seq(items) => any_of(reader, node, items, attribute),
        Kind::Map(_) => matcher(reader, node, attribute),
    }
}

/// What a value alone means.
fn value(text: &str, attribute: &Attribute) -> Result<Pattern, PatternError> {
    match attribute {
        Attribute::Path => {
            let pattern = Pattern::path(text)?;
            if is_path_pattern(text) { Ok(pattern) } else { Pattern::exact(text) }
        }
        Attribute::Ip => Pattern::nets([Net::parse(text)?]),
        _ => Pattern::exact(text),
    }
}

fn is_path_pattern(text: &str) -> bool {
    text.contains(['{', '}', '*'])
}

fn checked(reader: &mut Reader<'_>, node: &Node, pattern: Result<Pattern, PatternError>) -> Option<Pattern> {
    match pattern {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            reader.note(Diagnostic::error("bad-pattern", node.span, error.problem()).hint(error.hint()));
            None
        }
    }
}

/// Any of the values of a list.
fn any_of(reader: &mut Reader<'_>, node: &Node, items: &[Node], attribute: &Attribute) -> Option<Pattern> {
    let (mut values, mut nets) = (Vec::new(), Vec::new());
    let mut sound = true;
    for item in items {
        match item_of(reader, item, attribute) {
            Some(Item::Value(value)) => values.push(value),
            Some(Item::Net(net)) => nets.push(net),
            None => sound = false,
        }
    }
    if !sound {
        return None;
    }
    let pattern = if *attribute == Attribute::Ip { Pattern::nets(nets) } else { Pattern::one_of(values) };
    checked(reader, node, pattern)
}

enum Item<'n> {
    Value(&'n str),
    Net(Net),
}

fn item_of<'n>(reader: &mut Reader<'_>, item: &'n Node, attribute: &Attribute) -> Option<Item<'n>> {
    let Some(text) = item.text() else {
        reader.wrong_type_hint(
            item,
            "a value",
            "a list holds values; matchers stand alone, or write a regex",
        );
        return None;
    };
    odd::value(reader, item, attribute);
    let refused = match attribute {
        Attribute::Ip => match Net::parse(text) {
            Ok(net) => return Some(Item::Net(net)),
            Err(error) => Diagnostic::error("bad-pattern", item.span, error.problem()).hint(error.hint()),
        },
        Attribute::Path if is_path_pattern(text) => {
            let message = format!("`{}` is a pattern, and a list holds only paths", shown(text));
            Diagnostic::error("bad-pattern", item.span, message)
                .hint("write a rule for each pattern, or `{ regex: ... }`")
        }
        Attribute::Path => match Pattern::path(text) {
            Ok(_) => return Some(Item::Value(text)),
            Err(error) => Diagnostic::error("bad-pattern", item.span, error.problem()).hint(error.hint()),
        },
        _ => return Some(Item::Value(text)),
    };
    reader.note(refused);
    None
}

/// `{ prefix: /api/ }` and the like.
fn matcher(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute) -> Option<Pattern> {
    let mut fields = Fields::of(reader, node, "a matcher")?;
    let names = ["exact", "prefix", "wildcard", "regex", "not", "exists"];
    let given: Vec<(&str, Field<'_>)> =
        names.iter().filter_map(|name| Some((*name, fields.take(name)?))).collect();
    fields.finish(reader, "a matcher");
    match given[..] {
        [(name, field)] => one_matcher(reader, name, field.value, attribute),
        [] => {
            let none = matches!(&node.kind, Kind::Map(fields) if fields.is_empty());
            if none {
                let found = Diagnostic::error("missing-field", node.span, "there is no matcher");
                reader.note(found.hint("write for example `{ prefix: /api/ }` or `{ exists: true }`"));
            }
            None
        }
        [(first, one), (second, other), ..] => {
            let message = format!("`{first}` and `{second}` do not go together");
            let found = Diagnostic::error("contradiction", other.key.span, message);
            reader.note(
                found
                    .related(one.key.span, "the first")
                    .hint("one matcher for each attribute; leave one out"),
            );
            None
        }
    }
}

fn one_matcher(reader: &mut Reader<'_>, name: &str, node: &Node, attribute: &Attribute) -> Option<Pattern> {
    match name {
        "not" => return read(reader, node, attribute).map(Pattern::negated),
        "exists" => {
            return Some(if reader.truth(node)? { Pattern::Any } else { Pattern::Absent });
        }
        _ => {}
    }
    let text = reader.text(node)?;
    let pattern = match (name, attribute) {
        ("exact", Attribute::Ip) => value(text, attribute),
        (_, Attribute::Ip) => {
            let message = format!("`{name}` does not go with `ip`, which is compared as an address");
            let found = Diagnostic::error("bad-pattern", node.span, message);
            reader.note(found.hint("write blocks of addresses, for example `ip: 10.0.0.0/8`"));
            return None;
        }
        ("exact", _) => Pattern::exact(text),
        ("prefix", _) => Pattern::prefix(text),
        ("wildcard", _) => Pattern::wildcard(text),
        _ => Pattern::regex(text, attribute.case()),
    };
    checked(reader, node, pattern)
}
