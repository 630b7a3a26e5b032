//! Limits the number of different prefix and suffix lengths.

use std::collections::BTreeMap;

use super::lookup_key::{LookupKey, LookupKind, Requirements};
use super::slot::{LENGTHS_MAX, SlotId};

/// The lengths of the prefixes or suffixes that rules require of one slot.
#[derive(Default)]
pub(super) struct AffixLengths {
    /// The number of rules for each length.
    rule_counts: BTreeMap<usize, usize>,
    /// The lengths that are looked up.
    lookup_lengths: Vec<usize>,
}

/// The prefixes or the suffixes of a slot's values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Affix {
    Prefix(SlotId),
    Suffix(SlotId),
}

impl AffixLengths {
    /// Truncates prefixes and suffixes to a few different lengths. A truncated one no longer proves its condition.
    pub(super) fn shorten(rules: &mut [Requirements<'_>]) {
        let mut lengths: BTreeMap<Affix, AffixLengths> = BTreeMap::new();
        for lookup in
            rules.iter().flat_map(|rule| &rule.all).filter_map(|requirement| requirement.lookup.as_ref())
        {
            if let Some((affix, text)) = affix_of(lookup) {
                *lengths.entry(affix).or_default().rule_counts.entry(text.len()).or_default() += 1;
            }
        }
        lengths.values_mut().for_each(Self::choose);
        for lookup in rules
            .iter_mut()
            .flat_map(|rule| &mut rule.all)
            .filter_map(|requirement| requirement.lookup.as_mut())
        {
            if let Some((affix, text)) = affix_of(lookup)
                && let Some(length) = lengths.get(&affix).map(|lengths| lengths.at_most(text.len()))
                && length < text.len()
            {
                lookup.is_proof = false;
                lookup.kind = match affix {
                    Affix::Prefix(_) => LookupKind::Prefix(&text[..length]),
                    Affix::Suffix(_) => LookupKind::Suffix(&text[text.len() - length..]),
                };
            }
        }
    }

    /// Chooses the shortest length, and further lengths so that each has about the same number of rules.
    fn choose(&mut self) {
        let rules: usize = self.rule_counts.values().sum();
        let mut before = 0;
        for (length, rule_count) in &self.rule_counts {
            let is_due = before * LENGTHS_MAX >= self.lookup_lengths.len() * rules;
            if self.rule_counts.len() <= LENGTHS_MAX || (is_due && self.lookup_lengths.len() < LENGTHS_MAX) {
                self.lookup_lengths.push(*length);
            }
            before += rule_count;
        }
    }

    /// The longest chosen length that is at most `length`.
    fn at_most(&self, length: usize) -> usize {
        let end = self.lookup_lengths.partition_point(|chosen| *chosen <= length);
        self.lookup_lengths[..end].last().copied().unwrap_or(length)
    }
}

fn affix_of<'r>(lookup: &LookupKey<'r>) -> Option<(Affix, &'r [u8])> {
    match lookup.kind {
        LookupKind::Prefix(text) => Some((Affix::Prefix(lookup.slot), text)),
        LookupKind::Suffix(text) => Some((Affix::Suffix(lookup.slot), text)),
        _ => None,
    }
}
