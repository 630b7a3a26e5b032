//! Builds an index: every rule is filed where the fewest other rules are.
//!
//! First, count how many rules each lookup key could find. Then file each rule under one of its keys. If many rules are
//! still under one token, they are distinguished by the values that they require of other slots, all together. So a
//! rule for one tenant, method and path pattern is found in one step, even if its tenant, its method and its path each
//! have thousands of rules.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::affix_lengths::AffixLengths;
use super::check::Check;
use super::lookup_key::{LookupKey, LookupKind, Requirements, each_path};
use super::path_trie::PathTrie;
use super::rule_index::{CheckRange, RuleIndex};
use super::slot::{SlotId, Slots};
use super::table::TableBuilder;
use super::token::{Token, TokenHasher, TokenMap};
use crate::rules::{PathPattern, Rule};

/// Up to this many rules under one token count as one: checking them is cheaper than distinguishing them.
const BUCKET_RULES_SMALL: u32 = 4;

/// The state while an index is built.
pub(super) struct IndexBuilder<'r> {
    slots: Slots,
    path_trie: PathTrie,
    table: TableBuilder,
    checks: Vec<Check>,
    check_ranges: Vec<CheckRange>,
    unindexed: Vec<u32>,
    paths: Vec<(SlotId, &'r PathPattern, Token)>,
    /// The number of rules that could be found by a token.
    counts: TokenMap<u32>,
}

/// Where a rule is filed.
#[derive(Clone, Copy)]
struct IndexChoice<'r> {
    lookup: LookupKey<'r>,
    /// The index of the requirement that the lookup key comes from.
    requirement: usize,
    is_refined: bool,
}

impl<'r> IndexBuilder<'r> {
    pub(super) fn build(rules: &'r [Rule]) -> RuleIndex {
        let hasher = TokenHasher::random();
        let mut builder = Self {
            slots: Slots::new(&hasher),
            path_trie: PathTrie::new(&hasher),
            table: TableBuilder::default(),
            checks: Vec::new(),
            check_ranges: Vec::with_capacity(rules.len()),
            unindexed: Vec::new(),
            paths: Vec::new(),
            counts: TokenMap::default(),
        };
        let mut requirements: Vec<Requirements<'r>> =
            rules.iter().map(|rule| Requirements::new(rule, &mut builder.slots)).collect();
        AffixLengths::shorten(&mut requirements);
        requirements.iter().for_each(|rule| builder.count(rule));
        for (number, rule) in (0..).zip(&requirements) {
            builder.add_rule(number, rule);
        }
        builder.finish()
    }

    fn count(&mut self, rule: &Requirements<'r>) {
        let mut is_first_value = true;
        for lookup in rule.all.iter().filter_map(|requirement| requirement.lookup) {
            // All values together are the same, whichever comes first. So count them once.
            let is_counted =
                !matches!(lookup.kind, LookupKind::Exact(_)) || std::mem::take(&mut is_first_value);
            let other_token = rule.other_values_token(lookup.slot).filter(|_| is_counted);
            lookup.each_token(&self.slots, |token| {
                *self.counts.entry(token).or_default() += 1;
                if let Some(other_token) = other_token {
                    *self.counts.entry(token.and(other_token)).or_default() += 1;
                }
            });
        }
    }

    fn add_rule(&mut self, rule: u32, requirements: &Requirements<'r>) {
        let choice = self.cheapest(requirements).map(|choice| self.insert(rule, requirements, choice));
        let is_proved = |number: usize, check: &Check| match (choice, check) {
            (Some(choice), _) if number == choice.requirement => choice.lookup.is_proof,
            // The first value of each other slot is part of the combined token.
            (Some(choice), Check::Value { slot, token })
                if choice.is_refined && *slot != choice.lookup.slot =>
            {
                requirements.values.iter().any(|value| value.slot == *slot && value.token == *token)
            }
            _ => false,
        };
        let start = checks_len(&self.checks);
        let numbered = || requirements.all.iter().map(|requirement| requirement.check).enumerate();
        self.checks
            .extend(numbered().filter(|(number, check)| is_proved(*number, check)).map(|(_, check)| check));
        let proved_end = checks_len(&self.checks);
        self.checks
            .extend(numbered().filter(|(number, check)| !is_proved(*number, check)).map(|(_, check)| check));
        self.check_ranges.push(CheckRange { start, proved_end, end: checks_len(&self.checks) });
        if choice.is_none() {
            self.unindexed.push(rule);
        }
    }

