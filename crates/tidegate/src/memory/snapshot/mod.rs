//! Snapshots: the store in a file, so that limits survive a restart.
//!
//! ```text
//! MemoryStore::snapshot     walks the pages and the shards, a portion at a time      write.rs
//!   packed, kept            each kind of state as bytes, and back                     packed.rs, kept.rs
//!   BlockWriter             blocks with checksums                                     blocks.rs, by format.rs
//!   Replacement             a temporary file, renamed into place                      replacement.rs
//! MemoryStore::restore      reads all of it back, or refuses it                       restore.rs
//! SnapshotWriter            a thread that writes one from time to time                writer.rs
//! ```
//!
//! # What a snapshot holds
//!
//! Decisions go on while it is written. Every counter is in it as it was at some instant between the beginning
//! and the end of the writing, and every counter that was there all along is in it. Counters are not all from
//! the same instant: a plan of several limits that is decided meanwhile may be in it in part. A snapshot that is
//! written while nothing is decided is exact.
//!
//! A counter may be in it twice, if it was moved by a split or a removal between two looks; the later entry is
//! the newer one, and counts. (If it has expired by the time of the restore and the earlier one has not, the
//! earlier one stays: it, too, is from between the beginning and the end.) Why none is missed is written down
//! where the walks are: `table/walk.rs` and `shards/walk.rs`.
//!
//! The leases of a key that has thousands of them are from different instants, too: each is in it as it was at one of
//! them. One that is renewed to a shorter end than it had, just while those of its key are copied, may be missed.
//!
//! What was idle at the instant of the snapshot is left out, unless the store keeps idle states.

mod blocks;
mod error;
mod format;
mod rows;
mod packed;
mod atomic_file;
mod restore;
mod write;
mod writer;

pub use error::SnapshotError;
pub use restore::{RestoreStatus, Restored};
pub use write::SnapshotReport;
pub use writer::{SNAPSHOT_EVERY_MIN, SnapshotAttempts, SnapshotWriter};
