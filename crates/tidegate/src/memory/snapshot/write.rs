//! Writing a snapshot.

use std::io::{self, Write};
use std::path::Path;

use tidegate_core::{Leases, Timestamp, UsageLog};

use super::atomic_file::AtomicFile;
use super::blocks::BlockWriter;
use super::error::{SnapshotError, SnapshotProblem};
use super::format::{HEADER_BYTES, Header};
use super::{packed, rows};
use crate::memory::MemoryStore;

/// What a snapshot contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotReport {
    /// The number of counters. One that moved while the snapshot was written may be counted twice.
    pub entries: u64,
    /// The size of the file.
    pub bytes: u64,
    /// The instant at which the snapshot was started.
    pub written_at: Timestamp,
}

impl MemoryStore {
    /// Writes the contents of the store to a file, which replaces the one before.
    ///
    /// Decisions continue meanwhile. They wait at most for the copy of one page, or of a portion of one shard. The file
    /// has every counter as it was at some instant between the beginning and the end of the writing. For a key with
    /// thousands of leases, that holds for each lease. Of a plan of several limits that is decided in that time, the
    /// file may have only a part. A snapshot taken while nothing is decided is exact.
    ///
    /// A lease may be missed if it is renewed to a shorter end while the thousands of leases of its key are copied.
    ///
    /// The file is complete and on disk before it replaces the one before, so a process that is killed at any moment
    /// leaves the last good one. It is written as `.NAME.tmp` in the same directory, which must exist. A path belongs
    /// to one store: if two processes write to it at the same moment, one gets an error. Only the owner can read it,
    /// because it has the seed of the store's hash.
    ///
    /// States that are idle at `now` are left out, unless the store is [unbounded](Self::unbounded).
    ///
    /// ```
    /// use tidegate::snapshot::RestoreStatus;
    /// use tidegate::store::{Charge, Counter, Role};
    /// use tidegate::{MemoryStore, OutcomeKind, Timestamp};
    ///
    /// # let directory = std::env::temp_dir().join(format!("tidegate-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// let path = directory.join("limits.snapshot");
    /// let counter = Counter::new("rule", 0, "1 per hour".parse()?);
    /// let charge = Charge::new(b"user:42", &counter, 1);
    /// let now = Timestamp::from_nanos(1_700_000_000_000_000_000);
    ///
    /// let store = MemoryStore::bounded(64 << 20);
    /// assert_eq!(store.check_charge(&charge, now).kind, OutcomeKind::Allowed);
    /// assert_eq!(store.snapshot(&path, now)?.entries, 1);
    ///
    /// let restored = MemoryStore::restore(&path, 64 << 20, now);
    /// assert!(matches!(restored.status, RestoreStatus::Restored { restored: 1, .. }));
    /// assert_eq!(restored.store.check_charge(&charge, now).kind, OutcomeKind::Denied);
    /// # std::fs::remove_dir_all(&directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self, path: impl AsRef<Path>, now: Timestamp) -> Result<SnapshotReport, SnapshotError> {
        let path = path.as_ref();
        // Two threads with the same store wait for each other. Without the lock, one would get an error.
        let _alone = self.snapshot_lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.write_snapshot(path, now).map_err(|problem| SnapshotError::new(path, problem))
    }

    fn write_snapshot(&self, path: &Path, now: Timestamp) -> Result<SnapshotReport, SnapshotProblem> {
        let replacement = AtomicFile::new(path)?;
        let mut file = replacement.open()?;
        let written = self.write_to(&mut file, now).map_err(SnapshotProblem::io("write"));
        let finished = written.and_then(|report| replacement.commit(&file).map(|()| report));
        finished.inspect_err(|_| replacement.discard())
    }

    fn write_to(&self, mut out: impl Write, now: Timestamp) -> io::Result<SnapshotReport> {
        let (seed, seed_check) = (self.seed.words(), self.seed.check_value());
        out.write_all(&Header { written_at: now, seed, seed_check }.to_bytes())?;
        let mut blocks = BlockWriter::new(out);
        let entries = packed::write(self, now, &mut blocks)?
            + rows::write::<UsageLog>(self, now, &mut blocks)?
            + rows::write::<Leases>(self, now, &mut blocks)?;
        let bytes = HEADER_BYTES as u64 + blocks.finish()?;
        Ok(SnapshotReport { entries, bytes, written_at: now })
    }
}
