//! A descriptor, sorted by slot.

use smallvec::SmallVec;

use super::slot::{SlotId, Slots};
use super::token::Token;
use crate::rules::Descriptor;

/// Up to this many values need no allocation.
const VALUES_INLINE: usize = 16;

/// The values of a descriptor that rules use, by slot. Equal values of a slot are stored once.
pub(super) struct DescriptorView<'d> {
    values: SmallVec<[SlotValue<'d>; VALUES_INLINE]>,
}

/// A value of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotValue<'d> {
    pub(super) slot: SlotId,
    /// The hash of the value, if a rule needs it.
    pub(super) token: Token,
    /// The part of the value that is compared.
    pub(super) value: &'d str,
}

impl<'d> DescriptorView<'d> {
    /// A view without values.
    #[inline]
    pub(super) fn new() -> Self {
        Self { values: SmallVec::new() }
    }

    /// Adds the values of a descriptor. Not part of `new`, because a view is too large to be moved.
    pub(super) fn read(&mut self, slots: &Slots, descriptor: &Descriptor<'d>) {
        if slots.is_empty() {
            return;
        }
        for (position, entry) in descriptor.entries.iter().enumerate() {
            if let Some(slot) = slots.find(entry.key) {
                self.add(slots, slot, entry.value);
            }
            if position < slots.positions_end
                && let Some(slot) = slots.find_position(position, entry.key)
            {
                self.add(slots, slot, entry.value);
            }
        }
        if self.values.len() > 1 {
            self.values.sort_unstable_by(|a, b| (a.slot, a.token, a.value).cmp(&(b.slot, b.token, b.value)));
            self.values.dedup_by(|a, b| a.slot == b.slot && a.token == b.token && a.value == b.value);
        }
    }

    fn add(&mut self, slots: &Slots, id: SlotId, value: &'d str) {
        let slot = slots.get(id);
        let value = slot.comparable_part(value);
        let token = if slot.lookups.is_hashed { slot.value(value) } else { Token::default() };
        self.values.push(SlotValue { slot: id, token, value });
    }

    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The values, grouped by slot.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[SlotValue<'d>]> {
        self.values.chunk_by(|a, b| a.slot == b.slot)
    }

    /// The values of a slot.
    pub(super) fn values_of(&self, slot: SlotId) -> &[SlotValue<'d>] {
        let start = self.values.partition_point(|value| value.slot < slot);
        let tail = &self.values[start..];
        &tail[..tail.partition_point(|value| value.slot == slot)]
    }

    /// Whether a slot has a value.
    pub(super) fn has(&self, slot: SlotId, token: Token) -> bool {
        self.values.binary_search_by(|value| (value.slot, value.token).cmp(&(slot, token))).is_ok()
    }
}
