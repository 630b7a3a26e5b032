//! Reads the settings of a rule for a shared store.

use tidegate_core::rules::Rule;
use tidegate_core::{DenyCache, OnStoreFailure};

use super::mode::{self, WrittenMode};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Fields, Node, Reader};

/// Where a rule's limits are counted, what happens to them while the store does not reply, and whether the deny cache
/// may be used.
#[derive(Clone, Copy, Default)]
pub(crate) struct StoreSettings {
    pub mode: WrittenMode,
    on_store_failure: Option<OnStoreFailure>,
    deny_cache: DenyCache,
}

impl StoreSettings {
    /// Takes `mode`, `on_store_failure` and `deny_cache` from these fields, where they are given.
    pub fn read(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Self {
        let mut settings = Self { mode: WrittenMode::read(reader, fields), ..Self::default() };
        if let Some(node) = fields.value("on_store_failure") {
            settings.on_store_failure = policy(reader, node);
        }
        if let Some(node) = fields.value("deny_cache") {
            let is_on = reader.boolean(node).unwrap_or(true);
            settings.deny_cache = if is_on { DenyCache::On } else { DenyCache::Off };
        }
        settings
    }

    /// Applies the settings to a rule.
    pub fn apply(self, rule: &mut Rule) {
        let Self { mode, on_store_failure, deny_cache } = self;
        rule.mode = mode.mode;
        (rule.on_store_failure, rule.deny_cache) = (on_store_failure, deny_cache);
    }
}

/// Common names of the two policies that are not the default.
const POLICY_SYNONYMS: [(&str, OnStoreFailure); 6] = [
    ("open", OnStoreFailure::Allow),
    ("fail_open", OnStoreFailure::Allow),
    ("pass", OnStoreFailure::Allow),
    ("closed", OnStoreFailure::Deny),
    ("fail_closed", OnStoreFailure::Deny),
    ("reject", OnStoreFailure::Deny),
];

fn policy(reader: &mut Reader<'_>, node: &Node) -> Option<OnStoreFailure> {
    let keywords = OnStoreFailure::ALL.map(|policy| (policy.as_str(), policy));
    reader.keyword_or_synonym("value of `on_store_failure`", node, &keywords, &POLICY_SYNONYMS)
}

/// Reports fields of a rule that were given to a limit.
pub(super) fn report_misplaced_store_settings(reader: &mut Reader<'_>, fields: &mut Fields<'_>) {
    for name in mode::FIELDS.into_iter().chain(["on_store_failure", "deny_cache"]) {
        let Some(field) = fields.take_unlisted(name) else { continue };
        let message = format!("`{name}` belongs to a rule, not to a limit");
        let diagnostic = Diagnostic::error("unknown-field", field.key.span, message);
        reader.push(diagnostic.hint("it applies to all limits of the rule; write it beside `limit`"));
    }
}
