//! What answers carry along.

use serde_json::{Map, Value};

use super::super::reader::Reader;
use super::super::yaml::{Kind, Node};

/// Names and values. A value that is a list or a mapping is written as JSON.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<(Box<str>, Box<str>)> {
    let Kind::Map(pairs) = &node.kind else {
        if !matches!(node.kind, Kind::Null) {
            reader.wrong_type_hint(
                node,
                "names and values (a mapping)",
                "write for example `metadata: { service: blue }`",
            );
        }
        return Vec::new();
    };
    let name = |key: &Node| key.text().unwrap_or_default().into();
    pairs.iter().map(|(key, value)| (name(key), written(value).into())).collect()
}

fn written(node: &Node) -> String {
    match &node.kind {
        Kind::Null => String::new(),
        Kind::Scalar { text, .. } => (**text).to_owned(),
        Kind::Seq(_) | Kind::Map(_) => json(node).to_string(),
    }
}

/// The depth of a file is bounded, and what its aliases stand for is counted.
fn json(node: &Node) -> Value {
    match &node.kind {
        Kind::Null => Value::Null,
        Kind::Scalar { text, .. } => match node.plain() {
            Some("true") => Value::Bool(true),
            Some("false") => Value::Bool(false),
            Some(plain) => plain.parse::<i64>().map_or_else(|_| (&**text).into(), Value::from),
            None => (&**text).into(),
        },
        Kind::Seq(items) => items.iter().map(json).collect(),
        Kind::Map(fields) => {
            let pair = |(key, value): &(Node, Node)| (key.text().unwrap_or_default().to_owned(), json(value));
            Value::Object(fields.iter().map(pair).collect::<Map<_, _>>())
        }
    }
}
