//! The config store on MongoDB's wire protocol (feature `mongodb`).
//!
//! ```text
//! store.rs     MongoConfigStore: the store, and its calls
//! url.rs       the URL: where the collection is, and errors that hide the password
//! database.rs  the collection: opened by the first call, with a deadline for each command
//! document.rs  the documents of the collection
//! append.rs    writes: conditions, versions, and inserts at the end of the log
//! changes.rs   changes after a version, and the latest version
//! scan.rs      pages of entries in byte order
//! floor.rs     how far back the log reaches
//! sweep.rs     deletes superseded versions and old deletions
//! error.rs     what an error of MongoDB means for the caller
//! ```
//!
//! # Layout
//!
//! One collection is both the log and the data. Each write inserts a document, and no document is ever changed:
//!
//! ```text
//! { _id: 1767225600123, key: "override/...", value: BinData }   a value
//! { _id: 1767225600124, key: "override/...", deleted: true }    a deletion
//! { _id: 0,             key: "",             value: "AT FLOOR" } the first document
//! ```
//!
//! `_id` is the version. The value of a key is its document with the greatest version. One index, on key and version, finds
//! it, and orders scans. The feed of changes is a range of `_id`.
//!
//! # Why no change is missed
//!
//! A writer reads the last version L and inserts its document with version L + 1. It relies on one promise of the server:
//! of several inserts with the same `_id`, one succeeds. If another writer was faster, the insert fails with a duplicate key,
//! and the writer starts over from the new end. Several writes of one call are inserted in order with the versions L + 1, L + 2
//! and so on; the server stops at the first duplicate. So:
//!
//! 1. *Versions become visible in order.* A writer inserts version V only after it has seen V - 1. A reader that sees V
//!    therefore finds V - 1 too, unless a sweep has deleted it. A reader continues after the greatest version that it has seen,
//!    and nothing can appear below. No overlap is needed, and no clock.
//! 2. *A late insert does no harm.* If the server executes an insert long after its writer gave up, then either the version
//!    was taken meanwhile, and the insert fails. Or it was not, and the document is the new end of the log, where every reader
//!    finds it.
//! 3. *Conditions are exact.* A writer reads the versions of its keys after it has read L. If its insert of L + 1 succeeds,
//!    nothing was written in between, so the conditions still hold.
//!
//! Another design has one document for each key, changed by conditional updates, and versions from a counter. A version
//! that was reserved early may then be written late, and readers need an overlap that is longer than any delay. It also needs
//! updates that are atomic, and those of FerretDB 1 are not: 800 concurrent `findAndModify` with `$inc` returned only 153
//! different values.
//!
//! Writers of all nodes take turns at the end of the log. That bounds the rate of write calls to about one for each two round
//! trips, each with hundreds of writes. Config data changes far less often.
//!
//! # Replica sets
//!
//! Writes have the write concern `majority` with journal, and the feed and the values are read from the primary with read
//! concern `majority`. So what a node has seen is never rolled back. The oplog has the inserts in the order of their
//! versions, and what a majority has is a prefix of it, so (1) holds for majority reads as well. Writers read the end of
//! the log with read concern `local`: if that part is rolled back, the inserts after it are too.
//!
//! # Sweeps
//!
//! Once an hour, one node deletes what is no longer needed: versions of keys that have newer ones, and deletions. Two rules
//! keep this safe:
//!
//! - A version that a sweep deletes could be inserted again by a writer that has read the end of the log before. So a sweep
//!   deletes only what was superseded, or was a deletion, before the previous sweep, which is at least an hour ago. **Assumption:**
//!   no server executes an insert an hour after it was sent.
//! - A reader that has not seen a deleted deletion has to read everything again. So before it deletes, a sweep writes the
//!   *floor*: the version below which deletions may be missing. A reader reads a page of changes first and the floor
//!   afterwards. If it continues from below the floor, it reports a gap.
//!
//! The entry with the empty key contains the floor and the time of the sweep. It is written under the condition that no other
//! node has written it, so one node sweeps.
//!
//! # The first version
//!
//! The first document has version 0, so all nodes agree on one. It contains the time in milliseconds, and versions
//! continue from there. If the collection is dropped, versions start at a later time and do not repeat, as long as there are less
//! than 1,000 writes per second on average. Readers find the floor above their version, or no documents, and report a gap.
//!
//! # What remains
//!
//! - A restored backup has lower versions. Nodes whose version is beyond its end report a gap. If writes have passed that version
//!   before a node polls, the node does not notice. Restart the nodes after a restore.
//! - A new primary may answer majority reads with slightly older data for moments after its election. A value that is read then is
//!   corrected when the cache reads it again.
//! - The collection must not be sharded: order between shards is not defined.

mod append;
mod changes;
mod database;
mod document;
mod error;
mod floor;
mod scan;
mod store;
mod sweep;
mod url;

pub use store::{MongoConfigOptions, MongoConfigStore};
pub use url::{MongoUrl, MongoUrlError};
