//! What a rule asks for, one thing at a time.

use super::slot::{SlotId, Slots};
use super::token::Token;
use super::descriptor_view::DescriptorView;
use crate::rules::{Descriptor, Rule};

/// One of the things that have to hold for a rule to match.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// A slot has this value.
    Value { slot: SlotId, token: Token },
    /// A slot has any value.
    Presence { slot: SlotId },
    /// A condition of the rule holds.
    Condition { slot: SlotId, number: usize },
    /// An entry of the rule holds.
    Entry { slot: SlotId, index: usize },
    /// There are this many entries in all.
    Count { min: usize, max: usize },
    /// The rule matches, by the plain way.
    WholeRule,
}

/// A descriptor in both forms.
pub(super) struct CheckInput<'a, 'd> {
    pub(super) slots: &'a Slots,
    pub(super) view: &'a DescriptorView<'d>,
    pub(super) descriptor: &'a Descriptor<'d>,
}

impl Check {
    /// Whether it holds. A rule that is not there matches nothing.
    pub(super) fn holds(&self, asked: &CheckInput<'_, '_>, rule: Option<&Rule>) -> bool {
        let pattern = match *self {
            Self::Value { slot, token } => return asked.view.has(slot, token),
            Self::Presence { slot } => return !asked.view.values_of(slot).is_empty(),
            Self::Count { min: least, max: most } => return (least..=most).contains(&asked.descriptor.entries.len()),
            Self::WholeRule => return rule.is_some_and(|rule| rule.mismatch(asked.descriptor).is_none()),
            Self::Condition { slot, number } => {
                rule.and_then(|rule| rule.conditions.get(number)).map(|condition| (slot, &condition.pattern))
            }
            Self::Entry { slot, index: place } => {
                let entries = rule.and_then(|rule| rule.entries.as_ref());
                let entry = entries.and_then(|entries| entries.patterns.get(place));
                entry.map(|(_, pattern)| (slot, pattern)).filter(|(slot, _)| !asked.view.values_of(*slot).is_empty())
            }
        };
        pattern.is_some_and(|(slot, pattern)| {
            let values = asked.view.values_of(slot).iter().map(|seen| seen.value);
            pattern.matches_values(values, asked.slots.get(slot).case)
        })
    }
}
