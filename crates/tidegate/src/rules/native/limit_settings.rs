//! The settings with which a rule applies its limits. A limit can override them.

use tidegate_core::rules::{CostSource, KeySpec, OnMissingKey};

use super::action::{self, ActionSpec};
use super::cost;
use super::key::{self, KeyScope};
use crate::rules::Span;
use crate::rules::file::LimitSpans;
use crate::rules::yaml::{Fields, Reader};

/// The fields that a rule and its limits share, with their positions.
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
    /// These settings with the given fields replaced.
    pub fn override_with(
        mut self,
        reader: &mut Reader<'_>,
        fields: &mut Fields<'_>,
        scope: &KeyScope,
    ) -> Self {
        if let Some(node) = fields.value("key") {
            self.key_span = Some(node.span);
            self.key = key::read(reader, node, scope).unwrap_or(self.key);
        }
        if let Some(node) = fields.value("missing") {
            let keywords = [
                ("skip", OnMissingKey::Skip),
                ("deny", OnMissingKey::Deny),
                ("shared", OnMissingKey::Shared),
            ];
            self.missing = reader.keyword("value of `missing`", node, &keywords).unwrap_or(self.missing);
        }
        if let Some(node) = fields.value("cost") {
            self.cost_span = Some(node.span);
            self.cost = cost::read(reader, node).unwrap_or(self.cost);
        }
        if let Some(node) = fields.value("action") {
            self.action_span = Some(node.span);
            // Not the rule's action: an error of that one would be misleading for this limit.
            self.action = action::read(reader, node).unwrap_or_default();
        }
        self
    }

    /// These settings for a limit that does nothing.
    pub fn without_action(self) -> Self {
        Self { action: ActionSpec::default(), action_span: None, ..self }
    }

    /// The positions of the settings for a limit at this position.
    pub fn spans(&self, limit: Span) -> LimitSpans {
        LimitSpans {
            limit,
            key: self.key_span.unwrap_or(limit),
            cost: self.cost_span.unwrap_or(limit),
            action: self.action_span.unwrap_or(limit),
        }
    }
}