    /// The choice with the fewest rules.
    fn cheapest(&self, requirements: &Requirements<'r>) -> Option<IndexChoice<'r>> {
        let lookups =
            requirements.all.iter().enumerate().filter_map(|(index, one)| Some((index, one.lookup?)));
        let choices = lookups.flat_map(|(requirement, lookup)| {
            let other_token = requirements.other_values_token(lookup.slot);
            let (mut rules, mut refined_rules) = (0, 0);
            lookup.each_token(&self.slots, |token| {
                let count = |token: Token| self.counts.get(&token).copied().unwrap_or(0);
                rules = rules.max(count(token));
                refined_rules =
                    refined_rules.max(other_token.map_or(0, |other_token| count(token.and(other_token))));
            });
            let plain = (rules, IndexChoice { lookup, requirement, is_refined: false });
            let refined = (refined_rules, IndexChoice { lookup, requirement, is_refined: true });
            std::iter::once(plain).chain(other_token.map(|_| refined))
        });
        let cost = |(rules, choice): &(u32, IndexChoice<'_>)| {
            ((*rules).max(BUCKET_RULES_SMALL), choice.is_refined, choice.lookup.kind.preference(), *rules)
        };
        choices.min_by_key(cost).map(|(_, choice)| choice)
    }

    /// Files a rule. Drops the refinement if the table has no room for another slot set.
    fn insert(
        &mut self,
        rule: u32,
        requirements: &Requirements<'r>,
        mut choice: IndexChoice<'r>,
    ) -> IndexChoice<'r> {
        let lookup = choice.lookup;
        let mut tokens: SmallVec<[Token; 4]> = SmallVec::new();
        lookup.each_token(&self.slots, |token| tokens.push(token));
        if choice.is_refined {
            let slots: SmallVec<[SlotId; 4]> =
                requirements.other_values(lookup.slot).map(|value| value.slot).collect();
            let set = self.table.set_number(&slots);
            choice.is_refined = tokens.iter().all(|token| self.table.has_room(*token, set));
            if choice.is_refined {
                self.table.add_to_set(set, rule);
                tokens.iter().for_each(|token| self.table.refine(*token, set));
            }
        }
        let other_token =
            requirements.other_values_token(lookup.slot).filter(|_| choice.is_refined).unwrap_or_default();
        tokens.iter().for_each(|token| self.table.add(token.and(other_token), rule));
        self.record_lookup(&lookup);
        choice
    }

    /// Records which lookups are needed to find the rule.
    fn record_lookup(&mut self, lookup: &LookupKey<'r>) {
        if let LookupKind::Paths(paths) = lookup.kind {
            let patterns = &mut self.paths;
            each_path(self.slots.get(lookup.slot), paths, |path, token| {
                patterns.push((lookup.slot, path, token));
            });
        }
        let lookups = &mut self.slots.get_mut(lookup.slot).lookups;
        match lookup.kind {
            LookupKind::Exact(_) | LookupKind::OneOf(_) => {
                (lookups.is_hashed, lookups.has_values) = (true, true);
            }
            LookupKind::Presence => lookups.has_presence = true,
            LookupKind::Prefix(text) if !lookups.prefix_lengths.contains(&text.len()) => {
                lookups.prefix_lengths.push(text.len());
            }
            LookupKind::Suffix(text) if !lookups.suffix_lengths.contains(&text.len()) => {
                lookups.suffix_lengths.push(text.len());
            }
            LookupKind::Nets(set) => {
                for net in set.nets() {
                    let bits =
                        if net.first().is_ipv4() { &mut lookups.ipv4_bits } else { &mut lookups.ipv6_bits };
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
            let lookups = &mut self.slots.get_mut(id).lookups;
            lookups.prefix_lengths.sort_unstable();
            lookups.suffix_lengths.sort_unstable();
        }
        let table = self.table.finish();
        let mut roots: BTreeMap<SlotId, u32> = BTreeMap::new();
        for (slot, path, token) in self.paths {
            let root = *roots.entry(slot).or_insert_with(|| self.path_trie.add_node());
            if let Some(entry) = table.find(token) {
                self.path_trie.insert(root, path, entry);
            }
        }
        roots.into_iter().for_each(|(slot, root)| self.slots.get_mut(slot).lookups.path_root = Some(root));
        RuleIndex {
            slots: self.slots,
            path_trie: self.path_trie,
            table,
            checks: self.checks,
            check_ranges: self.check_ranges,
            unindexed: self.unindexed,
        }
    }
}

/// The number of checks. More than four billion do not fit in memory.
fn checks_len(checks: &[Check]) -> u32 {
    u32::try_from(checks.len()).unwrap_or(u32::MAX)
}
