//! The terms on which a rule applies its limits, and a limit that has terms of its own.

use tidegate_core::rules::{CostSource, KeySpec, OnMissingKey};

use super::super::Span;
use super::super::file::LimitSpans;
use super::super::reader::{Fields, Reader};
use super::action::{self, ActionSpec};
use super::cost;
use super::key::{self, KeyScope};

/// The fields that a rule and its limits share, and where they stand.
#[derive(Clone, Default)]
pub(super) struct LimitSettings {
    pub key: KeySpec,
    pub missing: OnMissingKey,
    pub cost: CostSource,
    pub action: ActionSpec,
    key_span: Option<Span>,
    cost_span: Option<Span>,
    action_span: Option<Span>,
}

impl LimitSettings {
    /// These terms, but for what the fields say.
    pub fn override_with(mut self, reader: &mut Reader<'_>, fields: &mut Fields<'_>, scope: &KeyScope) -> Self {
        if let Some(node) = fields.value("key") {
            self.key_span = Some(node.span);
            self.key = key::read(reader, node, scope).unwrap_or(self.key);
        }
        if let Some(node) = fields.value("missing") {
            let words = [("skip", OnMissingKey::Skip), ("deny", OnMissingKey::Deny), ("shared", OnMissingKey::Shared)];
            self.missing = reader.keyword("value of `missing`", node, &words).unwrap_or(self.missing);
        }
        if let Some(node) = fields.value("cost") {
            self.cost_span = Some(node.span);
            self.cost = cost::read(reader, node).unwrap_or(self.cost);
        }
        if let Some(node) = fields.value("action") {
            self.action_span = Some(node.span);
            // Not the rule's action instead: what is wrong with that for this limit would be said in vain.
            self.action = action::read(reader, node).unwrap_or_default();
        }
        self
    }

    /// These terms for a limit that does nothing.
    pub fn without_action(self) -> Self {
        Self { action: ActionSpec::default(), action_span: None, ..self }
    }

    /// Where the terms stand of a limit that stands here.
    pub fn spans(&self, limit: Span) -> LimitSpans {
        LimitSpans {
            limit,
            key: self.key_span.unwrap_or(limit),
            cost: self.cost_span.unwrap_or(limit),
            action: self.action_span.unwrap_or(limit),
        }
    }
}
