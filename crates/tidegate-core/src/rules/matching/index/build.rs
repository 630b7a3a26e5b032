//! Making an index: every rule is put where the fewest others are.
//!
//! First all that each rule can be found by is counted, then each is put under one of them. Rules that are still
//! many under a token are told apart by the values that they ask of other slots, all of them together. So a rule
//! for one tenant, method and shape of a path is found in a step even if its tenant, its method and its path each
//! have thousands of rules.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::check::Check;
use super::lengths::Lengths;
use super::offer::{By, Offer, Wants, each_shape};
use super::slot::{SlotId, Slots};
use super::table::TableBuilder;
use super::token::{Minter, Token, TokenMap};
use super::tree::Tree;
use super::{Checks, Index};
use crate::rules::{PathPattern, Rule};

/// Rules under one token that are as good as one: checking them costs less than telling them apart.
const FEW_RULES: u32 = 4;

/// What is known while an index is made.
pub(super) struct Builder<'r> {
    slots: Slots,
    tree: Tree,
    table: TableBuilder,
    checks: Vec<Check>,
    checks_of: Vec<Checks>,
    always: Vec<u32>,
    shapes: Vec<(SlotId, &'r PathPattern, Token)>,
    /// How many rules can be found by a token.
    counts: TokenMap<u32>,
}

/// Where a rule is put.
#[derive(Clone, Copy)]
struct Place<'r> {
    offer: Offer<'r>,
    /// Which of the things that the rule asks for it is.
    want: usize,
    is_refined: bool,
}

impl<'r> Builder<'r> {
    pub(super) fn index(rules: &'r [Rule]) -> Index {
        let minter = Minter::random();
        let mut builder = Self {
            slots: Slots::new(&minter),
            tree: Tree::new(&minter),
            table: TableBuilder::default(),
            checks: Vec::new(),
            checks_of: Vec::with_capacity(rules.len()),
            always: Vec::new(),
            shapes: Vec::new(),
            counts: TokenMap::default(),
        };
        let mut wants: Vec<Wants<'r>> =
            rules.iter().map(|rule| Wants::new(rule, &mut builder.slots)).collect();
        Lengths::shorten(&mut wants);
        wants.iter().for_each(|wants| builder.count(wants));
        for (number, wants) in (0..).zip(&wants) {
            builder.place(number, wants);
        }
        builder.finish()
    }

    fn count(&mut self, wants: &Wants<'r>) {
        let mut is_first_value = true;
        for offer in wants.each.iter().filter_map(|want| want.offer) {
            // Whichever value comes first, all of them together are the same.
            let is_counted = !matches!(offer.by, By::Value(_)) || std::mem::take(&mut is_first_value);
            let beside = wants.together_beside(offer.slot).filter(|_| is_counted);
            offer.each_token(&self.slots, |token| {
                *self.counts.entry(token).or_default() += 1;
                if let Some(beside) = beside {
                    *self.counts.entry(token.and(beside)).or_default() += 1;
                }
            });
        }
    }

    fn place(&mut self, rule: u32, wants: &Wants<'r>) {
        let best = self.best(wants).map(|place| self.settle(rule, wants, place));
        let is_proved = |number: usize, check: &Check| match (best, check) {
            (Some(place), _) if number == place.want => place.offer.is_proof,
            // The first value of each slot is among those that tell rules apart.
            (Some(place), Check::Value { slot, token }) if place.is_refined && *slot != place.offer.slot => {
                wants.values.iter().any(|value| value.slot == *slot && value.token == *token)
            }
            _ => false,
        };
        let start = end_of(&self.checks);
        let numbered = || wants.each.iter().map(|want| want.check).enumerate();
        self.checks.extend(numbered().filter(|(at, check)| is_proved(*at, check)).map(|(_, check)| check));
        let proved = end_of(&self.checks);
        self.checks.extend(numbered().filter(|(at, check)| !is_proved(*at, check)).map(|(_, check)| check));
        self.checks_of.push(Checks { start, proved, end: end_of(&self.checks) });
        if best.is_none() {
            self.always.push(rule);
        }
    }

