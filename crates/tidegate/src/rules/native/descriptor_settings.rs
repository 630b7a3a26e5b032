//! Limits for a rule that is written in another language: what files for envoyproxy/ratelimit borrow from this one.

use tidegate_core::rules::{Action, KeySpec, RuleLimit};

use super::super::file::LimitSpans;
use super::super::reader::{Fields, Reader};
use super::super::yaml::Node;
use super::action::ActionSpec;
use super::key::{EntryCount, KeyScope};
use super::limit_settings::LimitSettings;
use super::{limit, limits};

/// The terms on which such a rule applies its limits.
pub(in super::super) struct DescriptorSettings {
    settings: LimitSettings,
    scope: KeyScope,
}

impl DescriptorSettings {
    /// Those of a rule for so many entries; its counters have this key.
    pub fn new(key: KeySpec, entries: usize, action: Option<Action>) -> Self {
        let mut terms = LimitSettings::default();
        terms.key = key;
        terms.action = action.map(ActionSpec::Ready).unwrap_or_default();
        Self { settings: terms, scope: KeyScope::from_entries(EntryCount::Exactly(entries)) }
    }

    /// Takes `key`, `missing`, `cost` and `action` from these fields, where they are given.
    pub fn override_with(&mut self, reader: &mut Reader<'_>, fields: &mut Fields<'_>) {
        self.settings = std::mem::take(&mut self.settings).override_with(reader, fields, &self.scope);
    }

    /// One limit.
    pub fn limit(&self, reader: &mut Reader<'_>, node: &Node) -> Option<(RuleLimit, LimitSpans)> {
        limit::read(reader, node, &self.settings, &self.scope).map(|read| (read.limit, read.spans))
    }

    /// One limit or a list of them.
    pub fn limits(&self, reader: &mut Reader<'_>, node: &Node) -> Option<Vec<(RuleLimit, LimitSpans)>> {
        let read = limits::read_list(reader, node, &self.settings, &self.scope)?;
        Some(read.into_iter().map(|read| (read.limit, read.spans)).collect())
    }
}
