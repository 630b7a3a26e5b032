//! A tree of values with positions.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::rules::Span;

/// A value and its position. Cheap to clone. An alias shares the value of its anchor.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// For an alias: the position of its anchor.
    pub span: Span,
    pub kind: NodeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    /// An empty value, `~` or `null`.
    Null,
    Scalar {
        text: Arc<str>,
        style: Style,
    },
    Seq(Arc<[Node]>),
    /// In the order of the file. The keys are scalars without duplicates.
    Map(Arc<[(Node, Node)]>),
}

/// Whether a scalar is quoted: `"true"` is, and `true` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Quoted,
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The text of a scalar that is not quoted.
    pub fn plain(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, style: Style::Plain } => Some(text),
            _ => None,
        }
    }

    /// The value of a field of a mapping.
    pub fn get(&self, name: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(fields) => {
                fields.iter().find(|(key, _)| key.text() == Some(name)).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The kind of value, in a message such as "expected a list, found text".
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            NodeKind::Null => "nothing",
            NodeKind::Seq(_) => "a list",
            NodeKind::Map(_) => "a mapping",
            NodeKind::Scalar { text, style: Style::Plain } => match &**text {
                "true" | "false" => "true or false",
                text if is_number(text) => "a number",
                _ => "text",
            },
            NodeKind::Scalar { style: Style::Quoted, .. } => "text",
        }
    }

    /// The path to the value at `span`, like `rules[3].limits[0].limit`, or to the value that contains it.
    /// The parts of an alias are found at its anchor.
    pub fn path_to(&self, span: &Span) -> String {
        let (mut path, mut node) = (String::new(), self);
        while node.span != *span {
            match &node.kind {
                NodeKind::Seq(items) => {
                    let Some(index) = items.iter().position(|item| item.span.contains(span)) else { break };
                    let _ = write!(path, "[{index}]");
                    node = &items[index];
                }
                NodeKind::Map(fields) => {
                    let contains_span =
                        |(key, value): &&(Node, Node)| key.span == *span || value.span.contains(span);
                    let Some((key, value)) = fields.iter().find(contains_span) else { break };
                    let dot = if path.is_empty() { "" } else { "." };
                    let _ = write!(path, "{dot}{}", key.text().unwrap_or_default());
                    if key.span == *span {
                        break;
                    }
                    node = value;
                }
                NodeKind::Null | NodeKind::Scalar { .. } => break,
            }
        }
        path
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_' || b == b'.')
}
