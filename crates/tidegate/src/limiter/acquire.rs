//! Acquiring units: `try_acquire` never waits, `acquire` waits, and `acquire_within` waits for a maximum time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{IntoKey, Nanos};

use super::admitted::{GrantedUnits, LimiterRef};
use super::wait::{AcquireParams, wait_until_admitted};
use super::{Admitted, Limiter, LimiterCall, to_nanos};
use crate::blocking::block_on;
use crate::memory::MemoryStore;
use crate::store::{AsyncStore, Store};
use crate::{Clock, Refused, SystemClock, Timer};

/// Acquiring units, and holding the leases of concurrency limits. A limiter may have rates beside its concurrency
/// limits: either all limits admit a request, or none is charged.
///
/// ```
/// use tidegate::Limiter;
///
/// // At most 3 reports at a time for each tenant, and at most 100 an hour.
/// let limiter = Limiter::builder()
///     .limit("{algorithm: concurrency, limit: 3, ttl: 5m}")
///     .limit("100 per hour")
///     .build()?;
///
/// let slots: Vec<_> = (0..3).filter_map(|_| limiter.try_acquire("tenant:7", 1).ok()).collect();
/// assert_eq!(slots.len(), 3);
/// assert!(limiter.try_acquire("tenant:7", 1).is_err());
/// drop(slots);
/// assert!(limiter.try_acquire("tenant:7", 1).is_ok());
/// # Ok::<(), tidegate::LimiterError>(())
/// ```
impl<C: Clock> Limiter<C, Arc<MemoryStore>> {
    /// Takes `cost` units of `key` as [`check`](Self::check) does. The returned guard holds the leases of concurrency
    /// limits until it is dropped. Never waits.
    ///
    /// Without a concurrency limit, or with a cost of zero, the guard holds no lease.
    pub fn try_acquire(&self, key: impl IntoKey, cost: u64) -> Result<Admitted<'_, C>, Refused> {
        acquire_now(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, None)
    }

    /// As [`try_acquire`](Self::try_acquire), with leases that last at most `ttl` (at least a millisecond).
    pub fn try_acquire_for(
        &self,
        key: impl IntoKey,
        cost: u64,
        ttl: Duration,
    ) -> Result<Admitted<'_, C>, Refused> {
        acquire_now(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, Some(to_nanos(ttl)))
    }

    /// As [`try_acquire`](Self::try_acquire), with a guard that shares the limiter, so it can be stored or sent to a
    /// task.
    pub fn try_acquire_owned(
        self: &Arc<Self>,
        key: impl IntoKey,
        cost: u64,
    ) -> Result<Admitted<'static, C>, Refused> {
        acquire_now(LimiterRef::Owned(Arc::clone(self)), key.key_bytes().as_ref(), cost, None)
    }
}

fn acquire_now<'a, C: Clock>(
    limiter: LimiterRef<'a, C, Arc<MemoryStore>>,
    key: &[u8],
    cost: u64,
    ttl: Option<Nanos>,
) -> Result<Admitted<'a, C>, Refused> {
    let at = limiter.get().clock.now();
    let (decision, lease) = limiter.get().lease_at(key, cost, ttl, at);
    match decision.is_allowed() {
        true => Ok(Admitted::new(limiter, key.into(), GrantedUnits { decision, lease, limits_at: at }, ttl)),
        false => Err(Refused::from_denied(decision)),
    }
}

/// Acquiring units from a store that may answer later.
impl<C: Clock, S: AsyncStore> Limiter<C, S> {
    /// Takes `cost` units of `key` as [`check`](Self::check) does. The returned guard holds the leases of concurrency
    /// limits until it is dropped. Never waits for a limit.
    ///
    /// While the store does not answer, the limiter's [policy](super::LimiterBuilder::on_store_failure) decides.
    pub fn try_acquire(
        &self,
        key: impl IntoKey,
        cost: u64,
    ) -> LimiterCall<'_, Result<Admitted<'_, C, S>, Refused>, C, S> {
        LimiterCall::acquire(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, None)
    }

