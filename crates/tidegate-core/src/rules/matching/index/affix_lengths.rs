//! Beginnings and ends of few different lengths.

use std::collections::BTreeMap;

use super::lookup_key::{LookupKind, LookupKey, Requirements};
use super::slot::{LENGTHS_MAX, SlotId};

/// The lengths of the beginnings, or ends, that rules ask of one slot.
#[derive(Default)]
pub(super) struct AffixLengths {
    /// How many ask for each.
    rule_counts: BTreeMap<usize, usize>,
    /// Those that are looked up.
    lookup_lengths: Vec<usize>,
}

/// A beginning or an end of a slot's values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Affix {
    Prefix(SlotId),
    Suffix(SlotId),
}

impl AffixLengths {
    /// Cuts what rules are found by to few different lengths. What is cut is no proof any more.
    pub(super) fn shorten(wants: &mut [Requirements<'_>]) {
        let mut sides: BTreeMap<Affix, AffixLengths> = BTreeMap::new();
        for offer in wants.iter().flat_map(|wants| &wants.all).filter_map(|want| want.lookup.as_ref()) {
            if let Some((side, text)) = affix_of(offer) {
                *sides.entry(side).or_default().rule_counts.entry(text.len()).or_default() += 1;
            }
        }
        sides.values_mut().for_each(Self::choose);
        for offer in wants.iter_mut().flat_map(|wants| &mut wants.all).filter_map(|want| want.lookup.as_mut())
        {
            if let Some((side, text)) = affix_of(offer)
                && let Some(length) = sides.get(&side).map(|lengths| lengths.at_most(text.len()))
                && length < text.len()
            {
                offer.is_proof = false;
                offer.kind = match side {
                    Affix::Prefix(_) => LookupKind::Prefix(&text[..length]),
                    Affix::Suffix(_) => LookupKind::Suffix(&text[text.len() - length..]),
                };
            }
        }
    }

    /// Keeps the shortest, and others so that about as many rules are at each.
    fn choose(&mut self) {
        let rules: usize = self.rule_counts.values().sum();
        let mut before = 0;
        for (length, asking) in &self.rule_counts {
            let is_due = before * LENGTHS_MAX >= self.lookup_lengths.len() * rules;
            if self.rule_counts.len() <= LENGTHS_MAX || (is_due && self.lookup_lengths.len() < LENGTHS_MAX) {
                self.lookup_lengths.push(*length);
            }
            before += asking;
        }
    }

    /// The longest kept that is not longer.
    fn at_most(&self, length: usize) -> usize {
        let end = self.lookup_lengths.partition_point(|kept| *kept <= length);
        self.lookup_lengths[..end].last().copied().unwrap_or(length)
    }
}

fn affix_of<'r>(offer: &LookupKey<'r>) -> Option<(Affix, &'r [u8])> {
    match offer.kind {
        LookupKind::Prefix(text) => Some((Affix::Prefix(offer.slot), text)),
        LookupKind::Suffix(text) => Some((Affix::Suffix(offer.slot), text)),
        _ => None,
    }
}
