//! Lookup keys: what a rule can be found by.

use smallvec::SmallVec;

use super::check::Check;
use super::slot::{Slot, SlotId, Slots};
use super::token::Token;
use crate::rules::matching::wildcard_name_prefix;
use crate::rules::{Net, NetSet, PathPattern, Pattern, Rule, Segment, ValueSet};

/// All requirements of a rule.
pub(super) struct Requirements<'r> {
    pub(super) all: SmallVec<[Requirement<'r>; 4]>,
    /// The first value that the rule requires of each slot, in the order of the slots.
    pub(super) values: SmallVec<[SlotToken; 4]>,
}

/// One requirement of a rule, and the lookup key that finds it.
pub(super) struct Requirement<'r> {
    pub(super) check: Check,
    pub(super) lookup: Option<LookupKey<'r>>,
}

/// A value of a slot, as a token.
#[derive(Clone, Copy)]
pub(super) struct SlotToken {
    pub(super) slot: SlotId,
    pub(super) token: Token,
}

/// What a rule can be found by.
#[derive(Clone, Copy)]
pub(super) struct LookupKey<'r> {
    pub(super) slot: SlotId,
    pub(super) kind: LookupKind<'r>,
    /// Whether finding the rule proves the requirement, so that no check is needed.
    pub(super) is_proof: bool,
}

