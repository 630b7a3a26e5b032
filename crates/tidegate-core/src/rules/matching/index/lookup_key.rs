//! What a rule can be found by.

use smallvec::SmallVec;

use super::check::Check;
use super::slot::{Slot, SlotId, Slots};
use super::token::Token;
use crate::rules::{Net, NetSet, PathPattern, Pattern, Rule, Segment, ValueSet};

/// All that a rule asks for.
pub(super) struct Requirements<'r> {
    pub(super) all: SmallVec<[Requirement<'r>; 4]>,
    /// Of each slot the first value that the rule asks for, in the order of the slots.
    pub(super) values: SmallVec<[SlotToken; 4]>,
}

/// One thing that a rule asks for, and how it can be found by it.
pub(super) struct Requirement<'r> {
    pub(super) check: Check,
    pub(super) lookup: Option<LookupKey<'r>>,
}

/// A value of a slot.
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
    /// Whether what is found by it needs no check.
    pub(super) is_proof: bool,
}

/// Something that is looked up for a value. In the order of preference, among those that tell as much.
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
    /// What a rule asks for; adds the slots it asks for it of.
    pub(super) fn new(rule: &'r Rule, slots: &mut Slots) -> Self {
        let mut wants = Self { all: SmallVec::new(), values: SmallVec::new() };
        for (number, condition) in rule.conditions.iter().enumerate() {
            match slots.add(&condition.attribute) {
                Some(slot) => {
                    let by = LookupKind::from_pattern(&condition.pattern);
                    wants.add(slots, slot, (&condition.pattern, by), Check::Condition { slot, number });
                }
                None => wants.all.push(Requirement { check: Check::WholeRule, lookup: None }),
            }
        }
        if let Some(entries) = &rule.entries {
            let least = entries.patterns.len();
            let most = if entries.allows_more { usize::MAX } else { least };
            for (place, (name, pattern)) in entries.patterns.iter().enumerate() {
                match slots.add_position(place, name) {
                    Some(slot) => {
                        // An entry has to be there even for a negation.
                        let by = LookupKind::from_pattern(pattern).or(Some((LookupKind::Presence, false)));
                        wants.add(slots, slot, (pattern, by), Check::Entry { slot, index: place });
                    }
                    None => wants.all.push(Requirement { check: Check::WholeRule, lookup: None }),
                }
            }
            wants.all.push(Requirement { check: Check::Count { min: least, max: most }, lookup: None });
        }
        wants.values.sort_unstable_by_key(|value| value.slot);
        wants
    }

    fn add(
        &mut self,
        slots: &Slots,
        slot: SlotId,
        (pattern, by): (&'r Pattern, Option<(LookupKind<'r>, bool)>),
        check: Check,
    ) {
        let Some(value) = only_value(pattern) else {
            let offer = by.map(|(by, is_proof)| LookupKey { slot, kind: by, is_proof });
            let check = if *pattern == Pattern::Any { Check::Presence { slot } } else { check };
            self.all.push(Requirement { check, lookup: offer });
            return;
        };
        let token = slots.get(slot).value(value);
        // A slot's second value would undo the first if they are equal, so it is only checked.
        let is_first = self.values.iter().all(|value| value.slot != slot);
        if is_first {
            self.values.push(SlotToken { slot, token });
        }
        let offer = is_first.then_some(LookupKey { slot, kind: LookupKind::Exact(token), is_proof: true });
        self.all.push(Requirement { check: Check::Value { slot, token }, lookup: offer });
    }

    /// The values of all other slots, which can tell apart the rules that a slot leads to.
    pub(super) fn other_values(&self, slot: SlotId) -> impl Iterator<Item = SlotToken> + '_ {
        self.values.iter().copied().filter(move |value| value.slot != slot)
    }

    /// Stands for all of these values at once; none if there are none.
    pub(super) fn other_values_token(&self, slot: SlotId) -> Option<Token> {
        self.other_values(slot).map(|value| value.token).reduce(Token::and)
    }
}

impl<'r> LookupKind<'r> {
    /// What a pattern is found by, and whether that is all it asks for.
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
                (beginning, "") => Some((Self::Prefix(beginning.as_bytes()), wildcard.star_count() == 1)),
                ("", end) => Some((Self::Suffix(end.as_bytes()), wildcard.star_count() == 1)),
                (beginning, end) if beginning.len() >= end.len() => {
                    Some((Self::Prefix(beginning.as_bytes()), false))
                }
                (_, end) => Some((Self::Suffix(end.as_bytes()), false)),
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

/// The shapes of some paths, each once: those that differ in names alone stand beside each other and are one.
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

/// The value, of a pattern that wants one alone.
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

/// The same for all patterns of a shape, whatever names they have, and for no others.
fn path_key(path: &PathPattern) -> String {
    let mut text = String::new();
    for segment in path.segments() {
        match segment {
            Segment::Literal(literal) => text.push_str(literal),
            // No segment of a path has one.
            Segment::Any(_) => text.push('?'),
        }
        text.push('/');
    }
    text.push_str(if path.is_open_ended() { "?" } else { "" });
    text
}
