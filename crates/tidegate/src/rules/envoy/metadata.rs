//! Reads the metadata of answers.

use tidegate_core::rules::{Metadata, MetadataValue};

use super::scalars;
use crate::rules::yaml::{Node, NodeKind, Reader, read_metadata};

/// Names and values, which keep their types.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Metadata {
    if !matches!(node.kind, NodeKind::Map(_) | NodeKind::Null) {
        let hint = "write for example `metadata: { service: blue }`";
        reader.wrong_type_hint(node, "names and values (a mapping)", hint);
    }
    read_metadata(reader, node, |text| {
        let boolean = scalars::boolean_word(text).map(MetadataValue::Boolean);
        boolean.or_else(|| scalars::any_number(text).map(MetadataValue::Number))
    })
}