    /// The place with the fewest rules.
    fn best(&self, wants: &Wants<'r>) -> Option<Place<'r>> {
        let offers = wants.each.iter().enumerate().filter_map(|(want, each)| Some((want, each.offer?)));
        let places = offers.flat_map(|(want, offer)| {
            let beside = wants.together_beside(offer.slot);
            let (mut rules, mut refined_rules) = (0, 0);
            offer.each_token(&self.slots, |token| {
                let count = |token: Token| self.counts.get(&token).copied().unwrap_or(0);
                rules = rules.max(count(token));
                refined_rules = refined_rules.max(beside.map_or(0, |beside| count(token.and(beside))));
            });
            let plain = (rules, Place { offer, want, is_refined: false });
            let refined = (refined_rules, Place { offer, want, is_refined: true });
            std::iter::once(plain).chain(beside.map(|_| refined))
        });
        let cost = |(rules, place): &(u32, Place<'_>)| {
            ((*rules).max(FEW_RULES), place.is_refined, place.offer.by.preference(), *rules)
        };
        places.min_by_key(cost).map(|(_, place)| place)
    }

    /// Puts a rule in its place, or next to it if there is no room to tell it apart.
    fn settle(&mut self, rule: u32, wants: &Wants<'r>, mut place: Place<'r>) -> Place<'r> {
        let offer = place.offer;
        let mut tokens: SmallVec<[Token; 4]> = SmallVec::new();
        offer.each_token(&self.slots, |token| tokens.push(token));
        if place.is_refined {
            let slots: SmallVec<[SlotId; 4]> =
                wants.values_beside(offer.slot).map(|value| value.slot).collect();
            let set = self.table.set(&slots);
            place.is_refined = tokens.iter().all(|token| self.table.has_room(*token, set));
            if place.is_refined {
                self.table.add_to_set(set, rule);
                tokens.iter().for_each(|token| self.table.refine(*token, set));
            }
        }
        let beside = wants.together_beside(offer.slot).filter(|_| place.is_refined).unwrap_or_default();
        tokens.iter().for_each(|token| self.table.add(token.and(beside), rule));
        self.note_use(&offer);
        place
    }

    /// Has whatever is needed to find the rule looked up.
    fn note_use(&mut self, offer: &Offer<'r>) {
        if let By::Shapes(paths) = offer.by {
            let shapes = &mut self.shapes;
            each_shape(self.slots.get(offer.slot), paths, |path, token| {
                shapes.push((offer.slot, path, token));
            });
        }
        let uses = &mut self.slots.get_mut(offer.slot).uses;
        match offer.by {
            By::Value(_) | By::Values(_) => (uses.is_hashed, uses.has_values) = (true, true),
            By::Presence => uses.has_presence = true,
            By::Beginning(text) if !uses.beginnings.contains(&text.len()) => uses.beginnings.push(text.len()),
            By::End(text) if !uses.ends.contains(&text.len()) => uses.ends.push(text.len()),
            By::Blocks(set) => {
                for net in set.nets() {
                    let bits = if net.first().is_ipv4() { &mut uses.ipv4_bits } else { &mut uses.ipv6_bits };
                    if !bits.contains(&net.prefix_bits()) {
                        bits.push(net.prefix_bits());
                    }
                }
            }
            By::Beginning(_) | By::End(_) | By::Shapes(_) => {}
        }
    }

    fn finish(mut self) -> Index {
        for check in &self.checks {
            if let Check::Value { slot, .. } = check {
                self.slots.get_mut(*slot).uses.is_hashed = true;
            }
        }
        for id in self.slots.ids() {
            let uses = &mut self.slots.get_mut(id).uses;
            uses.beginnings.sort_unstable();
            uses.ends.sort_unstable();
        }
        let table = self.table.finish();
        let mut roots: BTreeMap<SlotId, u32> = BTreeMap::new();
        for (slot, path, token) in self.shapes {
            let root = *roots.entry(slot).or_insert_with(|| self.tree.add_root());
            if let Some(found) = table.find(token) {
                self.tree.add(root, path, found);
            }
        }
        roots.into_iter().for_each(|(slot, root)| self.slots.get_mut(slot).uses.root = Some(root));
        Index {
            slots: self.slots,
            tree: self.tree,
            table,
            checks: self.checks,
            checks_of: self.checks_of,
            always: self.always,
        }
    }
}

/// Rules with more than four billion conditions do not fit in memory.
fn end_of(checks: &[Check]) -> u32 {
    u32::try_from(checks.len()).unwrap_or(u32::MAX)
}
