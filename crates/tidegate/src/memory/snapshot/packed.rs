//! Packed states in a snapshot, and the limits that own them.

use std::io::{self, Write};

use tidegate_core::{PackedState, Timestamp};

use super::blocks::{Block, BlockWriter};
use super::format::{BlockKind, ByteReader};
use super::restore::RestoreProgress;
use crate::memory::MemoryStore;
use crate::memory::owners::{OWNERS, OwnedTag, Owner};

/// A tag and a state.
const ENTRY_BYTES: usize = 24;
/// A tag, a state, and the number of its owner.
const OWNED_ENTRY_BYTES: usize = ENTRY_BYTES + 1;
const OWNER_BYTES: usize = 8;

/// Writes every live state. Returns how many.
pub(super) fn write<W: Write>(
    store: &MemoryStore,
    now: Timestamp,
    blocks: &mut BlockWriter<W>,
) -> io::Result<u64> {
    let idle_before = store.idle_before(now);
    let mut written = 0;
    for id in store.owners.ids() {
        blocks.begin_entry(BlockKind::Owners, OWNER_BYTES)?.extend_from_slice(&id.to_le_bytes());
    }
    store.table.walk(|page| {
        for entry in page.iter().filter(|entry| !entry.state.is_idle_at(idle_before)) {
            let [first, second] = entry.state.to_words();
            let payload = blocks.begin_entry(BlockKind::OwnedPacked, OWNED_ENTRY_BYTES)?;
            payload.extend_from_slice(&entry.tag.to_le_bytes());
            payload.extend_from_slice(&first.to_le_bytes());
            payload.extend_from_slice(&second.to_le_bytes());
            payload.push(entry.owner.number());
            written += 1;
        }
        io::Result::Ok(())
    })?;
    Ok(written)
}

/// Reads the limits of the states that follow.
pub(super) fn restore_owners(block: &Block<'_>, progress: &mut RestoreProgress) -> Result<(), &'static str> {
    if block.payload.len() != block.entries as usize * OWNER_BYTES || block.entries as usize >= OWNERS {
        return Err("the owners do not fill their block");
    }
    let ids = block.payload.as_chunks::<OWNER_BYTES>().0.iter().map(|id| u64::from_le_bytes(*id));
    let owner = |id| if id == 0 { Owner::UNKNOWN } else { progress.store.owners.owner_by_id(id) };
    progress.owners = std::iter::once(Owner::UNKNOWN).chain(ids.map(owner)).collect();
    Ok(())
}

/// Puts the states of a block into the store.
pub(super) fn restore(block: &Block<'_>, progress: &mut RestoreProgress) -> Result<(), &'static str> {
    let has_owners = block.kind == BlockKind::OwnedPacked;
    let entry_bytes = if has_owners { OWNED_ENTRY_BYTES } else { ENTRY_BYTES };
    if block.payload.len() != block.entries as usize * entry_bytes {
        return Err("the entries do not fill their block");
    }
    for entry in block.payload.chunks_exact(entry_bytes) {
        let mut fields = ByteReader(entry);
        let (Some(tag), Some(first), Some(second)) = (fields.u64(), fields.u64(), fields.u64()) else {
            return Err("an entry is shorter than its fields");
        };
        let owner = match fields.0 {
            [number] => *progress.owners.get(usize::from(*number)).ok_or("an entry has an unknown owner")?,
            _ if tag == 0 => return Err("an entry has no tag"),
            _ => Owner::UNKNOWN,
        };
        let state = PackedState::from_words([first, second]).moved_back(progress.moved_back_ns);
        if state.is_idle_at(progress.now) {
            progress.expired += 1;
        } else {
            progress.inserted += insert(&progress.store, OwnedTag { tag, owner }, state, progress.now);
        }
    }
    Ok(())
}

/// Puts a state into the table as a decision would. Returns 1 if the key is new.
fn insert(store: &MemoryStore, key: OwnedTag, state: PackedState, now: Timestamp) -> u64 {
    loop {
        // No other thread has this store yet, so the page cannot be split before it is locked.
        let mut page = store.table.page(store.table.page_number(key.tag)).lock();
        let existing = page.find(key.tag);
        if let Some(slot) = existing.or_else(|| store.claim_slot(&page, key.tag, now, &[])) {
            store.put_packed(&mut page, slot, key, state, now);
            return u64::from(existing.is_none());
        }
        drop(page);
        store.make_room(key.tag, now);
    }
}
