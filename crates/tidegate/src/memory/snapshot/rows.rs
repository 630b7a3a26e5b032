//! States of variable size in a snapshot, ledgers and leases, as lines of numbers. One that is larger than a block is
//! written in parts.

use std::io::{self, Write};

use tidegate_core::{
    FencingToken, Grant, LeaseEntry, Leases, LeasesError, UsageLog, UsageEntry, UsageLogError, Timestamp,
};

use super::blocks::{Block, BlockWriter};
use super::format::{BLOCK_PAYLOAD_BYTES_MAX, BlockKind, ByteReader};
use super::restore::RestoreProgress;
use crate::memory::shards::{StateCopy, AsRows, Shards, shard_of};
use crate::memory::{MemoryStore, ShardEntry};
use crate::sync::Ordering;

const ENTRY_HEADER_BYTES: usize = 32;

/// A kind of state that can be written and put together again.
pub(super) trait SnapshotState: AsRows {
    const KIND: BlockKind;

    fn shards(store: &MemoryStore) -> &Shards<Self>;

    /// The state of these lines, or what is wrong with them.
    fn from_rows(lines: &[Self::Row]) -> Result<Self, &'static str>;
}

/// A state of which parts are still to come. Its lines are bytes, as many as were read.
pub(super) struct PartialState {
    kind: BlockKind,
    tag: u64,
    idle_from: Timestamp,
    rows_left: u64,
    bytes: Vec<u8>,
    size: StateSize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StateSize {
    Fits,
    /// It takes more memory than all of the store may, so no line but the first is kept.
    TooLarge,
}

/// Writes every state of a kind that matters; says how many.
pub(super) fn write<S: SnapshotState>(
    store: &MemoryStore,
    now: Timestamp,
    blocks: &mut BlockWriter<impl Write>,
) -> io::Result<u64> {
    let mut written = 0;
    S::shards(store).walk(store.idle_before(now), |state| {
        written += 1;
        write_state::<S>(state, blocks)
    })?;
    Ok(written)
}

fn write_state<S: SnapshotState>(
    StateCopy { tag, idle_from, rows: lines }: StateCopy<'_, S::Row>,
    blocks: &mut BlockWriter<impl Write>,
) -> io::Result<()> {
    let part_lines_max = (BLOCK_PAYLOAD_BYTES_MAX - ENTRY_HEADER_BYTES) / size_of::<S::Row>();
    let mut lines_left = lines.len();
    for part in lines.chunks(part_lines_max) {
        lines_left -= part.len();
        let payload = blocks.begin_entry(S::KIND, ENTRY_HEADER_BYTES + size_of_val(part))?;
        for field in [tag, idle_from.as_nanos(), part.len() as u64, lines_left as u64] {
            payload.extend_from_slice(&field.to_le_bytes());
        }
        for word in part.iter().flat_map(AsRef::as_ref) {
            payload.extend_from_slice(&word.to_le_bytes());
        }
    }
    Ok(())
}

/// Puts the states of a block into the store; one that goes on in the next block waits for it.
pub(super) fn restore<S: SnapshotState>(block: &Block<'_>, loading: &mut RestoreProgress) -> Result<(), &'static str> {
    let mut rest = block.payload;
    for _ in 0..block.entries {
        rest = restore_part::<S>(rest, loading)?;
    }
    if rest.is_empty() { Ok(()) } else { Err("a block's entries do not fill it") }
}

/// Takes one entry from the front of a payload.
fn restore_part<'a, S: SnapshotState>(payload: &'a [u8], loading: &mut RestoreProgress) -> Result<&'a [u8], &'static str> {
    let mut fields = ByteReader(payload);
    let mut field = || fields.u64().ok_or("an entry is longer than its block");
    let (tag, idle_from, lines_here, lines_left) = (field()?, field()?, field()?, field()?);
    let bytes = usize::try_from(lines_here).ok().and_then(|lines| lines.checked_mul(size_of::<S::Row>()));
    let Some((lines, rest)) = bytes.and_then(|bytes| fields.0.split_at_checked(bytes)) else {
        return Err("an entry is longer than its block");
    };
    if tag == 0 || lines.is_empty() {
        return Err("an entry has no tag or no lines");
    }
    let idle_from = Timestamp::from_nanos(idle_from);
    let mut state = match loading.partial.take() {
        None => {
            let (bytes, size) = (Vec::new(), StateSize::Fits);
            PartialState { kind: S::KIND, tag, idle_from, rows_left: 0, bytes, size }
        }
        Some(begun) => {
            let goes_on = begun.kind == S::KIND && begun.tag == tag && begun.idle_from == idle_from;
            if !goes_on || lines_left.checked_add(lines_here) != Some(begun.rows_left) {
                return Err(PART_MISSING);
            }
            begun
        }
    };
    state.add::<S>(lines, loading.store_bytes_max);
    state.rows_left = lines_left;
    if lines_left > 0 {
        loading.partial = Some(state);
    } else {
        insert::<S>(&state, loading)?;
    }
    Ok(rest)
}

/// What is wrong if the next part of a state is not where it ought to be.
pub(super) const PART_MISSING: &str = "a part of an entry is missing";

impl PartialState {
    /// Adds the lines of a part. They were read already, so this takes no more memory than the file is long.
    fn add<S: SnapshotState>(&mut self, lines: &[u8], store_bytes_max: u64) {
        if self.size == StateSize::Fits {
            self.bytes.extend_from_slice(lines);
        }
        if self.bytes.len() as u64 > store_bytes_max {
            self.size = StateSize::TooLarge;
            self.bytes.truncate(size_of::<S::Row>());
            self.bytes.shrink_to_fit();
        }
    }

