//! Locks by key: a concurrency limit of one.
//!
//! `in_memory.rs` locks at once, within a process. `shared.rs` locks over a store that a fleet shares; `guard.rs` is what it gives, and
//! `renewal.rs` keeps it in the background.

mod guard;
mod in_memory;
mod renewal;
mod shared;

pub use guard::LockGuard;
pub use shared::LockFuture;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{AlgorithmName, LimitSpec, WINDOW_NS_MAX};

use crate::memory::MemoryStore;
use crate::store::{IntoStore, Store};
use crate::{Clock, Limiter, SystemClock};

/// A lock for each key, held by one holder at a time.
///
/// ```
/// use std::time::Duration;
/// use tidegate::Locks;
///
/// let locks = Locks::new();
/// let held = locks.try_lock("invoice:2025-11", Duration::from_secs(30)).expect("it is free");
/// assert!(locks.try_lock("invoice:2025-11", Duration::from_secs(30)).is_err());
/// drop(held);
/// assert!(locks.try_lock("invoice:2025-11", Duration::from_secs(30)).is_ok());
/// ```
///
/// `try_lock` never waits, `lock` waits as long as it takes, and `lock_within` for a maximum time. `lock_blocking` and
/// `lock_within_blocking` wait with the thread at hand.
///
/// # In one process
///
/// A lock lasts for its `ttl`, unless its holder [renews](crate::Admitted::renew) it. The locks of a store are bounded by its
/// memory. One that is full of locks that are held gives up the one nearest its end for a new one: [`stats`](Self::stats) counts
/// that in `live_evictions`, the holder's release is [`AlreadyReleased`](crate::Release::AlreadyReleased), and its fence keeps it
/// out. Make the store as large as the locks held at a time need, at about 300 bytes each; [`new`](Self::new) makes one for tens of
/// thousands.
///
/// # In a fleet
///
/// Over a store that a fleet shares, the calls are futures and give a [`LockGuard`], which is renewed in the background for as long as
/// it is held. Its `ttl` is how long the lock outlives a holder that crashed. While the store does not answer, no lock is given.
///
#[cfg_attr(
    all(feature = "redis", not(loom)),
    doc = r#"
```no_run
use std::time::Duration;
use tidegate::Locks;
use tidegate::redis::RedisStore;

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let locks = Locks::over(RedisStore::connect("redis://127.0.0.1:6379").await?);
let guard = locks.lock("invoice:2025-11", Duration::from_secs(30)).await?;
println!("write the invoice, with the fencing token {}", guard.fence());
# Ok(())
# }
```
"#
)]
///
/// # Fencing
///
/// A holder that is paused for longer than its lock lasts does not know that it lost it. What the lock protects does, if
/// it is shown the holder's [fence](crate::Admitted::fence) with every change and refuses any that is lower than one it has
/// seen: [`FenceGate`](crate::FenceGate).
pub struct Locks<C = SystemClock, S = Arc<MemoryStore>> {
    limiter: Arc<Limiter<C, S>>,
}

impl Locks {
    /// Locks with a memory store of their own.
    pub fn new() -> Self {
        Self::with_store(Arc::new(MemoryStore::bounded(LOCKS_MEMORY_BYTES)))
    }
}

/// The bound of a store that holds locks alone: tens of thousands at a time.
const LOCKS_MEMORY_BYTES: u64 = 16 << 20;

impl Default for Locks {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Store> Locks<SystemClock, S> {
    /// Locks in this store: an `Arc<MemoryStore>`, a `RedisStore`, or a [`Fallback`](crate::store::Fallback) over another shared
    /// store. All locks over one store are the same, whichever process they are in.
    pub fn with_store(store: impl IntoStore<Store = S>) -> Self {
        Self::with_store_and_clock(store, SystemClock::new())
    }
}

impl<C: Clock, S: Store> Locks<C, S> {
    /// As [`over`](Locks::over), by another clock.
    pub fn with_store_and_clock(store: impl IntoStore<Store = S>, clock: C) -> Self {
        let spec = LimitSpec {
            algorithm: Some(AlgorithmName::Concurrency),
            // Every lock says how long it lasts.
            ttl_ns: Some(WINDOW_NS_MAX),
            ..LimitSpec::new(1, 0)
        };
        let limit = spec.build().unwrap_or_else(|error| unreachable!("one at a time is a limit: {error}"));
        let builder = Limiter::builder().rule("locks").limit(limit).store(store).clock(clock);
        let limiter = builder.build().unwrap_or_else(|error| unreachable!("one limit is enough: {error}"));
        Self { limiter: Arc::new(limiter) }
    }

    /// The store.
    pub fn store(&self) -> &S {
        self.limiter.store()
    }
}

impl<C, S> fmt::Debug for Locks<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}
