//! A memory store in a file, so that counters survive a restart. The [guide](crate::guide::restarts) shows how.

pub use crate::memory::{
    RestoreStatus, Restored, SNAPSHOT_EVERY_MIN, SnapshotAttempts, SnapshotError, SnapshotReport, SnapshotWriter,
};
