//! What matching means, one rule and one condition at a time.

use std::iter::once;

use super::{Found, Mismatch};
use crate::rules::{Case, Condition, Descriptor, Entries, Pattern, Rule};

impl Rule {
    /// What keeps the rule from matching a descriptor; nothing if it matches.
    ///
    /// ```
    /// use tidegate_core::rules::{Attribute, Condition, Descriptor, Entry, Pattern, Rule};
    ///
    /// let posts = Condition { attribute: Attribute::Method, pattern: Pattern::exact("POST")? };
    /// let rule = Rule { conditions: vec![posts], ..Rule::default() };
    ///
    /// let entries = [Entry { key: "method", value: "get" }];
    /// let mismatch = rule.mismatch(&Descriptor::new(&entries, 1));
    /// assert_eq!(mismatch.unwrap().to_string(), "method is get, not POST");
    ///
    /// let entries = [Entry { key: "path", value: "/" }, Entry { key: "method", value: "post" }];
    /// assert!(rule.mismatch(&Descriptor::new(&entries, 1)).is_none());
    /// # Ok::<(), tidegate_core::rules::PatternError>(())
    /// ```
    pub fn mismatch<'a>(&'a self, descriptor: &Descriptor<'a>) -> Option<Mismatch<'a>> {
        let conditions = || self.conditions.iter().find_map(|condition| condition.mismatch(descriptor));
        let entries = || self.entries.as_ref().and_then(|entries| entries.mismatch(descriptor));
        conditions().or_else(entries)
    }
}

impl Condition {
    /// What keeps the condition from holding for a descriptor; nothing if it holds.
    pub fn mismatch<'a>(&'a self, descriptor: &Descriptor<'a>) -> Option<Mismatch<'a>> {
        let attribute = &self.attribute;
        let named = descriptor.entries.iter().filter(|entry| attribute.is_named(entry.key));
        let values = named.map(|entry| attribute.compared(entry.value));
        if self.pattern.holds_for(values, attribute.case()) {
            return None;
        }
        let found = Found::new(attribute, descriptor.entries);
        Some(Mismatch::Attribute { attribute, wanted: &self.pattern, found })
    }
}

impl Entries {
    /// What keeps a descriptor's entries from being these; nothing if they are. Unlike attributes, names and values
    /// are compared as they are: a `method` is text like any other.
    pub fn mismatch<'a>(&'a self, descriptor: &Descriptor<'a>) -> Option<Mismatch<'a>> {
        let (wanted, found) = (self.each.len(), descriptor.entries.len());
        if found < wanted || (found > wanted && !self.open) {
            return Some(Mismatch::Count { entries: self, found });
        }
        let pairs = self.each.iter().zip(descriptor.entries).enumerate();
        pairs.into_iter().find_map(|(place, ((name, pattern), entry))| {
            if **name != *entry.key {
                return Some(Mismatch::EntryName { place, wanted: name, found: entry.key });
            }
            let holds = pattern.holds_for(once(entry.value), Case::Kept);
            (!holds).then_some(Mismatch::EntryValue { place, name, wanted: pattern, found: entry.value })
        })
    }
}

impl Pattern {
    /// Whether these are values as it wants them: one of them, or for a negation none.
    pub(super) fn holds_for<'v>(&self, mut values: impl Iterator<Item = &'v str>, case: Case) -> bool {
        let (mut inner, mut is_negated) = (self, false);
        while let Self::Not(pattern) = inner {
            inner = pattern;
            is_negated = !is_negated;
        }
        let holds = match inner {
            Self::Absent => values.next().is_none(),
            _ => values.any(|value| inner.accepts(value, case)),
        };
        holds != is_negated
    }

    /// Whether a single value is as it wants it.
    fn accepts(&self, value: &str, case: Case) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(wanted) => case.are_equal(value, wanted),
            Self::OneOf(set) => set.contains(value, case),
            Self::Prefix(beginning) => case.strip_prefix(value, beginning).is_some(),
            Self::Wildcard(wildcard) => wildcard.is_like(value, case),
            Self::Regex(regex) => regex.is_match(value),
            Self::Path(path) => path.is_shape_of(value),
            Self::Paths(set) => set.has_shape_of(value),
            Self::Nets(set) => value.parse().is_ok_and(|address| set.contains(address)),
            // These two are about all values, see above.
            Self::Not(_) | Self::Absent => false,
        }
    }
}
