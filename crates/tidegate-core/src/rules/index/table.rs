//! Which rules a token leads to.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::slot::SlotId;
use super::token::{Token, TokenMap};

/// The most slot sets that distinguish the rules of one token.
const REFINEMENTS_MAX: usize = 8;

/// Rules by token.
#[derive(Debug, Default)]
pub(super) struct Table {
    buckets: TokenMap<Bucket>,
    rules: Vec<u32>,
    refinements: Vec<u32>,
    pub(super) sets: Vec<SlotSet>,
}

/// Slots whose values, taken together, distinguish the rules of a token.
#[derive(Debug)]
pub(super) struct SlotSet {
    pub(super) slots: Box<[SlotId]>,
    /// All rules that are distinguished by this set, for all tokens.
    pub(super) rules: Vec<u32>,
}

/// A token and what it leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableEntry {
    pub(super) token: Token,
    bucket: Bucket,
}

/// What a token leads to: rules, and slot sets whose values lead to more rules.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rules: Span,
    refinements: Span,
}

/// A range of a list. A range of length one holds the item itself, because most ranges have that length.
#[derive(Clone, Copy, Debug)]
struct Span {
    start_or_only: u32,
    length: u32,
}

/// Builds a table.
#[derive(Debug, Default)]
pub(super) struct TableBuilder {
    buckets: TokenMap<BucketBuilder>,
    sets: Vec<SlotSet>,
    set_numbers: HashMap<Box<[SlotId]>, u32>,
}

#[derive(Debug, Default)]
struct BucketBuilder {
    rules: SmallVec<[u32; 2]>,
    refinements: SmallVec<[u32; 2]>,
}

impl Table {
    pub(super) fn find(&self, token: Token) -> Option<TableEntry> {
        self.buckets.get(&token).map(|bucket| TableEntry { token, bucket: *bucket })
    }

    pub(super) fn rules<'a>(&'a self, entry: &'a TableEntry) -> &'a [u32] {
        entry.bucket.rules.of(&self.rules)
    }

    /// The numbers of the slot sets.
    pub(super) fn refinements<'a>(&'a self, entry: &'a TableEntry) -> &'a [u32] {
        entry.bucket.refinements.of(&self.refinements)
    }
}

impl Span {
    fn of<'a>(&'a self, list: &'a [u32]) -> &'a [u32] {
        if self.length == 1 {
            return std::slice::from_ref(&self.start_or_only);
        }
        let start = self.start_or_only as usize;
        list.get(start..start + self.length as usize).unwrap_or_default()
    }

    fn append(list: &mut Vec<u32>, items: &[u32]) -> Self {
        let length = u32::try_from(items.len()).unwrap_or(u32::MAX);
        if let [only] = items {
            return Self { start_or_only: *only, length };
        }
        let start = u32::try_from(list.len()).unwrap_or(u32::MAX);
        list.extend_from_slice(items);
        Self { start_or_only: start, length }
    }
}

impl TableBuilder {
    pub(super) fn add(&mut self, token: Token, rule: u32) {
        self.buckets.entry(token).or_default().rules.push(rule);
    }

    /// The number of a slot set.
    pub(super) fn set_number(&mut self, slots: &[SlotId]) -> u32 {
        if let Some(number) = self.set_numbers.get(slots) {
            return *number;
        }
        let number = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        self.sets.push(SlotSet { slots: slots.into(), rules: Vec::new() });
        self.set_numbers.insert(slots.into(), number);
        number
    }

    pub(super) fn add_to_set(&mut self, set: u32, rule: u32) {
        self.sets[set as usize].rules.push(rule);
    }

    /// Whether the rules of this token may be distinguished by one more set.
    pub(super) fn has_room(&self, token: Token, set: u32) -> bool {
        let refinements = self.buckets.get(&token).map(|bucket| &bucket.refinements);
        refinements.is_none_or(|sets| sets.len() < REFINEMENTS_MAX || sets.contains(&set))
    }

    /// Distinguishes the rules of this token by a set.
    pub(super) fn refine(&mut self, token: Token, set: u32) {
        let refinements = &mut self.buckets.entry(token).or_default().refinements;
        if !refinements.contains(&set) {
            refinements.push(set);
        }
    }

    pub(super) fn finish(self) -> Table {
        let mut table = Table { sets: self.sets, ..Table::default() };
        table.buckets.reserve(self.buckets.len());
        for (token, bucket) in self.buckets {
            let rules = Span::append(&mut table.rules, &bucket.rules);
            let refinements = Span::append(&mut table.refinements, &bucket.refinements);
            table.buckets.insert(token, Bucket { rules, refinements });
        }
        table
    }
}
