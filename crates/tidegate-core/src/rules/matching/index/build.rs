//! Making an index: every rule is put where the fewest others are.
//!
//! First all that each rule can be found by is counted, then each is put under one of them. Rules that are still
//! many under a token are told apart by the values that they ask of other slots, all of them together. So a rule
//! for one tenant, method and shape of a path is found in a step even if its tenant, its method and its path each
//! have thousands of rules.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::check::Check;
use super::affix_lengths::AffixLengths;
use super::lookup_key::{LookupKind, LookupKey, Requirements, each_path};
use super::slot::{SlotId, Slots};
use super::table::TableBuilder;
use super::token::{TokenHasher, Token, TokenMap};
use super::path_trie::PathTrie;
use super::{CheckRange, RuleIndex};
use crate::rules::{PathPattern, Rule};

/// Rules under one token that are as good as one: checking them costs less than telling them apart.
const BUCKET_RULES_SMALL: u32 = 4;

/// What is known while an index is made.
pub(super) struct IndexBuilder<'r> {
    slots: Slots,
    tree: PathTrie,
    table: TableBuilder,
    checks: Vec<Check>,
    check_ranges: Vec<CheckRange>,
    unindexed: Vec<u32>,
    paths: Vec<(SlotId, &'r PathPattern, Token)>,
    /// How many rules can be found by a token.
    counts: TokenMap<u32>,
}

/// Where a rule is put.
#[derive(Clone, Copy)]
struct IndexChoice<'r> {
    lookup: LookupKey<'r>,
    /// Which of the things that the rule asks for it is.
    requirement: usize,
    is_refined: bool,
}

impl<'r> IndexBuilder<'r> {
    pub(super) fn build(rules: &'r [Rule]) -> RuleIndex {
        let minter = TokenHasher::random();
        let mut builder = Self {
            slots: Slots::new(&minter),
            tree: PathTrie::new(&minter),
            table: TableBuilder::default(),
            checks: Vec::new(),
            check_ranges: Vec::with_capacity(rules.len()),
            unindexed: Vec::new(),
            paths: Vec::new(),
            counts: TokenMap::default(),
        };
        let mut wants: Vec<Requirements<'r>> =
            rules.iter().map(|rule| Requirements::new(rule, &mut builder.slots)).collect();
        AffixLengths::shorten(&mut wants);
        wants.iter().for_each(|wants| builder.count(wants));
        for (number, wants) in (0..).zip(&wants) {
            builder.add_rule(number, wants);
        }
        builder.finish()
    }

    fn count(&mut self, wants: &Requirements<'r>) {
        let mut is_first_value = true;
        for offer in wants.all.iter().filter_map(|want| want.lookup) {
            // Whichever value comes first, all of them together are the same.
            let is_counted = !matches!(offer.kind, LookupKind::Exact(_)) || std::mem::take(&mut is_first_value);
            let beside = wants.other_values_token(offer.slot).filter(|_| is_counted);
            offer.each_token(&self.slots, |token| {
                *self.counts.entry(token).or_default() += 1;
                if let Some(beside) = beside {
                    *self.counts.entry(token.and(beside)).or_default() += 1;
                }
            });
        }
    }

    fn add_rule(&mut self, rule: u32, wants: &Requirements<'r>) {
        let best = self.cheapest(wants).map(|place| self.insert(rule, wants, place));
        let is_proved = |number: usize, check: &Check| match (best, check) {
            (Some(place), _) if number == place.requirement => place.lookup.is_proof,
            // The first value of each slot is among those that tell rules apart.
            (Some(place), Check::Value { slot, token }) if place.is_refined && *slot != place.lookup.slot => {
                wants.values.iter().any(|value| value.slot == *slot && value.token == *token)
            }
            _ => false,
        };
        let start = checks_len(&self.checks);
        let numbered = || wants.all.iter().map(|want| want.check).enumerate();
        self.checks.extend(numbered().filter(|(at, check)| is_proved(*at, check)).map(|(_, check)| check));
        let proved = checks_len(&self.checks);
        self.checks.extend(numbered().filter(|(at, check)| !is_proved(*at, check)).map(|(_, check)| check));
        self.check_ranges.push(CheckRange { start, proved_end: proved, end: checks_len(&self.checks) });
        if best.is_none() {
            self.unindexed.push(rule);
        }
    }

