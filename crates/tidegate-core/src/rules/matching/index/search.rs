//! Finding the rules that a descriptor may match.

use std::collections::HashSet;
use std::net::IpAddr;

use smallvec::SmallVec;

use super::RuleIndex;
use super::check::CheckInput;
use super::slot::SlotId;
use super::table::TableEntry;
use super::token::Token;
use super::descriptor_view::SlotValue;
use crate::rules::Rule;

/// Candidates up to this many need no memory of their own.
const CANDIDATES_INLINE: usize = 64;
/// Up to this many values are looked up one by one, and what several of them lead to is found several times.
const UNTRACKED_VALUES_MAX: usize = 64;
/// Up to this many combinations of values are tried to tell rules apart; beyond, rules are tried.
const COMBINATIONS_MAX: usize = 64;

/// Rules that may match.
pub(super) type Candidates = SmallVec<[u32; CANDIDATES_INLINE]>;

/// A search for the rules that a descriptor may match.
pub(super) struct Search<'a, 'd> {
    index: &'a RuleIndex,
    rules: &'a [Rule],
    input: &'a CheckInput<'a, 'd>,
    candidates: Candidates,
    /// What was found already, of a descriptor with many values.
    visited: Option<HashSet<Token>>,
    /// Sets whose rules were tried one by one.
    tried: SmallVec<[u32; 4]>,
}

impl<'a, 'd> Search<'a, 'd> {
    /// A search that has found nothing.
    #[inline]
    pub(super) fn new(index: &'a RuleIndex, rules: &'a [Rule], asked: &'a CheckInput<'a, 'd>) -> Self {
        Self { index, rules, input: asked, candidates: Candidates::new(), visited: None, tried: SmallVec::new() }
    }

    /// The rules that may match, each once and ascending. Of what a rule asks for, all holds that it is found by.
    pub(super) fn run(&mut self) -> &[u32] {
        if self.input.view.len() > UNTRACKED_VALUES_MAX {
            self.visited = Some(HashSet::new());
        }
        self.candidates.extend_from_slice(&self.index.unindexed);
        self.input.view.groups().for_each(|group| self.look_up(group));
        if self.candidates.len() > 1 {
            self.candidates.sort_unstable();
            self.candidates.dedup();
        }
        &self.candidates
    }

    /// Looks up all values of a slot.
    fn look_up(&mut self, group: &[SlotValue<'d>]) {
        let Some(first) = group.first() else { return };
        let slot = self.index.slots.get(first.slot);
        let uses = &slot.lookups;
        if uses.has_presence {
            self.find(slot.presence);
        }
        for seen in group {
            if uses.has_values {
                self.find(seen.token);
            }
            if !uses.prefix_lengths.is_empty() {
                slot.each_prefix(seen.value.as_bytes(), &uses.prefix_lengths, |token| self.find(token));
            }
            for length in &uses.suffix_lengths {
                let start = seen.value.len().checked_sub(*length);
                if let Some(end) = start.and_then(|start| seen.value.as_bytes().get(start..)) {
                    self.find(slot.suffix(end));
                }
            }
            if let Some(root) = uses.path_root {
                self.index.tree.walk(root, seen.value, |found| self.add_candidates(&found));
            }
            if !(uses.ipv4_bits.is_empty() && uses.ipv6_bits.is_empty()) {
                self.look_up_address(first.slot, seen.value);
            }
        }
    }

    fn look_up_address(&mut self, slot: SlotId, value: &str) {
        let Ok(address) = value.parse::<IpAddr>() else { return };
        let address = address.to_canonical();
        let slot = self.index.slots.get(slot);
        let sizes = if address.is_ipv4() { &slot.lookups.ipv4_bits } else { &slot.lookups.ipv6_bits };
        for prefix_bits in sizes {
            self.find(slot.network(address, *prefix_bits));
        }
    }

    fn find(&mut self, token: Token) {
        if let Some(found) = self.index.table.find(token) {
            self.add_candidates(&found);
        }
    }

    /// Takes all rules that a token leads to.
    fn add_candidates(&mut self, found: &TableEntry) {
        if self.visited.as_mut().is_some_and(|known| !known.insert(found.token)) {
            return;
        }
        let table = &self.index.table;
        self.candidates.extend_from_slice(table.rules(found));
        for set in table.refinements(found) {
            self.refine(found.token, *set);
        }
    }

    /// Takes the rules that a token together with values of other slots leads to.
    fn refine(&mut self, token: Token, set: u32) {
        let table = &self.index.table;
        let mut tokens: SmallVec<[Token; 4]> = SmallVec::from_slice(&[token]);
        for slot in &table.sets[set as usize].slots {
            let values = self.input.view.values_of(*slot);
            match values {
                [] => return,
                [only] => tokens.iter_mut().for_each(|token| *token = token.and(only.token)),
                _ if tokens.len().saturating_mul(values.len()) > COMBINATIONS_MAX => {
                    return self.try_each(set);
                }
                _ => {
                    let with_each = |token: Token| values.iter().map(move |value| token.and(value.token));
                    tokens = tokens.iter().copied().flat_map(with_each).collect();
                }
            }
        }
        for found in tokens.iter().filter_map(|token| table.find(*token)) {
            self.candidates.extend_from_slice(table.rules(&found));
        }
    }

    /// Tries all rules of a set: a name that stands many times has more combinations with others than there are
    /// rules.
    fn try_each(&mut self, set: u32) {
        if self.tried.contains(&set) {
            return;
        }
        self.tried.push(set);
        for rule in &self.index.table.sets[set as usize].rules {
            let checks = self.index.proved_checks(*rule);
            if checks.iter().all(|check| check.holds(self.input, self.rules.get(*rule as usize))) {
                self.candidates.push(*rule);
            }
        }
    }
}
