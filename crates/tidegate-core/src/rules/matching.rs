//! Defines what matching means, one rule and one condition at a time.

use std::iter::once;

use super::client_address::parse_client_address;
use super::mismatch::{AttributeValues, Mismatch};
use super::pattern::is_too_long;
use super::{CaseSensitivity, Condition, Descriptor, Entry, EntryPatterns, Pattern, Rule};

impl Rule {
    /// Why the rule does not match a descriptor. `None` if it matches.
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

    /// Whether the rule matches a descriptor only because a value is too long for a regular expression
    /// ([`REGEX_VALUE_BYTES_MAX`](super::REGEX_VALUE_BYTES_MAX)).
    ///
    /// Such a value is not compared. A client must not escape a limit with a long value, so the rule then matches
    /// whatever its expression is, negated or not. For the same reason such a match replaces no other rule and does not
    /// end the search for the first rule: the client could choose the more generous rule.
    pub fn has_unread_value(&self, descriptor: &Descriptor<'_>) -> bool {
        let is_unread = |pattern: &Pattern, value: &str| {
            matches!(pattern.without_negations().0, Pattern::Regex(_)) && is_too_long(value)
        };
        let in_conditions = self.conditions.iter().any(|Condition { attribute, pattern }| {
            let named = descriptor.entries.iter().filter(|entry| attribute.matches_key(entry.key));
            named.into_iter().any(|entry| is_unread(pattern, attribute.comparable_part(entry.value)))
        });
        let patterns = self.entries.iter().flat_map(|entries| &entries.patterns);
        let mut in_order = patterns.zip(descriptor.entries);
        in_conditions || in_order.any(|((_, pattern), entry)| is_unread(pattern, entry.value))
    }
}

impl Condition {
    /// Why the condition does not hold for a descriptor. `None` if it holds.
    pub fn mismatch<'a>(&'a self, descriptor: &Descriptor<'a>) -> Option<Mismatch<'a>> {
        let attribute = &self.attribute;
        let named = descriptor.entries.iter().filter(|entry| attribute.matches_key(entry.key));
        let values = named.map(|entry| attribute.comparable_part(entry.value));
        if self.pattern.matches_values(values, attribute.case()) {
            return None;
        }
        let actual = AttributeValues::new(attribute, descriptor.entries);
        Some(Mismatch::Attribute { attribute, expected: &self.pattern, actual })
    }
}

impl EntryPatterns {
    /// Why the entries of a descriptor do not match. `None` if they match. Unlike in conditions, names and values are
    /// compared unchanged: a `method` is text like any other.
    pub fn mismatch<'a>(&'a self, descriptor: &Descriptor<'a>) -> Option<Mismatch<'a>> {
        let (expected, actual) = (self.patterns.len(), descriptor.entries.len());
        if actual < expected || (actual > expected && !self.allows_more) {
            return Some(Mismatch::EntryCount { entries: self, actual });
        }
        let pairs = self.patterns.iter().zip(descriptor.entries).enumerate();
        pairs.into_iter().find_map(|(index, ((name, pattern), entry))| {
            if let Some(prefix) = wildcard_name_prefix(name, pattern) {
                let mismatch = Mismatch::EntryName { index, expected: name, actual: entry.key };
                return (!has_name_prefix(entry, prefix)).then_some(mismatch);
            }
            if **name != *entry.key {
                return Some(Mismatch::EntryName { index, expected: name, actual: entry.key });
            }
            let holds = pattern.matches_values(once(entry.value), CaseSensitivity::Sensitive);
            (!holds).then_some(Mismatch::EntryValue { index, name, expected: pattern, actual: entry.value })
        })
    }
}

/// The text before the star, if the name of an entry is a wildcard.
pub(super) fn wildcard_name_prefix<'n>(name: &'n str, pattern: &Pattern) -> Option<&'n str> {
    if *pattern == Pattern::Any { name.strip_suffix('*') } else { None }
}

/// Whether the name and the value of an entry, with an underscore between them, begin with this text.
pub(super) fn has_name_prefix(entry: &Entry<'_>, prefix: &str) -> bool {
    let in_value = || prefix.strip_prefix(entry.key)?.strip_prefix('_');
    entry.key.starts_with(prefix) || in_value().is_some_and(|rest| entry.value.starts_with(rest))
}

impl Pattern {
    /// Whether the values match the pattern: at least one of them or, for a negation, none. A value that is too long for
    /// a regular expression matches it and its negation, see [`Rule::has_unread_value`].
    pub(super) fn matches_values<'v>(
        &self,
        mut values: impl Iterator<Item = &'v str>,
        case: CaseSensitivity,
    ) -> bool {
        let (inner, is_negated) = self.without_negations();
        let holds = match inner {
            Self::Absent => values.next().is_none(),
            Self::Regex(regex) => {
                let mut is_match = false;
                // All values, because the order of entries must not decide whether one that is too long counts.
                for value in values {
                    match regex.is_match(value) {
                        Some(matches) => is_match |= matches,
                        None => return true,
                    }
                }
                is_match
            }
            _ => values.any(|value| inner.matches_value(value, case)),
        };
        holds != is_negated
    }

    /// The pattern inside all negations, and whether it is negated.
    fn without_negations(&self) -> (&Self, bool) {
        let (mut inner, mut is_negated) = (self, false);
        while let Self::Not(pattern) = inner {
            inner = pattern;
            is_negated = !is_negated;
        }
        (inner, is_negated)
    }

    /// Whether one value matches.
    fn matches_value(&self, value: &str, case: CaseSensitivity) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(expected) => case.are_equal(value, expected),
            Self::OneOf(set) => set.contains(value, case),
            Self::Prefix(prefix) => case.strip_prefix(value, prefix).is_some(),
            Self::Wildcard(wildcard) => wildcard.is_match(value, case),
            Self::Path(path) => path.is_match(value),
            Self::Paths(set) => set.is_match(value),
            Self::Nets(set) => parse_client_address(value).is_some_and(|address| set.contains(address)),
            // Handled by the caller.
            Self::Not(_) | Self::Absent | Self::Regex(_) => false,
        }
    }
}
