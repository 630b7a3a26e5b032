//! What a rule can be found by.

use smallvec::SmallVec;

use super::check::Check;
use super::slot::{Slot, SlotId, Slots};
use super::token::Token;
use crate::rules::{Net, NetSet, PathPattern, Pattern, Rule, Segment, ValueSet};

/// All that a rule asks for.
pub(super) struct Wants<'r> {
    pub(super) each: SmallVec<[Want<'r>; 4]>,
    /// Of each slot the first value that the rule asks for, in the order of the slots.
    pub(super) values: SmallVec<[Value; 4]>,
}

/// One thing that a rule asks for, and how it can be found by it.
pub(super) struct Want<'r> {
    pub(super) check: Check,
    pub(super) offer: Option<Offer<'r>>,
}

/// A value of a slot.
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) slot: SlotId,
    pub(super) token: Token,
}

/// What a rule can be found by.
#[derive(Clone, Copy)]
pub(super) struct Offer<'r> {
    pub(super) slot: SlotId,
    pub(super) by: By<'r>,
    /// Whether what is found by it needs no check.
    pub(super) is_proof: bool,
}

/// Something that is looked up for a value. In the order of preference, among those that tell as much.
#[derive(Clone, Copy)]
pub(super) enum By<'r> {
    Value(Token),
    Values(&'r ValueSet),
    Blocks(&'r NetSet),
    /// In the order of a [`PathSet`](crate::rules::PathSet).
    Shapes(&'r [PathPattern]),
    Beginning(&'r [u8]),
    End(&'r [u8]),
    Presence,
}

impl<'r> Wants<'r> {
    /// What a rule asks for; adds the slots it asks for it of.
    pub(super) fn new(rule: &'r Rule, slots: &mut Slots) -> Self {
        let mut wants = Self { each: SmallVec::new(), values: SmallVec::new() };
        for (number, condition) in rule.conditions.iter().enumerate() {
            match slots.add(&condition.attribute) {
                Some(slot) => {
                    let by = By::of(&condition.pattern);
                    wants.add(slots, slot, (&condition.pattern, by), Check::Condition { slot, number });
                }
                None => wants.each.push(Want { check: Check::Whole, offer: None }),
            }
        }
        if let Some(entries) = &rule.entries {
            let least = entries.each.len();
            let most = if entries.open { usize::MAX } else { least };
            for (place, (name, pattern)) in entries.each.iter().enumerate() {
                match slots.add_place(place, name) {
                    Some(slot) => {
                        // An entry has to be there even for a negation.
                        let by = By::of(pattern).or(Some((By::Presence, false)));
                        wants.add(slots, slot, (pattern, by), Check::Entry { slot, place });
                    }
                    None => wants.each.push(Want { check: Check::Whole, offer: None }),
                }
            }
            wants.each.push(Want { check: Check::Count { least, most }, offer: None });
        }
        wants.values.sort_unstable_by_key(|value| value.slot);
        wants
    }

    fn add(
        &mut self,
        slots: &Slots,
        slot: SlotId,
        (pattern, by): (&'r Pattern, Option<(By<'r>, bool)>),
        check: Check,
    ) {
        let Some(value) = only_value(pattern) else {
            let offer = by.map(|(by, is_proof)| Offer { slot, by, is_proof });
            let check = if *pattern == Pattern::Any { Check::Presence { slot } } else { check };
            self.each.push(Want { check, offer });
            return;
        };
        let token = slots.get(slot).value(value);
        // A slot's second value would undo the first if they are equal, so it is only checked.
        let is_first = self.values.iter().all(|value| value.slot != slot);
        if is_first {
            self.values.push(Value { slot, token });
        }
        let offer = is_first.then_some(Offer { slot, by: By::Value(token), is_proof: true });
        self.each.push(Want { check: Check::Value { slot, token }, offer });
    }

    /// The values of all other slots, which can tell apart the rules that a slot leads to.
    pub(super) fn values_beside(&self, slot: SlotId) -> impl Iterator<Item = Value> + '_ {
        self.values.iter().copied().filter(move |value| value.slot != slot)
    }

    /// Stands for all of these values at once; none if there are none.
    pub(super) fn together_beside(&self, slot: SlotId) -> Option<Token> {
        self.values_beside(slot).map(|value| value.token).reduce(Token::and)
    }
}

impl<'r> By<'r> {
    /// What a pattern is found by, and whether that is all it asks for.
    fn of(pattern: &'r Pattern) -> Option<(Self, bool)> {
        match pattern {
            Pattern::Any => Some((Self::Presence, true)),
            Pattern::OneOf(set) => Some((Self::Values(set), true)),
            Pattern::Prefix(text) if text.is_empty() => Some((Self::Presence, true)),
            Pattern::Prefix(text) => Some((Self::Beginning(text.as_bytes()), true)),
            Pattern::Path(path) => Some((Self::Shapes(std::slice::from_ref(path)), true)),
            Pattern::Paths(set) => Some((Self::Shapes(set.paths()), true)),
            Pattern::Nets(set) => Some((Self::Blocks(set), true)),
            Pattern::Wildcard(wildcard) => match (wildcard.beginning(), wildcard.end()) {
                ("", "") => Some((Self::Presence, false)),
                (beginning, "") => Some((Self::Beginning(beginning.as_bytes()), wildcard.stars() == 1)),
                ("", end) => Some((Self::End(end.as_bytes()), wildcard.stars() == 1)),
                (beginning, end) if beginning.len() >= end.len() => {
                    Some((Self::Beginning(beginning.as_bytes()), false))
                }
                (_, end) => Some((Self::End(end.as_bytes()), false)),
            },
            Pattern::Regex(_) => Some((Self::Presence, false)),
            Pattern::Exact(_) | Pattern::Not(_) | Pattern::Absent => None,
        }
    }

    pub(super) fn preference(&self) -> u8 {
        match self {
            Self::Value(_) => 0,
            Self::Values(_) => 1,
            Self::Blocks(_) => 2,
            Self::Shapes(_) => 3,
            Self::Beginning(_) => 4,
            Self::End(_) => 5,
            Self::Presence => 6,
        }
    }
}

impl Offer<'_> {
    /// The tokens that lead to the rule.
    pub(super) fn each_token(&self, slots: &Slots, mut then: impl FnMut(Token)) {
        let slot = slots.get(self.slot);
        match self.by {
            By::Value(token) => std::iter::once(token).for_each(then),
            By::Values(set) => set.values().iter().map(|value| slot.value(value)).for_each(then),
            By::Blocks(set) => set.nets().iter().map(|net: &Net| slot.block(net)).for_each(then),
            By::Shapes(paths) => each_shape(slot, paths, |_, token| then(token)),
            By::Beginning(text) => std::iter::once(slot.beginning(text)).for_each(then),
            By::End(text) => std::iter::once(slot.end(text)).for_each(then),
            By::Presence => std::iter::once(slot.presence).for_each(then),
        }
    }
}

/// The shapes of some paths, each once: those that differ in names alone stand beside each other and are one.
pub(super) fn each_shape<'r>(
    slot: &Slot,
    paths: &'r [PathPattern],
    mut then: impl FnMut(&'r PathPattern, Token),
) {
    let mut last = None;
    for path in paths {
        let token = slot.shape(&shape_text(path));
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
fn shape_text(path: &PathPattern) -> String {
    let mut text = String::new();
    for segment in path.segments() {
        match segment {
            Segment::Literal(literal) => text.push_str(literal),
            // No segment of a path has one.
            Segment::Any(_) => text.push('?'),
        }
        text.push('/');
    }
    text.push_str(if path.is_open() { "?" } else { "" });
    text
}