    /// The place with the fewest rules.
    fn cheapest(&self, wants: &Requirements<'r>) -> Option<IndexChoice<'r>> {
        let offers = wants.all.iter().enumerate().filter_map(|(want, each)| Some((want, each.lookup?)));
        let places = offers.flat_map(|(want, offer)| {
            let beside = wants.other_values_token(offer.slot);
            let (mut rules, mut refined_rules) = (0, 0);
            offer.each_token(&self.slots, |token| {
                let count = |token: Token| self.counts.get(&token).copied().unwrap_or(0);
                rules = rules.max(count(token));
                refined_rules = refined_rules.max(beside.map_or(0, |beside| count(token.and(beside))));
            });
            let plain = (rules, IndexChoice { lookup: offer, requirement: want, is_refined: false });
            let refined = (refined_rules, IndexChoice { lookup: offer, requirement: want, is_refined: true });
            std::iter::once(plain).chain(beside.map(|_| refined))
        });
        let cost = |(rules, place): &(u32, IndexChoice<'_>)| {
            ((*rules).max(BUCKET_RULES_SMALL), place.is_refined, place.lookup.kind.preference(), *rules)
        };
        places.min_by_key(cost).map(|(_, place)| place)
    }

    /// Puts a rule in its place, or next to it if there is no room to tell it apart.
    fn insert(&mut self, rule: u32, wants: &Requirements<'r>, mut place: IndexChoice<'r>) -> IndexChoice<'r> {
        let offer = place.lookup;
        let mut tokens: SmallVec<[Token; 4]> = SmallVec::new();
        offer.each_token(&self.slots, |token| tokens.push(token));
        if place.is_refined {
            let slots: SmallVec<[SlotId; 4]> =
                wants.other_values(offer.slot).map(|value| value.slot).collect();
            let set = self.table.set_number(&slots);
            place.is_refined = tokens.iter().all(|token| self.table.has_room(*token, set));
            if place.is_refined {
                self.table.add_to_set(set, rule);
                tokens.iter().for_each(|token| self.table.refine(*token, set));
            }
        }
        let beside = wants.other_values_token(offer.slot).filter(|_| place.is_refined).unwrap_or_default();
        tokens.iter().for_each(|token| self.table.add(token.and(beside), rule));
        self.record_lookup(&offer);
        place
    }

    /// Has whatever is needed to find the rule looked up.
    fn record_lookup(&mut self, offer: &LookupKey<'r>) {
        if let LookupKind::Paths(paths) = offer.kind {
            let shapes = &mut self.paths;
            each_path(self.slots.get(offer.slot), paths, |path, token| {
                shapes.push((offer.slot, path, token));
            });
        }
        let uses = &mut self.slots.get_mut(offer.slot).lookups;
        match offer.kind {
            LookupKind::Exact(_) | LookupKind::OneOf(_) => (uses.is_hashed, uses.has_values) = (true, true),
            LookupKind::Presence => uses.has_presence = true,
            LookupKind::Prefix(text) if !uses.prefix_lengths.contains(&text.len()) => uses.prefix_lengths.push(text.len()),
            LookupKind::Suffix(text) if !uses.suffix_lengths.contains(&text.len()) => uses.suffix_lengths.push(text.len()),
            LookupKind::Nets(set) => {
                for net in set.nets() {
                    let bits = if net.first().is_ipv4() { &mut uses.ipv4_bits } else { &mut uses.ipv6_bits };
                    if !bits.contains(&net.prefix_bits()) {
                        bits.push(net.prefix_bits());
                    }
                }
            }
            LookupKind::Prefix(_) | LookupKind::Suffix(_) | LookupKind::Paths(_) => {}
        }
    }

    fn finish(mut self) -> RuleIndex {
        for check in &self.checks {
            if let Check::Value { slot, .. } = check {
                self.slots.get_mut(*slot).lookups.is_hashed = true;
            }
        }
        for id in self.slots.ids() {
            let uses = &mut self.slots.get_mut(id).lookups;
            uses.prefix_lengths.sort_unstable();
            uses.suffix_lengths.sort_unstable();
        }
        let table = self.table.finish();
        let mut roots: BTreeMap<SlotId, u32> = BTreeMap::new();
        for (slot, path, token) in self.paths {
            let root = *roots.entry(slot).or_insert_with(|| self.tree.add_root());
            if let Some(found) = table.find(token) {
                self.tree.insert(root, path, found);
            }
        }
        roots.into_iter().for_each(|(slot, root)| self.slots.get_mut(slot).lookups.path_root = Some(root));
        RuleIndex {
            slots: self.slots,
            tree: self.tree,
            table,
            checks: self.checks,
            check_ranges: self.check_ranges,
            unindexed: self.unindexed,
        }
    }
}

/// Rules with more than four billion conditions do not fit in memory.
fn checks_len(checks: &[Check]) -> u32 {
    u32::try_from(checks.len()).unwrap_or(u32::MAX)
}
