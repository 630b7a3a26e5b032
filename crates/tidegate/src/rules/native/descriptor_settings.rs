//! Limits for rules of the other language: what files for envoyproxy/ratelimit borrow from native files.

use tidegate_core::rules::{Action, KeySpec, RuleLimit};

use super::action::ActionSpec;
use super::key::{EntryCount, KeyScope};
use super::limit_settings::LimitSettings;
use super::{limit, limits};
use crate::rules::file::LimitSpans;
use crate::rules::yaml::{Fields, Node, Reader};

/// The settings with which such a rule applies its limits.
pub(crate) struct DescriptorSettings {
    settings: LimitSettings,
    scope: KeyScope,
}

impl DescriptorSettings {
    /// The settings of a rule for this number of entries, whose counters have this key.
    pub fn new(key: KeySpec, entries: usize, action: Option<Action>) -> Self {
        let mut settings = LimitSettings::default();
        settings.key = key;
        settings.action = action.map(ActionSpec::Ready).unwrap_or_default();
        Self { settings, scope: KeyScope::from_entries(EntryCount::Exactly(entries)) }
    }

    /// Takes `key`, `missing`, `cost` and `action` from these fields, where they are given.
    pub fn override_with(&mut self, reader: &mut Reader<'_>, fields: &mut Fields<'_>) {
        self.settings = std::mem::take(&mut self.settings).override_with(reader, fields, &self.scope);
    }

    /// One limit.
    pub fn limit(&self, reader: &mut Reader<'_>, node: &Node) -> Option<(RuleLimit, LimitSpans)> {
        limit::read(reader, node, &self.settings, &self.scope).map(|limit| (limit.limit, limit.spans))
    }

    /// One limit or a list of them.
    pub fn limits(&self, reader: &mut Reader<'_>, node: &Node) -> Option<Vec<(RuleLimit, LimitSpans)>> {
        let limits = limits::read_list(reader, node, &self.settings, &self.scope)?;
        Some(limits.into_iter().map(|limit| (limit.limit, limit.spans)).collect())
    }
}