/// What is looked up for a value. Earlier variants are preferred among those that leave equally few rules.
#[derive(Clone, Copy)]
pub(super) enum LookupKind<'r> {
    Exact(Token),
    OneOf(&'r ValueSet),
    Nets(&'r NetSet),
    /// In the order of a [`PathSet`](crate::rules::PathSet).
    Paths(&'r [PathPattern]),
    Prefix(&'r [u8]),
    Suffix(&'r [u8]),
    Presence,
}

impl<'r> Requirements<'r> {
    /// The requirements of a rule. Adds their slots.
    pub(super) fn new(rule: &'r Rule, slots: &mut Slots) -> Self {
        let mut requirements = Self { all: SmallVec::new(), values: SmallVec::new() };
        for (number, condition) in rule.conditions.iter().enumerate() {
            match slots.add(&condition.attribute) {
                Some(slot) => {
                    let lookup = LookupKind::from_pattern(&condition.pattern);
                    requirements.add(
                        slots,
                        slot,
                        (&condition.pattern, lookup),
                        Check::Condition { slot, number },
                    );
                }
                None => requirements.all.push(Requirement { check: Check::WholeRule, lookup: None }),
            }
        }
        if let Some(entries) = &rule.entries {
            let min = entries.patterns.len();
            let max = if entries.allows_more { usize::MAX } else { min };
            for (index, (name, pattern)) in entries.patterns.iter().enumerate() {
                // An index by name does not find a wildcard.
                let is_wildcard = wildcard_name_prefix(name, pattern).is_some();
                match (!is_wildcard).then(|| slots.add_position(index, name)).flatten() {
                    Some(slot) => {
                        // Even for a negation, the entry has to exist.
                        let lookup =
                            LookupKind::from_pattern(pattern).or(Some((LookupKind::Presence, false)));
                        requirements.add(slots, slot, (pattern, lookup), Check::Entry { slot, index });
                    }
                    None => requirements.all.push(Requirement { check: Check::WholeRule, lookup: None }),
                }
            }
            requirements.all.push(Requirement { check: Check::Count { min, max }, lookup: None });
        }
        requirements.values.sort_unstable_by_key(|value| value.slot);
        requirements
    }

    fn add(
        &mut self,
        slots: &Slots,
        slot: SlotId,
        (pattern, lookup): (&'r Pattern, Option<(LookupKind<'r>, bool)>),
        check: Check,
    ) {
        let Some(value) = only_value(pattern) else {
            let lookup = lookup.map(|(kind, is_proof)| LookupKey { slot, kind, is_proof });
            let check = if *pattern == Pattern::Any { Check::Presence { slot } } else { check };
            self.all.push(Requirement { check, lookup });
            return;
        };
        let token = slots.get(slot).value(value);
        // Two equal tokens would cancel each other in a combined token. So a slot's second value is only checked.
        let is_first = self.values.iter().all(|value| value.slot != slot);
        if is_first {
            self.values.push(SlotToken { slot, token });
        }
        let lookup = is_first.then_some(LookupKey { slot, kind: LookupKind::Exact(token), is_proof: true });
        self.all.push(Requirement { check: Check::Value { slot, token }, lookup });
    }

    /// The values of all other slots. They can distinguish the rules that a slot leads to.
    pub(super) fn other_values(&self, slot: SlotId) -> impl Iterator<Item = SlotToken> + '_ {
        self.values.iter().copied().filter(move |value| value.slot != slot)
    }

    /// The combined token of these values. `None` if there are none.
    pub(super) fn other_values_token(&self, slot: SlotId) -> Option<Token> {
        self.other_values(slot).map(|value| value.token).reduce(Token::and)
    }
}

impl<'r> LookupKind<'r> {
    /// The lookup for a pattern, and whether it proves the pattern.
    fn from_pattern(pattern: &'r Pattern) -> Option<(Self, bool)> {
        match pattern {
            Pattern::Any => Some((Self::Presence, true)),
            Pattern::OneOf(set) => Some((Self::OneOf(set), true)),
            Pattern::Prefix(text) if text.is_empty() => Some((Self::Presence, true)),
            Pattern::Prefix(text) => Some((Self::Prefix(text.as_bytes()), true)),
            Pattern::Path(path) => Some((Self::Paths(std::slice::from_ref(path)), true)),
            Pattern::Paths(set) => Some((Self::Paths(set.paths()), true)),
            Pattern::Nets(set) => Some((Self::Nets(set), true)),
            Pattern::Wildcard(wildcard) => match (wildcard.prefix(), wildcard.suffix()) {
                ("", "") => Some((Self::Presence, false)),
                (prefix, "") => Some((Self::Prefix(prefix.as_bytes()), wildcard.star_count() == 1)),
                ("", suffix) => Some((Self::Suffix(suffix.as_bytes()), wildcard.star_count() == 1)),
                (prefix, suffix) if prefix.len() >= suffix.len() => {
                    Some((Self::Prefix(prefix.as_bytes()), false))
                }
                (_, suffix) => Some((Self::Suffix(suffix.as_bytes()), false)),
            },
            Pattern::Regex(_) => Some((Self::Presence, false)),
            Pattern::Exact(_) | Pattern::Not(_) | Pattern::Absent => None,
        }
    }

    pub(super) fn preference(&self) -> u8 {
        match self {
            Self::Exact(_) => 0,
            Self::OneOf(_) => 1,
            Self::Nets(_) => 2,
            Self::Paths(_) => 3,
            Self::Prefix(_) => 4,
            Self::Suffix(_) => 5,
            Self::Presence => 6,
        }
    }
}

impl LookupKey<'_> {
    /// The tokens that lead to the rule.
    pub(super) fn each_token(&self, slots: &Slots, mut then: impl FnMut(Token)) {
        let slot = slots.get(self.slot);
        match self.kind {
            LookupKind::Exact(token) => std::iter::once(token).for_each(then),
            LookupKind::OneOf(set) => set.values().iter().map(|value| slot.value(value)).for_each(then),
            LookupKind::Nets(set) => set.nets().iter().map(|net: &Net| slot.net(net)).for_each(then),
            LookupKind::Paths(paths) => each_path(slot, paths, |_, token| then(token)),
            LookupKind::Prefix(text) => std::iter::once(slot.prefix(text)).for_each(then),
            LookupKind::Suffix(text) => std::iter::once(slot.suffix(text)).for_each(then),
            LookupKind::Presence => std::iter::once(slot.presence).for_each(then),
        }
    }
}

/// Calls `then` for each path pattern. Patterns that differ only in names are adjacent and count as one.
pub(super) fn each_path<'r>(
    slot: &Slot,
    paths: &'r [PathPattern],
    mut then: impl FnMut(&'r PathPattern, Token),
) {
    let mut last = None;
    for path in paths {
        let token = slot.path(&path_key(path));
        if last.replace(token) != Some(token) {
            then(path, token);
        }
    }
}

/// The value of a pattern that accepts only one value.
fn only_value(pattern: &Pattern) -> Option<&str> {
    match pattern {
        Pattern::Exact(value) => Some(value),
        Pattern::OneOf(set) => match set.values() {
            [value] => Some(value),
            _ => None,
        },
        _ => None,
    }
}

/// Text that is equal for patterns that differ only in names, and different for all others.
fn path_key(path: &PathPattern) -> String {
    let mut text = String::new();
    for segment in path.segments() {
        match segment {
            Segment::Literal(literal) => text.push_str(literal),
            // No segment of a path contains `?`.
            Segment::Any(_) => text.push('?'),
        }
        text.push('/');
    }
    text.push_str(if path.is_open_ended() { "?" } else { "" });
    text
}
