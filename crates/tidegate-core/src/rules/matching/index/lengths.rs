//! Beginnings and ends of few different lengths.

use std::collections::BTreeMap;

use super::offer::{By, Offer, Wants};
use super::slot::{LENGTHS_MAX, SlotId};

/// The lengths of the beginnings, or ends, that rules ask of one slot.
#[derive(Default)]
pub(super) struct Lengths {
    /// How many ask for each.
    asked: BTreeMap<usize, usize>,
    /// Those that are looked up.
    kept: Vec<usize>,
}

/// A beginning or an end of a slot's values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Beginning(SlotId),
    End(SlotId),
}

impl Lengths {
    /// Cuts what rules are found by to few different lengths. What is cut is no proof any more.
    pub(super) fn shorten(wants: &mut [Wants<'_>]) {
        let mut sides: BTreeMap<Side, Lengths> = BTreeMap::new();
        for offer in wants.iter().flat_map(|wants| &wants.each).filter_map(|want| want.offer.as_ref()) {
            if let Some((side, text)) = side_of(offer) {
                *sides.entry(side).or_default().asked.entry(text.len()).or_default() += 1;
            }
        }
        sides.values_mut().for_each(Self::keep);
        for offer in wants.iter_mut().flat_map(|wants| &mut wants.each).filter_map(|want| want.offer.as_mut())
        {
            if let Some((side, text)) = side_of(offer)
                && let Some(length) = sides.get(&side).map(|lengths| lengths.at_most(text.len()))
                && length < text.len()
            {
                offer.is_proof = false;
                offer.by = match side {
                    Side::Beginning(_) => By::Beginning(&text[..length]),
                    Side::End(_) => By::End(&text[text.len() - length..]),
                };
            }
        }
    }

    /// Keeps the shortest, and others so that about as many rules are at each.
    fn keep(&mut self) {
        let rules: usize = self.asked.values().sum();
        let mut before = 0;
        for (length, asking) in &self.asked {
            let is_due = before * LENGTHS_MAX >= self.kept.len() * rules;
            if self.asked.len() <= LENGTHS_MAX || (is_due && self.kept.len() < LENGTHS_MAX) {
                self.kept.push(*length);
            }
            before += asking;
        }
    }

    /// The longest kept that is not longer.
    fn at_most(&self, length: usize) -> usize {
        let end = self.kept.partition_point(|kept| *kept <= length);
        self.kept[..end].last().copied().unwrap_or(length)
    }
}

fn side_of<'r>(offer: &Offer<'r>) -> Option<(Side, &'r [u8])> {
    match offer.by {
        By::Beginning(text) => Some((Side::Beginning(offer.slot), text)),
        By::End(text) => Some((Side::End(offer.slot), text)),
        _ => None,
    }
}
