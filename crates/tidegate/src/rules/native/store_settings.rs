//! What a rule says of the store that a fleet shares.

use tidegate_core::rules::{DenyCache, OnStoreFailure, Rule};

use super::super::diagnostic::Diagnostic;
use super::super::reader::{Fields, Reader};
use super::super::yaml::{Node, printable};

/// What becomes of a rule's limits while that store does not answer, and what it need not be asked.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct StoreSettings {
    on_store_failure: Option<OnStoreFailure>,
    deny_cache: DenyCache,
}

impl StoreSettings {
    /// Takes `on_store_failure` and `deny_cache` from these fields, where they are given.
    pub fn read(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Self {
        let mut terms = Self::default();
        if let Some(node) = fields.value("on_store_failure") {
            terms.on_store_failure = policy(reader, node);
        }
        if let Some(node) = fields.value("deny_cache") {
            let is_on = reader.boolean(node).unwrap_or(true);
            terms.deny_cache = if is_on { DenyCache::On } else { DenyCache::Off };
        }
        terms
    }

    /// The rule says so from now on.
    pub fn apply(self, rule: &mut Rule) {
        let Self { on_store_failure, deny_cache } = self;
        (rule.on_store_failure, rule.deny_cache) = (on_store_failure, deny_cache);
    }
}

/// What others call the two policies that are not the default. The nearest of our own words would be the wrong one.
const POLICY_SYNONYMS: [(&str, OnStoreFailure); 6] = [
    ("open", OnStoreFailure::Allow),
    ("fail_open", OnStoreFailure::Allow),
    ("pass", OnStoreFailure::Allow),
    ("closed", OnStoreFailure::Deny),
    ("fail_closed", OnStoreFailure::Deny),
    ("reject", OnStoreFailure::Deny),
];

fn policy(reader: &mut Reader<'_>, node: &Node) -> Option<OnStoreFailure> {
    const WHAT: &str = "value of `on_store_failure`";
    let text = reader.text(node)?;
    if let Some((_, meant)) = POLICY_SYNONYMS.iter().find(|(word, _)| *word == text) {
        let found = Diagnostic::error("unknown-word", node.span, format!("unknown {WHAT} `{}`", printable(text)));
        reader.push(found.hint(format!("here it is called `{}`", meant.as_str())));
        return None;
    }
    reader.keyword(WHAT, node, &OnStoreFailure::ALL.map(|policy| (policy.as_str(), policy)))
}

/// Says of a limit's fields that they are a rule's.
pub(super) fn report_misplaced_store_settings(reader: &mut Reader<'_>, fields: &mut Fields<'_>) {
    for name in ["on_store_failure", "deny_cache"] {
        let Some(field) = fields.take_unlisted(name) else { continue };
        let message = format!("`{name}` belongs to a rule, not to a limit");
        let found = Diagnostic::error("unknown-field", field.key.span, message);
        reader.push(found.hint("it is for all limits of the rule; write it beside `limit`"));
    }
}
