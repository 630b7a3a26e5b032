//! Restores a snapshot: all of it, or nothing.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use tidegate_core::text::write_date;
use tidegate_core::{Leases, Nanos, Timestamp, UsageLog};

use super::blocks::BlockReader;
use super::error::{RefusedFile, SnapshotError, SnapshotProblem};
use super::format::{BlockKind, HEADER_BYTES, Header};
use super::{packed, rows};
use crate::memory::MemoryStore;
use crate::memory::owners::Owner;
use crate::memory::seed::Seed;
use crate::sync::AtomicU64;

const READ_BYTES: usize = 256 << 10;
const NANOS_PER_MICRO: u64 = 1_000;
/// A snapshot may be this far in the future. Clocks of machines differ, and windows should end when the clock says so.
const CLOCK_AHEAD_MAX_NS: u64 = 60_000_000_000;
/// The year 2020. A clock that is earlier is not set yet, and says nothing about a snapshot.
const CLOCK_SET_MIN_NS: u64 = 1_577_836_800 * 1_000_000_000;

/// A restored store, and where its counters come from.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct Restored {
    /// The store, with all counters of the snapshot that are still live. Empty if nothing was restored.
    pub store: MemoryStore,
    /// What was restored.
    pub status: RestoreStatus,
}

/// The result of a restore. Its `Display` is a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreStatus {
    /// There is no file. The store is empty.
    NoSnapshot,
    /// The snapshot was restored.
    Restored {
        /// Live counters that are in the store.
        restored: u64,
        /// Live counters that were evicted, because `memory_max` is less than they need.
        evicted: u64,
        /// Counters that have expired since the snapshot was written, and were dropped.
        expired: u64,
        /// The instant at which the snapshot was started.
        written_at: Timestamp,
        /// How far the snapshot is in the future, if more than a minute: then the clock was wrong when it was written,
        /// or is wrong now. All counters were moved back by this, so that each limit has as much left as when the
        /// snapshot was written. Counters of `sub_windows` cannot be moved, and were dropped.
        moved_back: Nanos,
    },
    /// The file is damaged, truncated, from a newer version, or not a snapshot, or it could not be read. The store is
    /// empty. The file was moved aside, so that the next snapshot does not replace it.
    ///
    /// A file that could not be read, because of missing permissions or too many open files, may be intact. To use it,
    /// stop the program before it writes another, move the file back and start again.
    Refused(SnapshotError),
}

/// A store that is being restored. No other thread has it.
pub(super) struct RestoreProgress {
    pub store: MemoryStore,
    pub store_bytes_max: u64,
    pub now: Timestamp,
    /// How far instants are moved back, because the snapshot is from the future.
    pub moved_back_ns: u64,
    /// The limits that own packed states, by their numbers in the snapshot.
    pub owners: Vec<Owner>,
    /// Counters that were put into the store, including those that it evicted again.
    pub inserted: u64,
    pub expired: u64,
    /// A state whose next part is expected next.
    pub partial: Option<rows::PartialState>,
}

impl MemoryStore {
    /// Restores a store of at most `memory_max` bytes from a snapshot. Counters that have expired at `now` are left
    /// out.
    ///
    /// A file that is not a complete and valid snapshot is refused: the store is empty, [`RestoreStatus::Refused`] has
    /// the reason, and the file is renamed to `NAME.refused` in the same directory, where it replaces an older one of
    /// that name. A store is never restored in part.
    ///
    /// A file that cannot be read is also refused, whatever its contents, because the next snapshot would replace it.
    /// Once it can be read, move it back while the program is stopped.
    ///
    /// If the snapshot is from the future, the clock was wrong. Its counters would deny requests until the clock is there.
    /// So they are moved back to now: see [`RestoreStatus::Restored`].
    ///
    /// If `memory_max` is less than the counters need, some are evicted as in any full store.
    /// [`RestoreStatus::Restored`] has their number, and [`live_evictions`](crate::MemoryStats::live_evictions) counts
    /// them.
    pub fn restore(path: impl AsRef<Path>, memory_max: u64, now: Timestamp) -> Restored {
        let path = path.as_ref();
        match load(path, memory_max, now) {
            Ok(Some(restored)) => restored,
            Ok(None) => Restored { store: Self::bounded(memory_max), status: RestoreStatus::NoSnapshot },
            Err(problem) => {
                let refused_file = move_aside(path, &problem);
                let error = SnapshotError::new(path, problem).with_refused_file(refused_file);
                Restored { store: Self::bounded(memory_max), status: RestoreStatus::Refused(error) }
            }
        }
    }
}

