//! Ledgers in a snapshot. One that is larger than a block is written in parts.

use std::io::{self, Write};

use tidegate_core::{Ledger, LedgerEntry, LedgerError, Timestamp};

use super::blocks::{Block, BlockWriter};
use super::format::{BLOCK_PAYLOAD_BYTES_MAX, BlockKind, Fields};
use super::restore::Loading;
use crate::memory::MemoryStore;
use crate::memory::ledgers::{Copied, Ledgers};
use crate::memory::sync::Ordering;

const HEAD_BYTES: usize = 32;
const LINE_BYTES: usize = 16;
/// Lines of a part: what fits into a block.
const PART_LINES_MAX: usize = (BLOCK_PAYLOAD_BYTES_MAX - HEAD_BYTES) / LINE_BYTES;

/// A ledger of which parts are still to come.
pub(super) struct Unfinished {
    tag: u64,
    idle_from: Timestamp,
    lines_left: u64,
    lines: Vec<LedgerEntry>,
    size: Size,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Fits,
    /// It takes more memory than all of the store may, so its lines are not kept.
    TooLarge,
}

/// Writes every ledger that matters; says how many.
pub(super) fn write<W: Write>(
    store: &MemoryStore,
    now: Timestamp,
    blocks: &mut BlockWriter<W>,
) -> io::Result<u64> {
    let mut written = 0;
    store.ledgers.walk(store.idle_before(now), |ledger| {
        written += 1;
        write_one(ledger, blocks)
    })?;
    Ok(written)
}

fn write_one<W: Write>(
    Copied { tag, idle_from, entries }: Copied<'_>,
    blocks: &mut BlockWriter<W>,
) -> io::Result<()> {
    let mut lines_left = entries.len();
    for part in entries.chunks(PART_LINES_MAX) {
        lines_left -= part.len();
        let payload = blocks.entry(BlockKind::Ledgers, HEAD_BYTES + part.len() * LINE_BYTES)?;
        for field in [tag, idle_from.as_nanos(), part.len() as u64, lines_left as u64] {
            payload.extend_from_slice(&field.to_le_bytes());
        }
        for line in part {
            payload.extend_from_slice(&line.stamp.to_le_bytes());
            payload.extend_from_slice(&line.units.to_le_bytes());
        }
    }
    Ok(())
}

/// Puts the ledgers of a block into the store; one that goes on in the next block waits for it.
pub(super) fn restore(block: &Block<'_>, loading: &mut Loading) -> Result<(), &'static str> {
    let mut rest = block.payload;
    for _ in 0..block.entries {
        rest = restore_part(rest, loading)?;
    }
    if rest.is_empty() { Ok(()) } else { Err("a block's entries do not fill it") }
}

/// Takes one entry from the front of a payload.
fn restore_part<'a>(payload: &'a [u8], loading: &mut Loading) -> Result<&'a [u8], &'static str> {
    let mut fields = Fields(payload);
    let mut field = || fields.u64().ok_or("an entry is longer than its block");
    let (tag, idle_from, lines_here, lines_left) = (field()?, field()?, field()?, field()?);
    let bytes = usize::try_from(lines_here).ok().and_then(|lines| lines.checked_mul(LINE_BYTES));
    let Some((lines, rest)) = bytes.and_then(|bytes| fields.0.split_at_checked(bytes)) else {
        return Err("an entry is longer than its block");
    };
    if tag == 0 || lines.is_empty() {
        return Err("a ledger has no tag or no lines");
    }
    let idle_from = Timestamp::from_nanos(idle_from);
    let mut ledger = match loading.unfinished.take() {
        None => Unfinished { tag, idle_from, lines_left: 0, lines: Vec::new(), size: Size::Fits },
        Some(begun) => {
            let goes_on = begun.tag == tag && begun.idle_from == idle_from;
            if !goes_on || lines_left.checked_add(lines_here) != Some(begun.lines_left) {
                return Err("a part of a ledger is missing");
            }
            begun
        }
    };
    ledger.add(lines, loading.store_bytes_max);
    ledger.lines_left = lines_left;
    if lines_left > 0 {
        loading.unfinished = Some(ledger);
    } else {
        put(ledger, loading).map_err(|error| match error {
            LedgerError::OutOfOrder => "the lines of a ledger are not in the order of time",
            LedgerError::UnitsOutOfRange => "a line of a ledger holds less or more units than it can",
        })?;
    }
    Ok(rest)
}

impl Unfinished {
    /// Adds the lines of a part. They were read already, so this takes no more memory than the file is long.
    fn add(&mut self, lines: &[u8], store_bytes_max: u64) {
        let bytes = (self.lines.len() * LINE_BYTES + lines.len()) as u64;
        if self.size == Size::TooLarge || bytes > store_bytes_max {
            (self.size, self.lines) = (Size::TooLarge, Vec::new());
            return;
        }
        self.lines.extend(lines.chunks_exact(LINE_BYTES).filter_map(|line| {
            let mut fields = Fields(line);
            Some(LedgerEntry { stamp: fields.u64()?, units: fields.u64()? })
        }));
    }
}

/// Puts a ledger into its shard as a decision would.
fn put(whole: Unfinished, loading: &mut Loading) -> Result<(), LedgerError> {
    let Unfinished { tag, idle_from, lines, size, .. } = whole;
    let (store, now) = (&loading.store, loading.now);
    if size == Size::TooLarge {
        store.live_evictions.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let restored = Ledger::from_entries(lines)?;
    if idle_from <= now {
        loading.expired += 1;
        return Ok(());
    }
    let mut shard = store.ledgers.lock(Ledgers::shard_of(tag));
    loading.restored += u64::from(!shard.holds(tag));
    store.update_ledger(&mut shard, tag, now, |ledger| {
        *ledger = restored;
        ((), idle_from)
    });
    Ok(())
}
