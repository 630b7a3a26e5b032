//! States of variable size in a snapshot (usage logs and leases), as rows of numbers. A state that is larger than a
//! block is written in parts.

use std::io::{self, Write};

use tidegate_core::{
    FencingToken, Grant, LeaseEntry, Leases, LeasesError, Timestamp, UsageEntry, UsageLog, UsageLogError,
};

use super::blocks::{Block, BlockWriter};
use super::format::{BLOCK_PAYLOAD_BYTES_MAX, BlockKind, ByteReader};
use super::restore::RestoreProgress;
use crate::memory::MemoryStore;
use crate::memory::owners::{OwnedTag, Owner};
use crate::memory::shards::{ShardEntry, Shards, shard_of};
use crate::memory::walk::{AsRows, StateCopy};
use crate::sync::Ordering;

const ENTRY_HEADER_BYTES: usize = 32;

/// A kind of state that can be written as rows and restored from them.
pub(super) trait SnapshotState: AsRows {
    const KIND: BlockKind;

    fn shards(store: &MemoryStore) -> &Shards<Self>;

    /// The state of these rows, or what is wrong with them.
    fn from_rows(rows: &[Self::Row]) -> Result<Self, &'static str>;
}

/// A state of which parts are still missing. Its rows are kept as bytes.
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
    /// It needs more memory than the whole store may use, so only its first row is kept.
    TooLarge,
}

/// Writes every live state of a kind. Returns how many.
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
    StateCopy { tag, idle_from, rows }: StateCopy<'_, S::Row>,
    blocks: &mut BlockWriter<impl Write>,
) -> io::Result<()> {
    let part_rows_max = (BLOCK_PAYLOAD_BYTES_MAX - ENTRY_HEADER_BYTES) / size_of::<S::Row>();
    let mut rows_left = rows.len();
    for part in rows.chunks(part_rows_max) {
        rows_left -= part.len();
        let payload = blocks.begin_entry(S::KIND, ENTRY_HEADER_BYTES + size_of_val(part))?;
        for field in [tag, idle_from.as_nanos(), part.len() as u64, rows_left as u64] {
            payload.extend_from_slice(&field.to_le_bytes());
        }
        for word in part.iter().flat_map(AsRef::as_ref) {
            payload.extend_from_slice(&word.to_le_bytes());
        }
    }
    Ok(())
}

/// Puts the states of a block into the store. A state that continues in the next block is kept until then.
pub(super) fn restore<S: SnapshotState>(
    block: &Block<'_>,
    progress: &mut RestoreProgress,
) -> Result<(), &'static str> {
    let mut rest = block.payload;
    for _ in 0..block.entries {
        rest = restore_part::<S>(rest, progress)?;
    }
    if rest.is_empty() { Ok(()) } else { Err("the entries do not fill their block") }
}

/// Reads one entry from the front of a payload.
fn restore_part<'a, S: SnapshotState>(
    payload: &'a [u8],
    progress: &mut RestoreProgress,
) -> Result<&'a [u8], &'static str> {
    let mut fields = ByteReader(payload);
    let mut field = || fields.u64().ok_or("an entry is longer than its block");
    let (tag, idle_from, rows_here, rows_left) = (field()?, field()?, field()?, field()?);
    let bytes = usize::try_from(rows_here).ok().and_then(|rows| rows.checked_mul(size_of::<S::Row>()));
    let Some((rows, rest)) = bytes.and_then(|bytes| fields.0.split_at_checked(bytes)) else {
        return Err("an entry is longer than its block");
    };
    if tag == 0 || rows.is_empty() {
        return Err("an entry has no tag or no rows");
    }
    let idle_from = Timestamp::from_nanos(idle_from);
    let mut state = match progress.partial.take() {
        None => {
            let (bytes, size) = (Vec::new(), StateSize::Fits);
            PartialState { kind: S::KIND, tag, idle_from, rows_left: 0, bytes, size }
        }
        Some(partial) => {
            let continues = partial.kind == S::KIND && partial.tag == tag && partial.idle_from == idle_from;
            if !continues || rows_left.checked_add(rows_here) != Some(partial.rows_left) {
                return Err(PART_MISSING);
            }
            partial
        }
    };
    state.add::<S>(rows, progress.store_bytes_max);
    state.rows_left = rows_left;
    if rows_left > 0 {
        progress.partial = Some(state);
    } else {
        insert::<S>(&state, progress)?;
    }
    Ok(rest)
}

/// The error if the next part of a state does not follow.
pub(super) const PART_MISSING: &str = "a part of an entry is missing";

