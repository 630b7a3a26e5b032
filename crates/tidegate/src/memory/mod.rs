//! The memory store: every counter of this process, in bounded memory.
//!
//! ```text
//! store.rs          MemoryStore: check, refund and reset
//!   fast_path.rs    one unit of a known key, in the common case
//!   single.rs       one charge on a packed state, in any case
//!   transaction.rs  a plan of several charges
//!   leases.rs       acquire, renew and release
//!   seed.rs         key -> tag, a keyed 64-bit hash; no key is stored
//!   table.rs        packed states of 16 bytes, in pages of 4 KiB (page.rs), by extendible hashing
//!   shards.rs       usage logs and leases, in 64 shards each, with a mutex per shard
//!   budget.rs       the bytes that all of these share
//!   owners.rs       which limit a state belongs to, and which states a full store evicts
//! forecast.rs       what would be decided later, on copies of states
//! snapshot/         the store in a file, which survives a restart; walk.rs copies states while decisions continue
//! ```
//!
//! # Concurrency
//!
//! Each page has a sequence lock. A decision reads under the version, so a denial ends without having written anything.
//! A charge swaps the version that it read for an odd one, which locks the page and proves that the page has not
//! changed. If that fails, it locks first and then reads. `loom_tests.rs` runs this under loom. Pages never move and
//! are never freed while the store lives, so readers need neither locks nor epochs, and growth never blocks a thread
//! for longer than one page takes.
//!
//! A plan of several charges locks its shards, then its pages, each in ascending order. It reads all states, finds
//! slots for all, and only then writes. A plan that is denied and counts nothing only reads.
//!
//! # Memory
//!
//! `memory_max` bounds pages, directory, usage logs and leases together. A sixteenth of it is reserved for each kind of
//! state, so no kind can crowd out the others. An unbounded store, for traces and simulations, never drops anything,
//! not even idle states, because time in a trace may step back to when they were not idle.
//!
//! Idle states are overwritten first. When only live states are left, a new key evicts a state of the limit that has the
//! most, so a flood of keys of one limit evicts that limit's keys (`owners.rs`). Of that limit, the state nearest its reset
//! goes first, then the least used, and [`MemoryStats::live_evictions`] counts it. For usage logs, times to the reset
//! within a factor of eight count as equal: a log over its limit is not written to, so by the nanosecond it would always be
//! nearer its reset than the keys of a flood. Live leases are never evicted: a new one is refused (`leases.rs`).
//!
//! What the store does not promise: a hot key can be evicted first by a flood of keys of the same limit, if windows begin
//! with the first hit. `live_evictions` counts it. Size `memory_max` for the keys that are live at a time.

mod budget;
mod fast_path;
mod forecast;
#[cfg(all(test, not(loom)))]
mod forecast_tests;
mod leases;
mod live_counters;
#[cfg(all(test, loom))]
mod loom_tests;
mod outcomes;
mod owners;
mod page;
mod seed;
mod shards;
mod single;
mod snapshot;
mod store;
mod table;
mod transaction;
mod walk;
mod walk_leases;
#[cfg(all(test, not(loom)))]
mod walk_tests;

pub(crate) use forecast::{ForecastAdmission, ForecastRequest, StateForecast};
pub use leases::{Lease, Release, Renewal};
#[cfg(all(feature = "etcd", not(loom)))]
pub(crate) use leases::{expiry_charges, lease_ttl};
pub use outcomes::{Outcomes, OutcomesIntoIter};
#[cfg(feature = "rules")]
pub(crate) use seed::Seed;
pub use snapshot::{
    RestoreStatus, Restored, SNAPSHOT_EVERY_MIN, SnapshotAttempts, SnapshotError, SnapshotReport,
    SnapshotWriter,
};
pub use store::{MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN, MemoryStats, MemoryStore};
