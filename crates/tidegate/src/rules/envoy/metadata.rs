//! Reads the metadata of answers.

use serde_json::{Map, Value};

use crate::rules::yaml::{Node, NodeKind, Reader};

/// Names and values. A value that is a list or a mapping is written as JSON.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<(Box<str>, Box<str>)> {
    let NodeKind::Map(pairs) = &node.kind else {
        if !matches!(node.kind, NodeKind::Null) {
            reader.wrong_type_hint(
                node,
                "names and values (a mapping)",
                "write for example `metadata: { service: blue }`",
            );
        }
        return Vec::new();
    };
    let name = |key: &Node| key.text().unwrap_or_default().into();
    pairs.iter().map(|(key, value)| (name(key), value_text(value).into())).collect()
}

fn value_text(node: &Node) -> String {
    match &node.kind {
        NodeKind::Null => String::new(),
        NodeKind::Scalar { text, .. } => (**text).to_owned(),
        NodeKind::Seq(_) | NodeKind::Map(_) => json(node).to_string(),
    }
}

/// The depth of a file is bounded, and each alias counts as a full copy.
fn json(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Scalar { text, .. } => match node.plain() {
            Some("true") => Value::Bool(true),
            Some("false") => Value::Bool(false),
            Some(plain) => plain.parse::<i64>().map_or_else(|_| (&**text).into(), Value::from),
            None => (&**text).into(),
        },
        NodeKind::Seq(items) => items.iter().map(json).collect(),
        NodeKind::Map(fields) => {
            let pair = |(key, value): &(Node, Node)| (key.text().unwrap_or_default().to_owned(), json(value));
            Value::Object(fields.iter().map(pair).collect::<Map<_, _>>())
        }
    }
}