impl PartialState {
    /// Adds the rows of a part. They are already in memory, so this needs no more memory than the file has bytes.
    fn add<S: SnapshotState>(&mut self, rows: &[u8], store_bytes_max: u64) {
        if self.size == StateSize::Fits {
            self.bytes.extend_from_slice(rows);
        }
        if self.bytes.len() as u64 > store_bytes_max {
            self.size = StateSize::TooLarge;
            self.bytes.truncate(size_of::<S::Row>());
            self.bytes.shrink_to_fit();
        }
    }

    fn rows<S: SnapshotState>(&self) -> Vec<S::Row> {
        let read = |bytes: &[u8]| {
            let (mut fields, mut row) = (ByteReader(bytes), S::Row::default());
            row.as_mut().iter_mut().for_each(|word| *word = fields.u64().unwrap_or(0));
            row
        };
        self.bytes.chunks_exact(size_of::<S::Row>()).map(read).collect()
    }
}

/// Moves the instants of a state back, the first number of each row. False if they are not instants but the numbers of
/// sub-windows. Those are far smaller, because a sub-window takes a microsecond at least.
fn move_rows_back<S: SnapshotState>(rows: &mut [S::Row], now: Timestamp, by_ns: u64) -> bool {
    let instant_min_ns = now.as_nanos().saturating_add(by_ns) / 2;
    let is_instant = |row: &S::Row| row.as_ref().first().is_some_and(|instant| *instant >= instant_min_ns);
    let can_move = rows.iter().all(is_instant);
    if can_move {
        let instants = rows.iter_mut().filter_map(|row| row.as_mut().first_mut());
        instants.for_each(|instant| *instant = instant.saturating_sub(by_ns));
    }
    can_move
}

/// Puts a state into its shard as a decision would.
fn insert<S: SnapshotState>(
    complete: &PartialState,
    progress: &mut RestoreProgress,
) -> Result<(), &'static str> {
    let (store, now) = (&progress.store, progress.now);
    let mut rows = complete.rows::<S>();
    let moved_back_ns = progress.moved_back_ns;
    let can_move = moved_back_ns == 0 || move_rows_back::<S>(&mut rows, now, moved_back_ns);
    let restored = S::from_rows(&rows)?;
    let idle_from = complete.idle_from.as_nanos().saturating_sub(moved_back_ns);
    let idle_from = if can_move { Timestamp::from_nanos(idle_from) } else { now };
    if idle_from <= now || complete.size == StateSize::TooLarge {
        // As for a dropped state: the key must not grant its fencing tokens again.
        store.lost_fence_max.fetch_max(restored.last_fence().get(), Ordering::Relaxed);
    }
    if idle_from <= now {
        progress.expired += 1;
        return Ok(());
    }
    if complete.size == StateSize::TooLarge {
        progress.inserted += 1;
        store.live_evictions.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let (shards, tag) = (S::shards(store), complete.tag);
    let shard = &mut shards.lock(shard_of(tag));
    progress.inserted += u64::from(!shard.contains(tag));
    let key = OwnedTag { tag, owner: Owner::UNKNOWN };
    if !store.make_room_for(&mut ShardEntry { shards, shard, key }, restored.heap_bytes(), now) {
        store.lost_fence_max.fetch_max(restored.last_fence().get(), Ordering::Relaxed);
        store.live_evictions.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    store.update_sharded(ShardEntry { shards, shard, key }, now, |state| {
        *state = restored;
        ((), idle_from)
    });
    Ok(())
}

impl SnapshotState for UsageLog {
    const KIND: BlockKind = BlockKind::UsageLogs;

    fn shards(store: &MemoryStore) -> &Shards<Self> {
        &store.usage_logs
    }

    fn from_rows(rows: &[[u64; 2]]) -> Result<Self, &'static str> {
        let entries = rows.iter().map(|[stamp, units]| UsageEntry { stamp: *stamp, units: *units });
        Self::from_entries(entries).map_err(UsageLogError::as_str)
    }
}

impl SnapshotState for Leases {
    const KIND: BlockKind = BlockKind::Leases;

    fn shards(store: &MemoryStore) -> &Shards<Self> {
        &store.leases
    }

    fn from_rows(rows: &[[u64; 3]]) -> Result<Self, &'static str> {
        let Some(([written, last_fence, 0], leases)) = rows.split_first() else {
            return Err("the first row of leases has units");
        };
        let lease = |[expires, fence, units]: &[u64; 3]| LeaseEntry {
            grant: Grant {
                expires: Timestamp::from_nanos(*expires),
                fencing_token: FencingToken::new(*fence),
            },
            units: *units,
        };
        let (written, last_fence) = (Timestamp::from_nanos(*written), FencingToken::new(*last_fence));
        Self::from_entries(written, last_fence, leases.iter().map(lease)).map_err(LeasesError::as_str)
    }
}
