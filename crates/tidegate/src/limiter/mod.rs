//! The limiter: one or more limits, a store that counts, and a clock.
//!
//! ```text
//! in_memory.rs    calls over the memory store, which return immediately
//! shared.rs       calls over a store that may answer later: futures (call.rs)
//! acquire.rs      try_acquire, acquire, acquire_within
//! wait.rs         a request that waits in a queue, over any store
//! admitted.rs     the guard of an admitted request; dropping it releases the lease
//! reservation.rs  a charge that is refunded unless it is committed
//! release.rs      release and refund in the background, for guards that are dropped
//! limits.rs       the limits, and those that a change superseded
//! ```

mod acquire;
mod admitted;
pub(crate) mod builder;
mod call;
mod error;
mod in_memory;
mod into_limit;
mod limits;
mod release;
mod reservation;
mod shared;
mod wait;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Counter, Limit, Plan, Timestamp};

use crate::memory::MemoryStore;
use crate::queue::{QueueGroup, QueueGroups, WaitQueues};
use crate::store::Store;
use crate::{Clock, SystemClock};
use limits::Limits;

pub use acquire::AcquireFuture;
pub use admitted::Admitted;
pub(crate) use admitted::{GrantedUnits, LimiterRef, to_nanos};
pub use builder::LimiterBuilder;
pub use call::LimiterCall;
pub use error::LimiterError;
pub use into_limit::IntoLimit;
pub use limits::LIMITS_MAX;
pub use reservation::Reservation;
pub use tidegate_core::{KeyBuf, KeyDigits};
pub(crate) use wait::{AcquireParams, wait_until_admitted};

/// Limits by key: either all limits admit a request, or none of them is charged.
///
/// Build it with [`Limiter::new`] from one limit, or with a [`builder`](Limiter::builder). Threads share it by
/// reference.
///
/// ```
/// use tidegate::Limiter;
///
/// let limiter = Limiter::new("10/s burst 20")?;
/// let decision = limiter.check("user:42", 1);
/// if decision.is_allowed() {
///     println!("allowed, {} left", decision.remaining);
/// } else {
///     println!("try again in {}", decision.retry_after);
/// }
/// # Ok::<(), tidegate::LimiterError>(())
/// ```
///
/// # Stores
///
/// Over the [memory store](MemoryStore), which is the default, calls that do not wait are plain functions. Over a
/// shared store ([`LimiterBuilder::store`]) the same calls are futures, which work on any runtime:
///
#[cfg_attr(
    all(feature = "redis", not(loom)),
    doc = r#"
```no_run
use tidegate::redis::RedisStore;
use tidegate::{Limiter, OnStoreFailure};

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let limiter = Limiter::builder()
    .limit("100/h")
    .store(RedisStore::connect_lazy("redis://127.0.0.1:6379")?)
    .on_store_failure(OnStoreFailure::Deny)
    .build()?;
let decision = limiter.check("user:42", 1).await;
# Ok(())
# }
```
"#
)]
///
/// # Methods
///
/// | | waits | returns |
/// |---|---|---|
/// | `check`, `peek` | never | a [`Decision`](crate::Decision) |
/// | `reserve` | never | a [`Reservation`], which is refunded unless it is committed |
/// | `try_acquire` | never | [`Admitted`], which holds the lease, or [`Refused`](crate::Refused) |
/// | `acquire` | as long as necessary | the same |
/// | `acquire_within` | for a maximum time | the same |
///
/// Methods that wait are futures. `acquire_blocking` and `acquire_within_blocking` block the current thread.
pub struct Limiter<C = SystemClock, S = Arc<MemoryStore>> {
    rule: String,
    limits: Limits,
    store: S,
    queues: Arc<WaitQueues>,
    queue_group: QueueGroup,
    clock: C,
}

impl Limiter {
    /// A limiter with one limit and its own memory store.
    pub fn new(limit: impl IntoLimit) -> Result<Self, LimiterError> {
        Self::builder().limit(limit).build()
    }

    /// Starts to build a limiter.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::new()
    }
}

impl<C: Clock, S: Store> Limiter<C, S> {
    fn from_parts(rule: String, limits: Limits, store: S, queue_max: usize, clock: C) -> Self {
        let queues = Arc::new(WaitQueues::new(queue_max));
        let queue_group = match store.local() {
            Some(memory) => memory.queue_groups().join(&rule, &queues),
            None => QueueGroups::default().join(&rule, &queues),
        };
        Self { rule, limits, store, queues, queue_group, clock }
    }

    /// The active limits, in the order of [`Decision::decided_by`](crate::Decision::decided_by).
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.limits_at(self.clock.now())
    }

    #[inline]
    pub(crate) fn limits_at(&self, now: Timestamp) -> impl Iterator<Item = &Limit> {
        self.limits.active_counters(now).map(Counter::limit)
    }

    /// The limits, if they are the same at all times: none of them expires.
    #[cfg(feature = "tower")]
    pub(crate) fn unchanging_limits(&self) -> Option<impl Iterator<Item = &Limit>> {
        let limits = self.limits.counters.iter().map(Counter::limit);
        self.limits.superseded.is_empty().then_some(limits)
    }

    /// This limiter with other limits, over the same counters. Both may run side by side, so a program can swap one for
    /// the other while requests are in flight. Requests that wait for this limiter continue to wait for it.
    ///
    /// No key gets a fresh window. If only L or burst changed, usage is kept. If the algorithm, W, n or the alignment
    /// of windows changed, the new limit starts empty, and the old one is enforced beside it for the shorter of the two
    /// windows. For a calendar, that is the current window. A limit is the same as before if it has the same name, or
    /// no name and the same position.
    pub fn with_limits<L: IntoLimit>(&self, limits: impl IntoIterator<Item = L>) -> Result<Self, LimiterError>
    where
        C: Clone,
        S: Clone,
    {
        let limits = limits.into_iter().map(IntoLimit::into_limit).collect::<Result<Vec<_>, _>>()?;
        let limits = self.limits.with_limits(&self.rule, limits, self.clock.now())?;
        let (rule, store, clock) = (self.rule.clone(), self.store.clone(), self.clock.clone());
        Ok(Self::from_parts(rule, limits, store, self.queues.queue_max(), clock))
    }

    /// The store that counts.
    pub fn store(&self) -> &S {
        &self.store
    }

    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }

    /// Whether a denied request is counted.
    pub(crate) fn counts_denied(&self, now: Timestamp) -> bool {
        self.limits.counts_denied(now)
    }

    /// Whether units can come back because a holder releases a lease.
    pub(crate) fn has_leases(&self, now: Timestamp) -> bool {
        self.limits.has_leases(now)
    }

    /// When the next superseded limit expires.
    pub(crate) fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        self.limits.next_expiry(now)
    }

    pub(crate) fn plan<'a>(&'a self, key: &'a [u8], cost: u64, now: Timestamp) -> Plan<'a> {
        self.limits.plan(key, cost, now)
    }
}

impl<C, S> fmt::Debug for Limiter<C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits: Vec<&Limit> = self.limits.counters.iter().map(Counter::limit).collect();
        f.debug_struct("Limiter").field("rule", &self.rule).field("limits", &limits).finish_non_exhaustive()
    }
}
