//! A tree of values, each with its position.

use std::fmt::Write as _;
use std::sync::Arc;

use super::super::Span;

/// A value and where it stands. Cheap to clone; what an alias stands for is shared with its anchor.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Of what an alias stands for: where its anchor is.
    pub span: Span,
    pub kind: NodeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    /// Nothing at all, `~` or `null`.
    Null,
    Scalar {
        text: Arc<str>,
        style: Style,
    },
    Seq(Arc<[Node]>),
    /// In the order of the file. The keys are scalars and none stands twice.
    Map(Arc<[(Node, Node)]>),
}

/// Whether a scalar is quoted, which `"true"` is and `true` is not.
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

    /// The value of a mapping's key.
    pub fn get(&self, name: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(fields) => {
                fields.iter().find(|(key, _)| key.text() == Some(name)).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// What it is, in a sentence such as "expected a list, found text".
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

    /// The path to what stands at `span`, like `rules[3].limits[0].limit`; to what it stands in, if there is no such
    /// value. An alias's parts are found where its anchor is.
    pub fn path_to(&self, span: &Span) -> String {
        let (mut path, mut node) = (String::new(), self);
        while node.span != *span {
            match &node.kind {
                NodeKind::Seq(items) => {
                    let Some(at) = items.iter().position(|item| item.span.contains(span)) else { break };
                    let _ = write!(path, "[{at}]");
                    node = &items[at];
                }
                NodeKind::Map(fields) => {
                    let holds = |(key, value): &&(Node, Node)| key.span == *span || value.span.contains(span);
                    let Some((key, value)) = fields.iter().find(holds) else { break };
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
