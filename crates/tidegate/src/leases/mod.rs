//! Leases: units that are held until they are released or expire. Locks are leases of one unit.
//!
//! A lease is held until it is released or it expires. No thread removes expired leases: each operation on a key skips
//! them. A plan with several concurrency limits gets one lease for all of them, with the highest fencing token, and
//! with the shortest ttl, counted from the latest instant that any of their keys has seen (`grant.rs`).
//! `memory/leases.rs` describes fencing tokens and lease tokens.
//!
//! Over the memory store a lock is taken immediately. Over a shared store `guard.rs` is the held lock, and `renewal.rs`
//! renews it in the background. A lease that a concurrency limit granted while the shared store did not answer belongs
//! to the memory store of this process. Its seal shows that.
//!
//! ```text
//! locks.rs             a lock per key, over any store
//!   locks_in_memory.rs   taken immediately
//!   locks_shared.rs      futures over a shared store
//! guard.rs             a held lock over a shared store
//! renewal.rs           renews it in the background
//! fencing.rs           rejects holders whose lease has passed to another holder
//! token_seal.rs        seals the tokens of leases in shared stores
//! grant.rs             one lease for a plan with several concurrency limits
//! ```

mod fencing;
pub(crate) mod grant;
mod guard;
mod locks;
mod locks_in_memory;
mod locks_shared;
mod renewal;
#[cfg(all(any(feature = "etcd", feature = "redis"), not(loom)))]
pub(crate) mod token_seal;

pub use fencing::{FencingGuard, StaleFencingToken};
pub use guard::LockGuard;
pub use locks::Locks;
pub use locks_shared::LockFuture;