/// Fills a new store. Returns it only if the file was valid up to the last byte.
fn load(path: &Path, memory_max: u64, now: Timestamp) -> Result<Option<Restored>, SnapshotProblem> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SnapshotProblem::io("read")(error)),
    };
    // Opening a pipe would block until another process writes to it.
    if !metadata.is_file() {
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
    // The fencing tokens of states that were left out are not above the time of the snapshot. Use that time, because
    // the clock may have been set back since.
    let lost_fence_max = AtomicU64::new(written_at.as_nanos() / NANOS_PER_MICRO);
    let store = MemoryStore { seed, lost_fence_max, ..MemoryStore::bounded(memory_max) };
    let store_bytes_max = store.budget.bytes_max();
    let mut progress = RestoreProgress {
        store,
        store_bytes_max,
        now,
        moved_back_ns: moved_back_ns(written_at, now),
        owners: vec![Owner::UNKNOWN],
        inserted: 0,
        expired: 0,
        partial: None,
    };
    let mut blocks = BlockReader::new(input, HEADER_BYTES as u64);
    while let Some(block) = blocks.next()? {
        let restored = match block.kind {
            BlockKind::UsageLogs => rows::restore::<UsageLog>(&block, &mut progress),
            BlockKind::Leases => rows::restore::<Leases>(&block, &mut progress),
            _ if progress.partial.is_some() => Err(rows::PART_MISSING),
            BlockKind::Owners => packed::restore_owners(&block, &mut progress),
            BlockKind::Packed | BlockKind::OwnedPacked => packed::restore(&block, &mut progress),
            BlockKind::End => Ok(()),
        };
        restored.map_err(|what| SnapshotProblem::Damaged { at_byte: block.at_byte, what })?;
    }
    let RestoreProgress { store, inserted, expired, partial, moved_back_ns, .. } = progress;
    if partial.is_some() {
        return Err(SnapshotProblem::Damaged { at_byte: metadata.len(), what: rows::PART_MISSING });
    }
    let evicted = store.stats().live_evictions;
    let restored = inserted.saturating_sub(evicted);
    let moved_back = Nanos::new(moved_back_ns.into());
    let status = RestoreStatus::Restored { restored, evicted, expired, written_at, moved_back };
    Ok(Some(Restored { store, status }))
}

/// How far to move instants back. Zero if the snapshot is not from the future, or only from the near future, or if the
/// clock is not set yet.
fn moved_back_ns(written_at: Timestamp, now: Timestamp) -> u64 {
    let ahead_ns = written_at.as_nanos().saturating_sub(now.as_nanos());
    let is_ahead = ahead_ns > CLOCK_AHEAD_MAX_NS && now.as_nanos() >= CLOCK_SET_MIN_NS;
    if is_ahead { ahead_ns } else { 0 }
}

/// Renames a refused file, so that the next snapshot does not replace it.
fn move_aside(path: &Path, problem: &SnapshotProblem) -> RefusedFile {
    let Some(name) = path.file_name().filter(|_| *problem != SnapshotProblem::NotAFile && path.is_file())
    else {
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
            Self::Restored { restored, evicted, expired, written_at, moved_back } => {
                // Whole seconds are enough.
                let date =
                    write_date(Timestamp::from_nanos(written_at.as_nanos() / 1_000_000_000 * 1_000_000_000));
                write!(f, "restored {restored} counters from a snapshot of {date}")?;
                write!(f, "; {expired} had expired")?;
                if *evicted > 0 {
                    write!(f, "; there was no room for {evicted} (hint: give the store more memory)")?;
                }
                if *moved_back > Nanos::ZERO {
                    write!(
                        f,
                        "; the snapshot is {} s in the future, so all counters were moved back by that (hint: check \
                         the clock of the machine)",
                        moved_back.seconds_rounded_up()
                    )?;
                }
                Ok(())
            }
            Self::Refused(error) => error.fmt(f),
        }
    }
}
