//! Limits for a rule that is written in another language: what files for envoyproxy/ratelimit borrow from this one.

use tidegate_core::rules::{Action, Key, RuleLimit};

use super::super::file::LimitSpans;
use super::super::reader::{Fields, Reader};
use super::super::yaml::Node;
use super::action::ActionSpec;
use super::key::{EntryCount, Scope};
use super::terms::Terms;
use super::{limit, limits};

/// The terms on which such a rule applies its limits.
pub(in super::super) struct LimitTerms {
    terms: Terms,
    scope: Scope,
}

impl LimitTerms {
    /// Those of a rule for so many entries; its counters have this key.
    pub fn new(key: Key, entries: usize, action: Option<Action>) -> Self {
        let mut terms = Terms::default();
        terms.key = key;
        terms.action = action.map(ActionSpec::Ready).unwrap_or_default();
        Self { terms, scope: Scope::of_entries(EntryCount::Exactly(entries)) }
    }

    /// Takes `key`, `missing`, `cost` and `action` from these fields, where they are given.
    pub fn override_with(&mut self, reader: &mut Reader<'_>, fields: &mut Fields<'_>) {
        self.terms = std::mem::take(&mut self.terms).overridden(reader, fields, &self.scope);
    }

    /// One limit.
    pub fn limit(&self, reader: &mut Reader<'_>, node: &Node) -> Option<(RuleLimit, LimitSpans)> {
        limit::read(reader, node, &self.terms, &self.scope).map(|read| (read.limit, read.at))
    }

    /// One limit or a list of them.
    pub fn limits(&self, reader: &mut Reader<'_>, node: &Node) -> Option<Vec<(RuleLimit, LimitSpans)>> {
        let read = limits::list(reader, node, &self.terms, &self.scope)?;
        Some(read.into_iter().map(|read| (read.limit, read.at)).collect())
    }
}
