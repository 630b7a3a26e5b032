//! What both kinds of files are read with: fields that are known or not, of the type that is wanted or not.

mod fields;
mod scalars;

pub(crate) use fields::{Field, Fields};

use super::diagnostic::{Diagnostic, Report};
use super::yaml::{NodeKind, Node};

/// Reads nodes, and takes note of all that is wrong with them. What cannot be read is `None`, and said.
pub(crate) struct Reader<'r> {
    pub report: &'r mut Report,
}

impl<'r> Reader<'r> {
    pub fn new(report: &'r mut Report) -> Self {
        Self { report }
    }

    /// Takes note of something that is wrong, or odd.
    pub fn push(&mut self, found: Diagnostic) {
        self.report.push(found);
    }

    /// The value is not what is wanted there, like `a list`.
    pub fn wrong_type(&mut self, node: &Node, wanted: &str) {
        self.push(wrong_type(node, wanted));
    }

    /// The same with a hint at what would be right.
    pub fn wrong_type_hint(&mut self, node: &Node, wanted: &str, hint: impl Into<String>) {
        self.push(wrong_type(node, wanted).hint(hint));
    }

    /// The items of a list.
    pub fn list<'n>(&mut self, node: &'n Node) -> Option<&'n [Node]> {
        match &node.kind {
            NodeKind::Seq(items) => Some(items),
            _ => {
                self.wrong_type(node, "a list");
                None
            }
        }
    }

    /// The items of a list, or the one value that stands in place of a list.
    pub fn one_or_more<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        match &node.kind {
            NodeKind::Seq(items) => items,
            _ => std::slice::from_ref(node),
        }
    }

    /// The names and values of a mapping whose names are not known beforehand.
    pub fn mapping<'n>(&mut self, node: &'n Node) -> Option<&'n [(Node, Node)]> {
        match &node.kind {
            NodeKind::Map(fields) => Some(fields),
            _ => {
                self.wrong_type(node, "a mapping");
                None
            }
        }
    }
}

fn wrong_type(node: &Node, wanted: &str) -> Diagnostic {
    Diagnostic::error("wrong-type", node.span, format!("expected {wanted}, found {}", node.kind_name()))
}
