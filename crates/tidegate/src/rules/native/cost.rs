//! Reads the cost of a request.

use tidegate_core::UNITS_MAX;
use tidegate_core::rules::{Attribute, CostSource};

use super::conditions;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Fields, Node, NodeKind, Reader};

/// A number, `request`, or `{ attribute: tokens, default: 1 }`.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<CostSource> {
    if let NodeKind::Map(_) = &node.kind {
        let mut fields = Fields::of(reader, node, "a cost")?;
        let attribute = fields.required(reader, "attribute", "name the attribute whose value is the cost");
        let attribute: Option<Attribute> = attribute.and_then(|node| conditions::attribute(reader, node));
        let default = match fields.value("default") {
            None => Some(1),
            Some(node) => units(reader, "default", node),
        };
        fields.finish(reader, "a cost");
        return Some(CostSource::Attribute { attribute: attribute?, default: default? });
    }
    match node.text() {
        Some("request") => Some(CostSource::Request),
        Some(text) if node.kind_name() != "a number" => {
            let diagnostic = Diagnostic::error(
                "bad-cost",
                node.span,
                format!("`{}` is not a cost", super::printable(text)),
            );
            reader.push(diagnostic.hint("write a number, `request`, or `{ attribute: NAME, default: 1 }`"));
            None
        }
        _ => units(reader, "cost", node).map(CostSource::Fixed),
    }
}

fn units(reader: &mut Reader<'_>, field: &str, node: &Node) -> Option<u64> {
    let units = reader.number(field, node)?;
    if units > UNITS_MAX {
        let diagnostic =
            Diagnostic::error("out-of-range", node.span, format!("{field} {units} is too large"));
        reader.push(diagnostic.hint(format!("the maximum is {UNITS_MAX}")));
        return None;
    }
    Some(units)
}
