//! A descriptor, sorted by what rules ask for.

use smallvec::SmallVec;

use super::slot::{SlotId, Slots};
use super::token::Token;
use crate::rules::Descriptor;

/// Values up to this many need no memory of their own.
const VALUES_INLINE: usize = 16;

/// The values of a descriptor that any rule asks for, by slot. A value that a slot has twice is in it once.
pub(super) struct DescriptorView<'d> {
    values: SmallVec<[SlotValue<'d>; VALUES_INLINE]>,
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotValue<'d> {
    pub(super) slot: SlotId,
    /// Stands for the value, if anything is asked for by it.
    pub(super) token: Token,
    /// What is compared of it.
    pub(super) value: &'d str,
}

impl<'d> DescriptorView<'d> {
    /// Without values.
    #[inline]
    pub(super) fn new() -> Self {
        Self { values: SmallVec::new() }
    }

    /// Takes the values of a descriptor. Not made with them, because a view is too large to be moved.
    pub(super) fn read(&mut self, slots: &Slots, descriptor: &Descriptor<'d>) {
        for (place, entry) in descriptor.entries.iter().enumerate() {
            if let Some(slot) = slots.find(entry.key) {
                self.add(slots, slot, entry.value);
            }
            if place < slots.positions_end
                && let Some(slot) = slots.find_position(place, entry.key)
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

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The values slot by slot.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[SlotValue<'d>]> {
        self.values.chunk_by(|a, b| a.slot == b.slot)
    }

    /// The values of a slot.
    pub(super) fn values_of(&self, slot: SlotId) -> &[SlotValue<'d>] {
        let start = self.values.partition_point(|seen| seen.slot < slot);
        let tail = &self.values[start..];
        &tail[..tail.partition_point(|seen| seen.slot == slot)]
    }

    /// Whether a slot has a value.
    pub(super) fn has(&self, slot: SlotId, token: Token) -> bool {
        self.values.binary_search_by(|seen| (seen.slot, seen.token).cmp(&(slot, token))).is_ok()
    }
}
