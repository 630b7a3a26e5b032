//! What matching means, one rule and one condition at a time.

use std::iter::once;

use super::{AttributeValues, Mismatch};
use crate::rules::{CaseSensitivity, Condition, Descriptor, EntryPatterns, Pattern, Rule};

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
        let named = descriptor.entries.iter().filter(|entry| attribute.matches_key(entry.key));
        let values = named.map(|entry| attribute.comparable_part(entry.value));
        if self.pattern.matches_values(values, attribute.case()) {
            return None;
        }
        let found = AttributeValues::new(attribute, descriptor.entries);
        Some(Mismatch::Attribute { attribute, expected: &self.pattern, actual: found })
    }
}

impl EntryPatterns {
    /// What keeps a descriptor's entries from being these; nothing if they are. Unlike attributes, names and values
    /// are compared as they are: a `method` is text like any other.
    pub fn mismatch<'a>(&'a self, descriptor: &Descriptor<'a>) -> Option<Mismatch<'a>> {
        let (wanted, found) = (self.patterns.len(), descriptor.entries.len());
        if found < wanted || (found > wanted && !self.allows_more) {
            return Some(Mismatch::EntryCount { entries: self, actual: found });
        }
        let pairs = self.patterns.iter().zip(descriptor.entries).enumerate();
        pairs.into_iter().find_map(|(place, ((name, pattern), entry))| {
            if **name != *entry.key {
                return Some(Mismatch::EntryName { index: place, expected: name, actual: entry.key });
            }
            let holds = pattern.matches_values(once(entry.value), CaseSensitivity::Sensitive);
            (!holds).then_some(Mismatch::EntryValue { index: place, name, expected: pattern, actual: entry.value })
        })
    }
}

impl Pattern {
    /// Whether these are values as it wants them: one of them, or for a negation none.
    pub(super) fn matches_values<'v>(&self, mut values: impl Iterator<Item = &'v str>, case: CaseSensitivity) -> bool {
        let (mut inner, mut is_negated) = (self, false);
        while let Self::Not(pattern) = inner {
            inner = pattern;
            is_negated = !is_negated;
        }
        let holds = match inner {
            Self::Absent => values.next().is_none(),
            _ => values.any(|value| inner.matches_value(value, case)),
        };
        holds != is_negated
    }

    /// Whether a single value is as it wants it.
    fn matches_value(&self, value: &str, case: CaseSensitivity) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(wanted) => case.are_equal(value, wanted),
            Self::OneOf(set) => set.contains(value, case),
            Self::Prefix(beginning) => case.strip_prefix(value, beginning).is_some(),
            Self::Wildcard(wildcard) => wildcard.is_match(value, case),
            Self::Regex(regex) => regex.is_match(value),
            Self::Path(path) => path.is_match(value),
            Self::Paths(set) => set.is_match(value),
            Self::Nets(set) => value.parse().is_ok_and(|address| set.contains(address)),
            // These two are about all values, see above.
            Self::Not(_) | Self::Absent => false,
        }
    }
}
