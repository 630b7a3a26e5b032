//! Restoring a snapshot: all of it, or none.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use tidegate_core::{Leases, UsageLog, Timestamp};

use super::blocks::BlockReader;
use super::error::{SnapshotProblem, RefusedFile, SnapshotError};
use super::format::{BlockKind, HEADER_BYTES, Header};
use super::{rows, packed};
use crate::memory::MemoryStore;
use crate::memory::seed::Seed;
use crate::sync::AtomicU64;

const READ_BYTES: usize = 256 << 10;
const NANOS_PER_MICRO: u64 = 1_000;

/// A store to begin with, and where its counters are from.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct Restored {
    /// The store: with all counters of the snapshot that still matter, or empty.
    pub store: MemoryStore,
    /// What was found.
    pub status: RestoreStatus,
}

/// What was found where a snapshot was looked for. Its `Display` is a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreStatus {
    /// There is no file. The store is empty.
    NoSnapshot,
    /// A snapshot, and it was restored.
    Restored {
        /// Counters that still matter, and are in the store.
        restored: u64,
        /// Counters that still matter, and for which there was no room: `memory_max` is less than they need.
        evicted: u64,
        /// Counters that have expired since the snapshot was written, and were dropped.
        expired: u64,
        /// The instant that the snapshot was asked for.
        written_at: Timestamp,
    },
    /// A file that is damaged, cut short, newer, no snapshot at all, or that could not be read. The store is empty,
    /// and the file was moved aside so that the next snapshot does not replace it.
    ///
    /// One that could not be read, for want of a permission or because too many files were open, may be sound: stop
    /// the program before it writes another, move the file back and start again.
    Refused(SnapshotError),
}

/// A store that is being filled. Nobody else has it.
pub(super) struct RestoreProgress {
    pub store: MemoryStore,
    pub store_bytes_max: u64,
    pub now: Timestamp,
    /// Counters that were put into it, those included that it had to give up again.
    pub inserted: u64,
    pub expired: u64,
    /// A state whose next part comes next.
    pub partial: Option<rows::PartialState>,
}

impl MemoryStore {
    /// A store of at most `memory_max` bytes that goes on where the one that wrote the snapshot was, without
    /// what has expired at `now`.
    ///
    /// A file that is not a whole and sound snapshot is refused: the store is empty then, [`Found::Refused`] says
    /// why, and the file is renamed to `NAME.refused` in the same directory, in place of an older one of that
    /// name. There is no such thing as half a restored store.
    ///
    /// So is a file that cannot be read, whatever is in it: the next snapshot would replace it. Once it can be read
    /// it may be moved back, while the program is stopped.
    ///
    /// If `memory_max` is less than the counters need, some are given up as in any full store;
    /// [`Found::Snapshot`] says how many, and [`live_evictions`](crate::MemoryStats::live_evictions) counts them.
    pub fn restore(path: impl AsRef<Path>, memory_max: u64, now: Timestamp) -> Restored {
        let path = path.as_ref();
        match load(path, memory_max, now) {
            Ok(Some(restored)) => restored,
            Ok(None) => Restored { store: Self::bounded(memory_max), status: RestoreStatus::NoSnapshot },
            Err(problem) => {
                let refused = move_aside(path, &problem);
                let error = SnapshotError::new(path, problem).with_refused_file(refused);
                Restored { store: Self::bounded(memory_max), status: RestoreStatus::Refused(error) }
            }
        }
    }
}

/// Fills a new store, which is handed over only if everything was right up to the last byte.
fn load(path: &Path, memory_max: u64, now: Timestamp) -> Result<Option<Restored>, SnapshotProblem> {
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SnapshotProblem::io("read")(error)),
    };
    // Whoever opens a pipe waits for somebody to write to it.
    if !about.is_file() {
        return Err(SnapshotProblem::NotAFile);
    }
    let file = File::open(path).map_err(SnapshotProblem::io("open"))?;
    let mut input = BufReader::with_capacity(READ_BYTES, file);
    let mut header = Vec::with_capacity(HEADER_BYTES);
    input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header).map_err(SnapshotProblem::io("read"))?;
    let Header { written_at, seed, seed_check } = Header::parse(&header)?;
    let seed = Seed::from_words(seed);
    if seed.check_value() != seed_check {
        return Err(SnapshotProblem::HashMismatch);
    }
    // What was left out of the snapshot had no higher fence than the time: that of the writing, not that of a clock
    // that may have been set back since.
    let lost_fence = AtomicU64::new(written_at.as_nanos() / NANOS_PER_MICRO);
    let store = MemoryStore { seed, lost_fence_max: lost_fence, ..MemoryStore::bounded(memory_max) };
    let store_bytes_max = store.budget.bytes_max();
    let mut loading = RestoreProgress { store, store_bytes_max, now, inserted: 0, expired: 0, partial: None };
    let mut blocks = BlockReader::new(input, HEADER_BYTES as u64);
    while let Some(block) = blocks.next()? {
        let restored = match block.kind {
            BlockKind::Ledgers => rows::restore::<UsageLog>(&block, &mut loading),
            BlockKind::Leases => rows::restore::<Leases>(&block, &mut loading),
            _ if loading.partial.is_some() => Err(rows::PART_MISSING),
            BlockKind::Packed => packed::restore(&block, &mut loading),
            BlockKind::End => Ok(()),
        };
        restored.map_err(|what| SnapshotProblem::Damaged { at_byte: block.at_byte, what })?;
    }
    let RestoreProgress { store, inserted: put, expired, partial: unfinished, .. } = loading;
    if unfinished.is_some() {
        return Err(SnapshotProblem::Damaged { at_byte: about.len(), what: rows::PART_MISSING });
    }
    let given_up = store.stats().live_evictions;
    let restored = put.saturating_sub(given_up);
    Ok(Some(Restored { store, status: RestoreStatus::Restored { restored, evicted: given_up, expired, written_at } }))
}

/// Renames a file that was refused, so that the next snapshot does not replace it.
fn move_aside(path: &Path, problem: &SnapshotProblem) -> RefusedFile {
    let Some(name) = path.file_name().filter(|_| *problem != SnapshotProblem::NotAFile && path.is_file()) else {
        return RefusedFile::LeftInPlace;
    };
    let mut aside = name.to_owned();
    aside.push(".refused");
    let to = path.with_file_name(aside);
    match fs::rename(path, &to) {
        Ok(()) => RefusedFile::MovedTo(to),
        Err(error) => RefusedFile::NotMoved { to, error: error.to_string() },
    }
}

impl fmt::Display for RestoreStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSnapshot => f.write_str("there is no snapshot; the store starts empty"),
            Self::Restored { restored, evicted: given_up, expired, written_at } => {
                let written_s = written_at.as_nanos() / 1_000_000_000;
                write!(
                    f,
                    "restored {restored} counters from a snapshot written {written_s} s after the epoch"
                )?;
                write!(f, "; {expired} had expired")?;
                if *given_up > 0 {
                    write!(f, "; there was no room for {given_up} (hint: give the store more memory)")?;
                }
                Ok(())
            }
            Self::Refused(error) => error.fmt(f),
        }
    }
}
