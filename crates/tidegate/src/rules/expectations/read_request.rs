//! Reads the request of a step.

use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Fields, Node, NodeKind, Reader, printable};
use crate::rules::{OwnedDescriptor, OwnedRequest};

/// The attributes of one descriptor, in order.
pub(super) fn attributes(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<(Box<str>, Box<str>)>> {
    let fields = reader.mapping(node)?;
    // Read all of them first, so that all errors are reported.
    let entries: Vec<_> = fields.iter().map(|(key, value)| entry(reader, key, value)).collect();
    entries.into_iter().collect()
}

fn entry(reader: &mut Reader<'_>, key: &Node, value: &Node) -> Option<(Box<str>, Box<str>)> {
    let name = reader.text(key)?;
    if matches!(value.kind, NodeKind::Null) {
        let message = format!("attribute `{}` has no value", printable(name));
        let diagnostic = Diagnostic::error("missing-value", value.span, message);
        reader.push(diagnostic.hint("leave the attribute out, or write \"\" for an empty value"));
        return None;
    }
    Some((name.into(), reader.text(value)?.into()))
}

pub(super) fn descriptors(reader: &mut Reader<'_>, node: &Node) -> Option<OwnedRequest> {
    let nodes = reader.list(node)?;
    if nodes.is_empty() {
        let diagnostic =
            Diagnostic::error("no-descriptors", node.span, "a request has at least one descriptor");
        reader.push(diagnostic.hint("write `descriptors: [ { attributes: { user: alice } } ]`"));
        return None;
    }
    let descriptors: Vec<_> = nodes.iter().map(|node| descriptor(reader, node)).collect();
    Some(OwnedRequest { descriptors: descriptors.into_iter().collect::<Option<_>>()? })
}

fn descriptor(reader: &mut Reader<'_>, node: &Node) -> Option<OwnedDescriptor> {
    let mut fields = Fields::of(reader, node, "a descriptor")?;
    let (attribute_map, entry_list) = (fields.value("attributes"), fields.value("entries"));
    let cost = fields.value("cost").map_or(Some(1), |node| reader.number("cost", node));
    fields.finish(reader, "a descriptor");
    let entries = match (attribute_map, entry_list) {
        (Some(node), None) => attributes(reader, node),
        (None, Some(node)) => entries_in_order(reader, node),
        _ => {
            let diagnostic =
                Diagnostic::error("missing-field", node.span, "expected either `attributes` or `entries`");
            reader.push(
                diagnostic.hint("write `attributes: { user: alice }`, or `entries: [ { user: alice } ]`"),
            );
            None
        }
    };
    Some(OwnedDescriptor { entries: entries?, cost: cost?, limit: None })
}

/// A list of mappings with one field each, where a name may occur twice.
fn entries_in_order(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<(Box<str>, Box<str>)>> {
    let nodes = reader.list(node)?;
    let mut entries = Some(Vec::new());
    for node in nodes {
        let entry = match &node.kind {
            NodeKind::Map(fields) if fields.len() == 1 => entry(reader, &fields[0].0, &fields[0].1),
            _ => {
                reader.wrong_type_hint(node, "an entry", "write a name and a value: `{ user: alice }`");
                None
            }
        };
        entries = entries.zip(entry).map(|(mut entries, entry)| {
            entries.push(entry);
            entries
        });
    }
    entries
}
