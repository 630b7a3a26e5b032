//! Reads nodes for both languages: known fields and the expected types.

use super::{Node, NodeKind};
use crate::rules::diagnostic::{Diagnostic, Report};

/// Reads nodes, and reports what is wrong with them. A value that cannot be read is `None` and reported.
pub(crate) struct Reader<'r> {
    pub report: &'r mut Report,
}

impl<'r> Reader<'r> {
    pub fn new(report: &'r mut Report) -> Self {
        Self { report }
    }

    /// Adds an error or a warning.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.report.push(diagnostic);
    }

    /// Reports a value of another type than the wanted one, like `a list`.
    pub fn wrong_type(&mut self, node: &Node, expected: &str) {
        self.push(wrong_type(node, expected));
    }

    /// The same with a hint.
    pub fn wrong_type_hint(&mut self, node: &Node, expected: &str, hint: impl Into<String>) {
        self.push(wrong_type(node, expected).hint(hint));
    }

    /// The items of a list.
    pub fn list<'n>(&mut self, node: &'n Node) -> Option<&'n [Node]> {
        match &node.kind {
            NodeKind::Seq(items) => Some(items),
            NodeKind::Map(_) => {
                self.wrong_type_hint(node, "a list", "write each item of a list with `- ` in front of it");
                None
            }
            _ => {
                self.wrong_type(node, "a list");
                None
            }
        }
    }

    /// The items of a list, or the single value in place of a list.
    pub fn one_or_more<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        match &node.kind {
            NodeKind::Seq(items) => items,
            _ => std::slice::from_ref(node),
        }
    }

    /// The names and values of a mapping with arbitrary names.
    pub fn mapping<'n>(&mut self, node: &'n Node) -> Option<&'n [(Node, Node)]> {
        self.mapping_or(node, "a mapping", None)
    }

    /// The same, with a hint how to write it.
    pub fn mapping_hint<'n>(&mut self, node: &'n Node, hint: &str) -> Option<&'n [(Node, Node)]> {
        self.mapping_or(node, "a mapping", Some(hint))
    }

    /// The same. `what` is its name in messages. The hint replaces that about a list in place of a mapping.
    pub fn mapping_or<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        hint: Option<&str>,
    ) -> Option<&'n [(Node, Node)]> {
        let hint = match (&node.kind, hint) {
            (NodeKind::Map(fields), _) => return Some(fields),
            (_, Some(hint)) => Some(hint),
            (NodeKind::Seq(_), None) => Some("write `name: value`, without `-` or brackets around it"),
            _ => None,
        };
        match hint {
            Some(hint) => self.wrong_type_hint(node, what, hint),
            None => self.wrong_type(node, what),
        }
        None
    }
}

fn wrong_type(node: &Node, expected: &str) -> Diagnostic {
    Diagnostic::error("wrong-type", node.span, format!("expected {expected}, found {}", node.kind_name()))
}
