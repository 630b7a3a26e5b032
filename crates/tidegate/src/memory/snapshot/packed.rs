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

/// Writes every live state. Returns how many.
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
pub(super) fn restore(block: &Block<'_>, progress: &mut RestoreProgress) -> Result<(), &'static str> {
    if block.payload.len() != block.entries as usize * ENTRY_BYTES {
        return Err("the entries do not fill their block");
    }
    for entry in block.payload.chunks_exact(ENTRY_BYTES) {
        let mut fields = ByteReader(entry);
        let (Some(tag @ 1..), Some(first), Some(second)) = (fields.u64(), fields.u64(), fields.u64()) else {
            return Err("an entry has no tag");
        };
        let state = PackedState::from_words([first, second]);
        if state.is_idle_at(progress.now) {
            progress.expired += 1;
        } else {
            progress.inserted += insert(&progress.store, tag, state, progress.now);
        }
    }
    Ok(())
}

/// Puts a state into the table as a decision would. Returns 1 if the key is new.
fn insert(store: &MemoryStore, tag: u64, state: PackedState, now: Timestamp) -> u64 {
    let mut pressure = PagePressure::Normal;
    loop {
        // No other thread has this store yet, so the page cannot be split before it is locked.
        let mut page = store.table.page(store.table.page_of(tag)).lock();
        let existing = page.find(tag);
        let request = SlotRequest { tag, now, reserved: &[], pressure };
        if let Some(slot) = existing.or_else(|| store.claim_slot(&page, &request)) {
            store.put_packed(&mut page, slot, tag, state, now);
            return u64::from(existing.is_none());
        }
        drop(page);
        pressure = store.table.make_room(tag, store.idle_before(now), &store.budget);
    }
}