    fn rows<S: SnapshotState>(&self) -> Vec<S::Row> {
        let read = |bytes: &[u8]| {
            let (mut fields, mut line) = (ByteReader(bytes), S::Row::default());
            line.as_mut().iter_mut().for_each(|word| *word = fields.u64().unwrap_or(0));
            line
        };
        self.bytes.chunks_exact(size_of::<S::Row>()).map(read).collect()
    }
}

/// Puts a state into its shard as a decision would.
fn insert<S: SnapshotState>(whole: &PartialState, loading: &mut RestoreProgress) -> Result<(), &'static str> {
    let (store, now) = (&loading.store, loading.now);
    let restored = S::from_rows(&whole.rows::<S>())?;
    if whole.idle_from <= now || whole.size == StateSize::TooLarge {
        // As when a state is removed: the key must not hand out its numbers again.
        store.lost_fence_max.fetch_max(restored.last_fence().get(), Ordering::Relaxed);
    }
    if whole.idle_from <= now {
        loading.expired += 1;
        return Ok(());
    }
    if whole.size == StateSize::TooLarge {
        loading.inserted += 1;
        store.live_evictions.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let (shards, tag) = (S::shards(store), whole.tag);
    let shard = &mut shards.lock(shard_of(tag));
    loading.inserted += u64::from(!shard.contains(tag));
    store.update_sharded(ShardEntry { shards, shard, tag }, now, |state| {
        *state = restored;
        ((), whole.idle_from)
    });
    Ok(())
}

impl SnapshotState for UsageLog {
    const KIND: BlockKind = BlockKind::Ledgers;

    fn shards(store: &MemoryStore) -> &Shards<Self> {
        &store.ledgers
    }

    fn from_rows(lines: &[[u64; 2]]) -> Result<Self, &'static str> {
        let entries = lines.iter().map(|[stamp, units]| UsageEntry { stamp: *stamp, units: *units });
        Self::from_entries(entries).map_err(UsageLogError::as_str)
    }
}

impl SnapshotState for Leases {
    const KIND: BlockKind = BlockKind::Leases;

    fn shards(store: &MemoryStore) -> &Shards<Self> {
        &store.leases
    }

    fn from_rows(lines: &[[u64; 3]]) -> Result<Self, &'static str> {
        let Some(([written, last_fence, 0], leases)) = lines.split_first() else {
            return Err("leases do not begin with a line without units");
        };
        let lease = |[expires, fence, units]: &[u64; 3]| LeaseEntry {
            grant: Grant { expires: Timestamp::from_nanos(*expires), fencing_token: FencingToken::new(*fence) },
            units: *units,
        };
        let (written, last_fence) = (Timestamp::from_nanos(*written), FencingToken::new(*last_fence));
        Self::from_entries(written, last_fence, leases.iter().map(lease)).map_err(LeasesError::as_str)
    }
}
