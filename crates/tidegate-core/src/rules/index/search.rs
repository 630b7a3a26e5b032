//! Finds the rules that a descriptor may match.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::RuleIndex;
use super::check::CheckInput;
use super::descriptor_view::SlotValue;
use super::slot::SlotId;
use super::table::TableEntry;
use super::token::Token;
use crate::rules::Rule;
use crate::rules::client_address::parse_client_address;

/// Up to this many candidates need no allocation.
const CANDIDATES_INLINE: usize = 64;
/// Up to this many values, tokens that were already looked up are not tracked, and a rule may be found more than once.
const UNTRACKED_VALUES_MAX: usize = 64;
/// Up to this many combinations of values are looked up. Beyond, the rules themselves are checked.
const COMBINATIONS_MAX: usize = 64;

/// The indices of rules that may match.
pub(super) type Candidates = SmallVec<[u32; CANDIDATES_INLINE]>;

/// A search for the rules that a descriptor may match.
pub(super) struct Search<'a, 'd> {
    index: &'a RuleIndex,
    rules: &'a [Rule],
    input: &'a CheckInput<'a, 'd>,
    candidates: Candidates,
    /// The tokens that were already looked up. Only used for a descriptor with many values.
    visited: Option<HashSet<Token>>,
    /// Slot sets whose rules were checked one by one.
    checked_sets: SmallVec<[u32; 4]>,
}

impl<'a, 'd> Search<'a, 'd> {
    /// A search without candidates.
    #[inline]
    pub(super) fn new(index: &'a RuleIndex, rules: &'a [Rule], input: &'a CheckInput<'a, 'd>) -> Self {
        Self {
            index,
            rules,
            input,
            candidates: Candidates::new(),
            visited: None,
            checked_sets: SmallVec::new(),
        }
    }

    /// The rules that may match, without duplicates and ascending. The proved checks of each of them hold.
    pub(super) fn run(&mut self) -> &[u32] {
        if self.input.view.len() == 0 {
            return &self.index.unindexed;
        }
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
        let lookups = &slot.lookups;
        if lookups.has_presence {
            self.find(slot.presence);
        }
        for value in group {
            if lookups.has_values {
                self.find(value.token);
            }
            if !lookups.prefix_lengths.is_empty() {
                slot.each_prefix(value.value.as_bytes(), &lookups.prefix_lengths, |token| self.find(token));
            }
            for length in &lookups.suffix_lengths {
                let start = value.value.len().checked_sub(*length);
                if let Some(suffix) = start.and_then(|start| value.value.as_bytes().get(start..)) {
                    self.find(slot.suffix(suffix));
                }
            }
            if let Some(root) = lookups.path_root {
                self.index.path_trie.walk(root, value.value, |entry| self.add_candidates(&entry));
            }
            if !(lookups.ipv4_bits.is_empty() && lookups.ipv6_bits.is_empty()) {
                self.look_up_address(first.slot, value.value);
            }
        }
    }

    fn look_up_address(&mut self, slot: SlotId, value: &str) {
        let Some(address) = parse_client_address(value) else { return };
        let slot = self.index.slots.get(slot);
        let prefix_lengths =
            if address.is_ipv4() { &slot.lookups.ipv4_bits } else { &slot.lookups.ipv6_bits };
        for prefix_bits in prefix_lengths {
            self.find(slot.network(address, *prefix_bits));
        }
    }

    fn find(&mut self, token: Token) {
        if let Some(entry) = self.index.table.find(token) {
            self.add_candidates(&entry);
        }
    }

    /// Adds all rules that a token leads to.
    fn add_candidates(&mut self, entry: &TableEntry) {
        if self.visited.as_mut().is_some_and(|visited| !visited.insert(entry.token)) {
            return;
        }
        let table = &self.index.table;
        self.candidates.extend_from_slice(table.rules(entry));
        for set in table.refinements(entry) {
            self.refine(entry.token, *set);
        }
    }

    /// Adds the rules that a token leads to together with values of other slots.
    fn refine(&mut self, token: Token, set: u32) {
        let table = &self.index.table;
        let mut tokens: SmallVec<[Token; 4]> = SmallVec::from_slice(&[token]);
        for slot in &table.sets[set as usize].slots {
            let values = self.input.view.values_of(*slot);
            match values {
                [] => return,
                [only] => tokens.iter_mut().for_each(|token| *token = token.and(only.token)),
                _ if tokens.len().saturating_mul(values.len()) > COMBINATIONS_MAX => {
                    return self.check_each(set);
                }
                _ => {
                    let with_each = |token: Token| values.iter().map(move |value| token.and(value.token));
                    tokens = tokens.iter().copied().flat_map(with_each).collect();
                }
            }
        }
        for entry in tokens.iter().filter_map(|token| table.find(*token)) {
            self.candidates.extend_from_slice(table.rules(&entry));
        }
    }

    /// Checks all rules of a slot set. Needed if a name occurs so often that there would be more combinations of values
    /// than rules.
    fn check_each(&mut self, set: u32) {
        if self.checked_sets.contains(&set) {
            return;
        }
        self.checked_sets.push(set);
        for rule in &self.index.table.sets[set as usize].rules {
            let checks = self.index.proved_checks(*rule);
            if checks.iter().all(|check| check.holds(self.input, self.rules.get(*rule as usize))) {
                self.candidates.push(*rule);
            }
        }
    }
}
