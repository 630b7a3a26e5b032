//! Checks: the single conditions of a rule.

use super::descriptor_view::DescriptorView;
use super::slot::{SlotId, Slots};
use super::token::Token;
use crate::rules::{Descriptor, Rule};

/// One condition for a rule to match.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// A slot has this value.
    Value { slot: SlotId, token: Token },
    /// A slot has a value.
    Presence { slot: SlotId },
    /// A condition of the rule holds.
    Condition { slot: SlotId, number: usize },
    /// An entry pattern of the rule matches.
    Entry { slot: SlotId, index: usize },
    /// The number of entries is in this range.
    Count { min: usize, max: usize },
    /// The whole rule matches, by [`Rule::mismatch`].
    WholeRule,
}

/// A descriptor, as received and sorted by slot.
pub(super) struct CheckInput<'a, 'd> {
    pub(super) slots: &'a Slots,
    pub(super) view: &'a DescriptorView<'d>,
    pub(super) descriptor: &'a Descriptor<'d>,
}

impl Check {
    /// Whether the check holds. A rule that does not exist matches nothing.
    pub(super) fn holds(&self, input: &CheckInput<'_, '_>, rule: Option<&Rule>) -> bool {
        let pattern = match *self {
            Self::Value { slot, token } => return input.view.has(slot, token),
            Self::Presence { slot } => return !input.view.values_of(slot).is_empty(),
            Self::Count { min, max } => {
                return (min..=max).contains(&input.descriptor.entries.len());
            }
            Self::WholeRule => return rule.is_some_and(|rule| rule.mismatch(input.descriptor).is_none()),
            Self::Condition { slot, number } => {
                rule.and_then(|rule| rule.conditions.get(number)).map(|condition| (slot, &condition.pattern))
            }
            Self::Entry { slot, index } => {
                let entries = rule.and_then(|rule| rule.entries.as_ref());
                let entry = entries.and_then(|entries| entries.patterns.get(index));
                entry
                    .map(|(_, pattern)| (slot, pattern))
                    .filter(|(slot, _)| !input.view.values_of(*slot).is_empty())
            }
        };
        pattern.is_some_and(|(slot, pattern)| {
            let values = input.view.values_of(slot).iter().map(|slot_value| slot_value.value);
            pattern.matches_values(values, input.slots.get(slot).case)
        })
    }
}
