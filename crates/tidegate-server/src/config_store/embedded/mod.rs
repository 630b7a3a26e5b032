//! The embedded config store: one file in the data directory, on [redb](https://docs.rs/redb).
//!
//! ```text
//! store.rs          EmbeddedConfigStore: the store, and its calls
//! writer.rs         the thread that writes: calls that wait share a commit
//! transaction.rs    what one commit does: conditions, versions, the log of changes
//! tables.rs         the tables of the file, and reading them
//! database_file.rs  opens the file, and opens it again after a disk error
//! error.rs          errors of redb, with hints
//! ```
//!
//! A write goes to a queue. The writer takes all calls that wait, does them in one transaction, and replies after the file
//! is synced. So a sync, which takes milliseconds, is shared by all calls that came during the one before it.
//!
//! redb refuses all calls after its first disk error until the file is opened again. The writer does that: at once, and then
//! once a second until it works. Before each commit it checks the free space of the disk, so that a full disk is
//! usually an error of one write, and reads go on.
//!
//! Commits save redb's allocator state ("quick repair"). They take longer, but a store of any size opens at once after a crash.

mod database_file;
mod error;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod transaction;
mod writer;

pub use store::{CONFIG_FILE, EmbeddedConfigStore};
