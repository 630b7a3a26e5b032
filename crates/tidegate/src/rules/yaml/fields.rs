//! The fields of a mapping: takes the known ones, and reports the others.

use tidegate_core::text::did_you_mean;

use super::reader::Reader;
use super::{Node, printable};
use crate::rules::Span;
use crate::rules::diagnostic::Diagnostic;

/// The fields of a mapping.
pub(crate) struct Fields<'n> {
    node: &'n Node,
    fields: &'n [(Node, Node)],
    /// The names that were taken, which are the known names.
    listed: Vec<&'static str>,
    /// Names that were taken but are not in hints.
    unlisted: Vec<&'static str>,
}

/// A field of a mapping.
#[derive(Clone, Copy)]
pub(crate) struct Field<'n> {
    pub key: &'n Node,
    pub value: &'n Node,
}

impl<'n> Fields<'n> {
    /// The fields of a mapping. Reports any other value. `what` is its name in messages, like `a rule`.
    pub fn of(reader: &mut Reader<'_>, node: &'n Node, what: &str) -> Option<Self> {
        let fields = reader.mapping_or(node, &format!("{what} (a mapping)"), None)?;
        Some(Self { node, fields, listed: Vec::new(), unlisted: Vec::new() })
    }

    /// The same, with a hint how to write it.
    pub fn of_hint(reader: &mut Reader<'_>, node: &'n Node, what: &str, hint: &str) -> Option<Self> {
        let fields = reader.mapping_or(node, &format!("{what} (a mapping)"), Some(hint))?;
        Some(Self { node, fields, listed: Vec::new(), unlisted: Vec::new() })
    }

    /// The position of the mapping.
    pub fn span(&self) -> Span {
        self.node.span
    }

    /// Takes the field of this name, and makes the name known.
    pub fn take(&mut self, name: &'static str) -> Option<Field<'n>> {
        self.listed.push(name);
        self.find(name)
    }

    /// Takes the field of this name, without listing the name in hints.
    pub fn take_unlisted(&mut self, name: &'static str) -> Option<Field<'n>> {
        self.unlisted.push(name);
        self.find(name)
    }

    /// Takes the value of the field of this name, and makes the name known.
    pub fn value(&mut self, name: &'static str) -> Option<&'n Node> {
        self.take(name).map(|field| field.value)
    }

    /// The same for a required field.
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

    /// Reports every unknown field. `what` is the name of the mapping in messages, like `a rule`.
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
