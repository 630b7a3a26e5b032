//! Packed states in a snapshot.

use std::io::{self, Write};

use tidegate_core::{Packed, Timestamp};

use super::blocks::{Block, BlockWriter};
use super::format::{BlockKind, Fields};
use super::restore::Loading;
use crate::memory::MemoryStore;
use crate::memory::single::Wanted;
use crate::memory::table::Pressure;

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
            let payload = blocks.entry(BlockKind::Packed, ENTRY_BYTES)?;
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
pub(super) fn restore(block: &Block<'_>, loading: &mut Loading) -> Result<(), &'static str> {
    if block.payload.len() != block.entries as usize * ENTRY_BYTES {
        return Err("a block's entries do not fill it");
    }
    for entry in block.payload.chunks_exact(ENTRY_BYTES) {
        let mut fields = Fields(entry);
        let (Some(tag @ 1..), Some(first), Some(second)) = (fields.u64(), fields.u64(), fields.u64()) else {
            return Err("an entry has no tag");
        };
        let state = Packed::from_words([first, second]);
        if state.is_idle_at(loading.now) {
            loading.expired += 1;
        } else {
            loading.put += put(&loading.store, tag, state, loading.now);
        }
    }
    Ok(())
}

/// Puts a state into the table as a decision would; counts it if the key is not there already.
fn put(store: &MemoryStore, tag: u64, state: Packed, now: Timestamp) -> u64 {
    let mut pressure = Pressure::Bearable;
    loop {
        // Nobody else has this store yet, so the page is still the tag's when it is locked.
        let mut page = store.table.page(store.table.page_of(tag)).lock();
        let held = page.find(tag);
        let wanted = Wanted { tag, now, taken: &[], pressure };
        if let Some(slot) = held.or_else(|| store.claim(&page, &wanted)) {
            store.put(&mut page, slot, tag, state, now);
            return u64::from(held.is_none());
        }
        drop(page);
        pressure = store.table.relieve(tag, store.idle_before(now), &store.budget);
    }
}