    /// As [`try_acquire`](Self::try_acquire), with leases that last at most `ttl` (at least a millisecond).
    pub fn try_acquire_for(
        &self,
        key: impl IntoKey,
        cost: u64,
        ttl: Duration,
    ) -> LimiterCall<'_, Result<Admitted<'_, C, S>, Refused>, C, S> {
        LimiterCall::acquire(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, Some(to_nanos(ttl)))
    }

    /// As [`try_acquire`](Self::try_acquire), with a future and a guard that share the limiter, so they can be stored
    /// or sent to a task.
    pub fn try_acquire_owned(
        self: &Arc<Self>,
        key: impl IntoKey,
        cost: u64,
    ) -> LimiterCall<'static, Result<Admitted<'static, C, S>, Refused>, C, S> {
        LimiterCall::acquire(LimiterRef::Owned(Arc::clone(self)), key.key_bytes().as_ref(), cost, None)
    }
}

/// Waiting, first come first served, over any store. Requests that `check` or `try_acquire` do not enter the wait
/// queue, so they can overtake requests that wait. A program that waits for a key should always wait for it. Over a
/// shared store each node has its own queues, so units go to the node that asks first.
impl<C: Timer + Send + Sync, S: Store> Limiter<C, S> {
    /// Waits until `cost` units of `key` are admitted, and takes them. The returned guard holds the leases of
    /// concurrency limits until it is dropped. A released lease wakes the head of the wait queue.
    ///
    /// A future that is dropped while it waits leaves the queue, and was charged nothing. If it is dropped while a
    /// shared store is being asked, it may have been charged. A woken future must be polled, because the requests
    /// behind it wait for it.
    ///
    /// ```
    /// # use tidegate::Limiter;
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::new("10/s burst 1")?;
    /// for page in 1..=3 {
    ///     let admitted = limiter.acquire("crawler", 1).await?;
    ///     println!("page {page} after {:?}", admitted.waited());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self, key: impl IntoKey, cost: u64) -> AcquireFuture<'_, C, S> {
        AcquireFuture::new(self, AcquireParams::new(key, cost))
    }

    /// As [`acquire`](Self::acquire), but waits at most `max_wait`. Refused immediately if the wait is known to be
    /// longer.
    pub fn acquire_within(
        &self,
        key: impl IntoKey,
        cost: u64,
        max_wait: Duration,
    ) -> AcquireFuture<'_, C, S> {
        AcquireFuture::new(self, AcquireParams::new(key, cost).with_max_wait(max_wait))
    }

    /// As [`acquire`](Self::acquire), blocking the current thread.
    pub fn acquire_blocking(&self, key: impl IntoKey, cost: u64) -> Result<Admitted<'_, C, S>, Refused> {
        block_on(wait_until_admitted(LimiterRef::Borrowed(self), AcquireParams::new(key, cost)))
    }

    /// As [`acquire_within`](Self::acquire_within), blocking the current thread.
    pub fn acquire_within_blocking(
        &self,
        key: impl IntoKey,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Admitted<'_, C, S>, Refused> {
        block_on(wait_until_admitted(
            LimiterRef::Borrowed(self),
            AcquireParams::new(key, cost).with_max_wait(max_wait),
        ))
    }
}

/// Waits until the request is admitted. Returned by [`Limiter::acquire`] and [`Limiter::acquire_within`].
#[must_use = "futures do nothing unless they are polled"]
pub struct AcquireFuture<'a, C: Clock = SystemClock, S: Store = Arc<MemoryStore>>(BoxedAcquire<'a, C, S>);

type BoxedAcquire<'a, C, S> = Pin<Box<dyn Future<Output = Result<Admitted<'a, C, S>, Refused>> + Send + 'a>>;

impl<'a, C: Timer + Send + Sync, S: Store> AcquireFuture<'a, C, S> {
    pub(crate) fn new(limiter: &'a Limiter<C, S>, params: AcquireParams) -> Self {
        Self(Box::pin(wait_until_admitted(LimiterRef::Borrowed(limiter), params)))
    }
}

impl<'a, C: Clock, S: Store> Future for AcquireFuture<'a, C, S> {
    type Output = Result<Admitted<'a, C, S>, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<C: Clock, S: Store> fmt::Debug for AcquireFuture<'_, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireFuture").finish_non_exhaustive()
    }
}
