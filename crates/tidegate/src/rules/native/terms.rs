//! The terms on which a rule applies its limits, and a limit that has terms of its own.

use tidegate_core::rules::{CostFrom, Key, Missing};

use super::super::Span;
use super::super::file::LimitSpans;
use super::super::reader::{Fields, Reader};
use super::action::{self, ActionSpec};
use super::cost;
use super::key::{self, Scope};

/// The fields that a rule and its limits share, and where they stand.
#[derive(Clone, Default)]
pub(super) struct Terms {
    pub key: Key,
    pub missing: Missing,
    pub cost: CostFrom,
    pub action: ActionSpec,
    key_at: Option<Span>,
    cost_at: Option<Span>,
    action_at: Option<Span>,
}

impl Terms {
    /// These terms, but for what the fields say.
    pub fn overridden(mut self, reader: &mut Reader<'_>, fields: &mut Fields<'_>, scope: &Scope) -> Self {
        if let Some(node) = fields.value("key") {
            self.key_at = Some(node.span);
            self.key = key::read(reader, node, scope).unwrap_or(self.key);
        }
        if let Some(node) = fields.value("missing") {
            let words = [("skip", Missing::Skip), ("deny", Missing::Deny), ("shared", Missing::Shared)];
            self.missing = reader.word("value of `missing`", node, &words).unwrap_or(self.missing);
        }
        if let Some(node) = fields.value("cost") {
            self.cost_at = Some(node.span);
            self.cost = cost::read(reader, node).unwrap_or(self.cost);
        }
        if let Some(node) = fields.value("action") {
            self.action_at = Some(node.span);
            // Not the rule's action instead: what is wrong with that for this limit would be said in vain.
            self.action = action::read(reader, node).unwrap_or_default();
        }
        self
    }

    /// These terms for a limit that does nothing.
    pub fn with_no_action(self) -> Self {
        Self { action: ActionSpec::default(), action_at: None, ..self }
    }

    /// Where the terms stand of a limit that stands here.
    pub fn spans(&self, limit: Span) -> LimitSpans {
        LimitSpans {
            limit,
            key: self.key_at.unwrap_or(limit),
            cost: self.cost_at.unwrap_or(limit),
            action: self.action_at.unwrap_or(limit),
        }
    }
}
