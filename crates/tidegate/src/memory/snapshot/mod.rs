//! Snapshots: the store in a file, so that limits survive a restart.
//!
//! ```text
//! MemoryStore::snapshot     walks the pages and the shards, one portion at a time     write.rs
//!   packed, rows            each kind of state as bytes, and back                     packed.rs, rows.rs
//!   BlockWriter             blocks with checksums                                     blocks.rs, by format.rs
//!   AtomicFile              a temporary file, renamed into place                      atomic_file.rs
//! MemoryStore::restore      reads all of it back, or refuses it                       restore.rs
//! SnapshotWriter            a thread that writes one periodically                     writer.rs
//! ```
//!
//! # What a snapshot holds
//!
//! Decisions continue while it is written: it copies one page, or a portion of a shard, at a time. It has every counter
//! that existed throughout, as it was at some instant between the beginning and the end of the writing. Counters are
//! not all from the same instant: of a plan of several limits that is decided meanwhile, it may have only a part. A
//! snapshot that is written while nothing is decided is exact.
//!
//! A counter may be in it twice, if a split or a removal moved it during the walk. The later entry is newer, and
//! counts. (If the later entry has expired by the time of the restore and the earlier one has not, the earlier one
//! stays. It is also from between the beginning and the end.) The modules of the walks explain why no counter is
//! missed: `memory/table.rs` and `memory/walk.rs`.
//!
//! The leases of a key that has thousands of them are also from different instants. A lease that is renewed to a
//! shorter end while the leases of its key are copied may be missed.
//!
//! States that were idle at the instant of the snapshot are left out, unless the store keeps idle states.
//!
//! # The file
//!
//! Every block has a checksum, which includes its number. A file is restored completely, or refused and moved aside. It
//! is written beside the last one and renamed over it. It holds the seed of the hash and a check value: a build with a
//! different hash refuses it.

mod atomic_file;
mod blocks;
mod error;
mod format;
mod packed;
mod restore;
mod rows;
mod write;
mod writer;

pub use error::SnapshotError;
pub use restore::{RestoreStatus, Restored};
pub use write::SnapshotReport;
pub use writer::{SNAPSHOT_EVERY_MIN, SnapshotAttempts, SnapshotWriter};
