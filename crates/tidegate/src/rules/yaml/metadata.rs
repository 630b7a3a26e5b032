//! Reads the metadata of answers. Values keep their types.

use tidegate_core::rules::{Metadata, MetadataValue};

use super::{Node, NodeKind, Reader};
use crate::rules::diagnostic::Diagnostic;

/// What a scalar without quotes is. `None` if it is text.
pub(crate) type ReadScalar = fn(&str) -> Option<MetadataValue>;

/// The names and values of a mapping.
pub(crate) fn read_metadata(reader: &mut Reader<'_>, node: &Node, read_scalar: ReadScalar) -> Metadata {
    let NodeKind::Map(fields) = &node.kind else { return Metadata::default() };
    let (count, depth) = size(node);
    if count - 1 > Metadata::VALUES_MAX {
        let message = format!("{} values of metadata are too many", count - 1);
        let diagnostic = Diagnostic::error("too-many-values", node.span, message);
        reader.push(diagnostic.hint(format!("the maximum is {}", Metadata::VALUES_MAX)));
        return Metadata::default();
    }
    if depth > Metadata::DEPTH_MAX {
        let message = format!("the metadata is nested {depth} levels deep");
        let diagnostic = Diagnostic::error("too-deep", node.span, message);
        reader.push(diagnostic.hint(format!("the maximum is {}", Metadata::DEPTH_MAX)));
        return Metadata::default();
    }
    object(fields, read_scalar)
}

/// A decimal number. Words such as `inf` and `nan` are text.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    text.parse().ok().filter(|number: &f64| is_decimal && number.is_finite())
}

/// The number of values, and how deep lists and mappings are nested. A file has bounds for both.
fn size(node: &Node) -> (usize, usize) {
    let add = |(count, depth): (usize, usize), inner: &Node| {
        let (inner_count, inner_depth) = size(inner);
        (count + inner_count, depth.max(1 + inner_depth))
    };
    match &node.kind {
        NodeKind::Null | NodeKind::Scalar { .. } => (1, 0),
        NodeKind::Seq(items) => items.iter().fold((1, 1), add),
        NodeKind::Map(fields) => fields.iter().map(|(_, value)| value).fold((1, 1), add),
    }
}

fn object(fields: &[(Node, Node)], read_scalar: ReadScalar) -> Metadata {
    let field =
        |(name, node): &(Node, Node)| (name.text().unwrap_or_default().into(), value(node, read_scalar));
    Metadata::new(fields.iter().map(field))
}

fn value(node: &Node, read_scalar: ReadScalar) -> MetadataValue {
    match &node.kind {
        NodeKind::Null => MetadataValue::Null,
        NodeKind::Scalar { text, .. } => {
            node.plain().and_then(read_scalar).unwrap_or_else(|| MetadataValue::Text((&**text).into()))
        }
        NodeKind::Seq(items) => {
            MetadataValue::List(items.iter().map(|item| value(item, read_scalar)).collect())
        }
        NodeKind::Map(fields) => MetadataValue::Object(object(fields, read_scalar)),
    }
}
