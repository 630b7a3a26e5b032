//! Locks by key: a concurrency limit of one.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{AlgorithmName, LimitSpec, WINDOW_NS_MAX};

use crate::memory::MemoryStore;
use crate::store::{IntoStore, Store};
use crate::{Clock, Limiter, SystemClock};

/// A lock for each key, with one holder at a time.
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
/// `try_lock` never waits, `lock` waits as long as necessary, and `lock_within` waits for a maximum time.
/// `lock_blocking` and `lock_within_blocking` block the current thread.
///
/// # In one process
///
/// A lock lasts for its `ttl`, unless its holder [renews](crate::Admitted::renew) it. The memory of a store bounds its
/// locks. A held lock is never evicted: if the store is full of held locks, a new lock is refused with
/// [`Refused::LeaseMemoryFull`](crate::Refused::LeaseMemoryFull), and [`stats`](Self::stats) counts that in
/// `lease_refusals`. Size the store for the locks that are held at a time, at about 300 bytes each. [`new`](Self::new)
/// has room for tens of thousands.
///
/// # In a fleet
///
/// Over a shared store the calls are futures that return a [`LockGuard`](super::LockGuard), which is renewed in the background while it
/// is held. Its `ttl` is how long the lock outlives a holder that crashed. While the store does not answer, no lock is
/// granted.
///
/// Redis replicates asynchronously, so a failover of Redis can lose a lock, and grant it to a second holder. The second
/// holder has a higher fencing token. In etcd (feature `etcd`) no failover loses a lock. The page `docs/locks.md` of the
/// repository compares the stores.
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
let locks = Locks::with_store(RedisStore::connect("redis://127.0.0.1:6379").await?);
let guard = locks.lock("invoice:2025-11", Duration::from_secs(30)).await?;
println!("write the invoice, with the fencing token {}", guard.fencing_token());
# Ok(())
# }
```
"#
)]
///
/// # Fencing
///
/// A holder that is paused for longer than its lock lasts does not know that it lost the lock. What the lock protects
/// can know: it gets the holder's [fencing token](crate::Admitted::fencing_token) with every change, and refuses a
/// token that is lower than one it has seen. [`FencingGuard`](crate::FencingGuard) does this.
pub struct Locks<C = SystemClock, S = Arc<MemoryStore>> {
    pub(super) limiter: Arc<Limiter<C, S>>,
}

impl Locks {
    /// Locks with their own memory store.
    pub fn new() -> Self {
        Self::with_store(Arc::new(MemoryStore::bounded(LOCKS_MEMORY_BYTES)))
    }
}

/// The memory of a store that holds only locks: tens of thousands at a time.
const LOCKS_MEMORY_BYTES: u64 = 16 << 20;

impl Default for Locks {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Store> Locks<SystemClock, S> {
    /// Locks in a store: an `Arc<MemoryStore>`, a `RedisStore`, an `EtcdStore`, or a [`Fallback`](crate::store::Fallback)
    /// over another shared store. All `Locks` over one store share their locks, in any process.
    pub fn with_store(store: impl IntoStore<Store = S>) -> Self {
        Self::with_store_and_clock(store, SystemClock::new())
    }
}

impl<C: Clock, S: Store> Locks<C, S> {
    /// As [`with_store`](Locks::with_store), with another clock.
    pub fn with_store_and_clock(store: impl IntoStore<Store = S>, clock: C) -> Self {
        let spec = LimitSpec {
            algorithm: Some(AlgorithmName::Concurrency),
            // The caller of each lock sets a shorter ttl.
            ttl_ns: Some(WINDOW_NS_MAX),
            ..LimitSpec::new(1, 0)
        };
        let limit = spec.build().unwrap_or_else(|error| unreachable!("one at a time is a limit: {error}"));
        let builder = Limiter::builder().rule("locks").limit(limit).store(store).clock(clock);
        let limiter = builder.build().unwrap_or_else(|error| unreachable!("one limit is enough: {error}"));
        Self { limiter: Arc::new(limiter) }
    }

    /// The store that holds the locks.
    pub fn store(&self) -> &S {
        self.limiter.store()
    }
}

impl<C, S> fmt::Debug for Locks<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}
