//! The fields of a mapping: those that are known are handed out, the others are reported.

use tidegate_core::text::did_you_mean;

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::super::yaml::{NodeKind, Node, printable};
use super::Reader;

/// The fields of a mapping, each handed out once.
pub(crate) struct Fields<'n> {
    node: &'n Node,
    fields: &'n [(Node, Node)],
    /// The names that were asked for, which are the names that are known.
    listed: Vec<&'static str>,
    /// Names that were asked for and that no hint speaks of.
    unlisted: Vec<&'static str>,
}

/// A field that is there.
#[derive(Clone, Copy)]
pub(crate) struct Field<'n> {
    pub key: &'n Node,
    pub value: &'n Node,
}

impl<'n> Fields<'n> {
    /// The fields of a mapping; if it is none, that is said. `what` is what messages call it, like `a rule`.
    pub fn of(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        match &node.kind {
            NodeKind::Map(fields) => Some(Self { node, fields, listed: Vec::new(), unlisted: Vec::new() }),
            _ => {
                reader.wrong_type(node, &format!("{what} (a mapping)"));
                None
            }
        }
    }

    /// Where the mapping stands.
    pub fn span(&self) -> Span {
        self.node.span
    }

    /// The field of this name, and that there is one.
    pub fn take(&mut self, name: &'static str) -> Option<Field<'n>> {
        self.listed.push(name);
        self.find(name)
    }

    /// The field of this name, of which hints do not speak.
    pub fn take_unlisted(&mut self, name: &'static str) -> Option<Field<'n>> {
        self.unlisted.push(name);
        self.find(name)
    }

    /// The value of the field of this name, and that there is one.
    pub fn value(&mut self, name: &'static str) -> Option<&'n Node> {
        self.take(name).map(|field| field.value)
    }

    /// The same where it has to be.
    pub fn required(
        &mut self,
        reader: &mut Reader<'_>,
        name: &'static str,
        hint: impl Into<String>,
    ) -> Option<&'n Node> {
        let value = self.value(name);
        if value.is_none() {
            let message = format!("field `{name}` is missing");
            reader.push(Diagnostic::error("missing-field", self.node.span, message).hint(hint));
        }
        value
    }

    /// Reports every field that nobody asked for. `what` is what the mapping is, like `a rule`.
    pub fn finish(self, reader: &mut Reader<'_>, what: &str) {
        for (key, _) in self.fields {
            let Some(name) = key.text() else { continue };
            if self.listed.contains(&name) || self.unlisted.contains(&name) {
                continue;
            }
            let hint = did_you_mean(name, &self.listed)
                .unwrap_or_else(|| format!("{what} has these fields: {}", self.listed.join(", ")));
            let message = format!("{what} has no field `{}`", printable(name));
            reader.push(Diagnostic::error("unknown-field", key.span, message).hint(hint));
        }
    }

    fn find(&self, name: &str) -> Option<Field<'n>> {
        let (key, value) = self.fields.iter().find(|(key, _)| key.text() == Some(name))?;
        Some(Field { key, value })
    }
}
