//! Packed states in a snapshot.

use std::io::{self, Write};

use tidegate_core::{PackedState, Timestamp};

use super::blocks::{Block, BlockWriter};
use super::format::{BlockKind, ByteReader};
use super::restore::RestoreProgress;
use crate::memory::MemoryStore;
use crate::memory::single::SlotRequest;
use crate::memory::table::PagePressure;

const ENTRY_BYTES: usize = 24;

/// Writes every state that matters; says how many.
pub(super) fn write<W: Write>(
    store: &MemoryStore,
    now: Timestamp,
    blocks: &mut BlockWriter<W>,
) -> io::Result<u64> {
    let idle_before = store.idle_before(now);
    let mut written = 0;
    store.table.walk(|page| {
        for (tag, state) in page.iter().filter(|(_, state)| !state.is_idle_at(idle_before)) {
            let [first, second] = state.to_words();
            let payload = blocks.begin_entry(BlockKind::Packed, ENTRY_BYTES)?;
            payload.extend_from_slice(&tag.to_le_bytes());
            payload.extend_from_slice(&first.to_le_bytes());
            payload.extend_from_slice(&second.to_le_bytes());
            written += 1;
        }
        io::Result::Ok(())
    })?;
    Ok(written)
}

/// Puts the states of a block into the store.
pub(super) fn restore(block: &Block<'_>, loading: &mut RestoreProgress) -> Result<(), &'static str> {
    if block.payload.len() != block.entries as usize * ENTRY_BYTES {
        return Err("a block's entries do not fill it");
    }
    for entry in block.payload.chunks_exact(ENTRY_BYTES) {
        let mut fields = ByteReader(entry);
        let (Some(tag @ 1..), Some(first), Some(second)) = (fields.u64(), fields.u64(), fields.u64()) else {
            return Err("an entry has no tag");
        };
        let state = PackedState::from_words([first, second]);
        if state.is_idle_at(loading.now) {
            loading.expired += 1;
        } else {
            loading.inserted += insert(&loading.store, tag, state, loading.now);
        }
    }
    Ok(())
}

/// Puts a state into the table as a decision would; counts it if the key is not there already.
fn insert(store: &MemoryStore, tag: u64, state: PackedState, now: Timestamp) -> u64 {
    let mut pressure = PagePressure::Normal;
    loop {
        // Nobody else has this store yet, so the page is still the tag's when it is locked.
        let mut page = store.table.page(store.table.page_of(tag)).lock();
        let held = page.find(tag);
        let wanted = SlotRequest { tag, now, reserved: &[], pressure };
        if let Some(slot) = held.or_else(|| store.claim_slot(&page, &wanted)) {
            store.put_packed(&mut page, slot, tag, state, now);
            return u64::from(held.is_none());
        }
        drop(page);
        pressure = store.table.make_room(tag, store.idle_before(now), &store.budget);
    }
}
