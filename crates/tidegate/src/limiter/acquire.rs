//! What takes or waits: `try_acquire` never waits, `acquire` does, `acquire_within` for a maximum time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_core::{IntoKey, Nanos, Timestamp};

use super::admitted::{Granted, LimiterRef};
use super::wait_shared::{Wanted, until_admitted};
use super::{Admitted, Asking, Limiter, span};
use crate::blocking::block_on;
use crate::memory::MemoryStore;
use crate::store::Shared;
use crate::waiting::{OfLimiter, UntilAcquired};
use crate::{Clock, Refused, SystemClock, Timer};

/// Taking units, and holding what concurrency limits give. A limiter may have rates beside its concurrency limits: all admit a
/// request or none is charged.
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
    /// Asks for `cost` units of `key` as [`check`](Self::check) does, and holds what concurrency limits gave until
    /// the answer is dropped. Never waits.
    ///
    /// A limiter without a concurrency limit, and a cost of zero, give nothing to hold.
    pub fn try_acquire(&self, key: impl IntoKey, cost: u64) -> Result<Admitted<'_, C>, Refused> {
        take(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, None)
    }

    /// As [`try_acquire`](Self::try_acquire), for no longer than `ttl`, a millisecond at least, if that is less than the
    /// limits would give.
    pub fn try_acquire_for(
        &self,
        key: impl IntoKey,
        cost: u64,
        ttl: Duration,
    ) -> Result<Admitted<'_, C>, Refused> {
        take(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, Some(span(ttl)))
    }

    /// As [`try_acquire`](Self::try_acquire), with a guard that can go wherever the limiter can.
    pub fn try_acquire_owned(
        self: &Arc<Self>,
        key: impl IntoKey,
        cost: u64,
    ) -> Result<Admitted<'static, C>, Refused> {
        take(LimiterRef::Owned(Arc::clone(self)), key.key_bytes().as_ref(), cost, None)
    }
}

fn take<'a, C: Clock>(
    limiter: LimiterRef<'a, C, Arc<MemoryStore>>,
    key: &[u8],
    cost: u64,
    ttl: Option<Nanos>,
) -> Result<Admitted<'a, C>, Refused> {
    let at = limiter.get().clock.now();
    let (decision, lease) = limiter.get().lease_at(key, cost, ttl, at);
    match decision.is_allowed() {
        true => Ok(Admitted::new(limiter, key.into(), Granted { decision, lease, at }, ttl)),
        false => Err(Refused::OverLimit(decision)),
    }
}

/// Waiting, first come first served. Requests for the same key that [`check`](Limiter::check) or
/// [`try_acquire`](Limiter::try_acquire) are not in the queue: a program that waits for a key should always wait for it.
impl<C: Timer> Limiter<C, Arc<MemoryStore>> {
    /// Waits until `cost` units for `key` are admitted, takes them, and holds what concurrency limits gave until the answer is
    /// dropped. A lease that is given back wakes the head of the queue.
    ///
    /// Dropped before it is done, the future leaves the queue and has charged nothing. It has to be polled when it is woken,
    /// because requests behind it wait for it.
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
    pub fn acquire(&self, key: impl IntoKey, cost: u64) -> Acquiring<'_, C> {
        Acquiring::new(self, key.key_bytes().as_ref(), cost, None, None)
    }

    /// As [`acquire`](Self::acquire), and waits no longer than `max_wait`: refused at once if it is known that this cannot be met.
    pub fn acquire_within(&self, key: impl IntoKey, cost: u64, max_wait: Duration) -> Acquiring<'_, C> {
        Acquiring::new(self, key.key_bytes().as_ref(), cost, None, Some(max_wait))
    }

    /// As [`acquire`](Self::acquire), with the thread at hand.
    pub fn acquire_blocking(&self, key: impl IntoKey, cost: u64) -> Result<Admitted<'_, C>, Refused> {
        block_on(self.acquire(key, cost))
    }

    /// As [`acquire_within`](Self::acquire_within), with the thread at hand.
    pub fn acquire_within_blocking(
        &self,
        key: impl IntoKey,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Admitted<'_, C>, Refused> {
        block_on(self.acquire_within(key, cost, max_wait))
    }
}

/// Taking units from a store that may answer later.
impl<C: Clock, S: Shared> Limiter<C, S> {
    /// Asks for `cost` units of `key` as [`check`](Self::check) does, and holds what concurrency limits gave until
    /// the answer is dropped. Never waits for a limit.
    ///
    /// While the store does not answer, the limiter's [policy](super::LimiterBuilder::on_store_failure) decides.
    pub fn try_acquire(
        &self,
        key: impl IntoKey,
        cost: u64,
    ) -> Asking<'_, Result<Admitted<'_, C, S>, Refused>, C, S> {
        Asking::acquire(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, None)
    }

    /// As [`try_acquire`](Self::try_acquire), for no longer than `ttl`, a millisecond at least, if that is less than the
    /// limits would give.
    pub fn try_acquire_for(
        &self,
        key: impl IntoKey,
        cost: u64,
        ttl: Duration,
    ) -> Asking<'_, Result<Admitted<'_, C, S>, Refused>, C, S> {
        Asking::acquire(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, Some(span(ttl)))
    }

    /// As [`try_acquire`](Self::try_acquire), with a future and a guard that can go wherever the limiter can.
    pub fn try_acquire_owned(
        self: &Arc<Self>,
        key: impl IntoKey,
        cost: u64,
    ) -> Asking<'static, Result<Admitted<'static, C, S>, Refused>, C, S> {
        Asking::acquire(LimiterRef::Owned(Arc::clone(self)), key.key_bytes().as_ref(), cost, None)
    }
}

/// Waiting for a limit whose counters are in a store that may answer later.
impl<C: Timer + Send + Sync, S: Shared> Limiter<C, S> {
    /// Waits until `cost` units for `key` are admitted, takes them, and holds what concurrency limits gave until the answer is
    /// dropped.
    pub fn acquire(&self, key: impl IntoKey, cost: u64) -> AcquiringShared<'_, C, S> {
        let wanted = Wanted { key: key.key_bytes().as_ref().into(), cost, ttl: None, max_wait: None };
        Box::pin(until_admitted(LimiterRef::Borrowed(self), wanted))
    }

    /// As [`acquire`](Self::acquire), and waits no longer than `max_wait`: refused at once if it is known that this cannot be met.
    pub fn acquire_within(
        &self,
        key: impl IntoKey,
        cost: u64,
        max_wait: Duration,
    ) -> AcquiringShared<'_, C, S> {
        let key = key.key_bytes().as_ref().into();
        let wanted = Wanted { key, cost, ttl: None, max_wait: Some(max_wait) };
        Box::pin(until_admitted(LimiterRef::Borrowed(self), wanted))
    }

    /// As [`acquire`](Self::acquire), with the thread at hand.
    pub fn acquire_blocking(&self, key: impl IntoKey, cost: u64) -> Result<Admitted<'_, C, S>, Refused> {
        block_on(self.acquire(key, cost))
    }

    /// As [`acquire_within`](Self::acquire_within), with the thread at hand.
    pub fn acquire_within_blocking(
        &self,
        key: impl IntoKey,
        cost: u64,
        max_wait: Duration,
    ) -> Result<Admitted<'_, C, S>, Refused> {
        block_on(self.acquire_within(key, cost, max_wait))
    }
}

/// Waits until it is admitted, over a store that may answer later.
pub type AcquiringShared<'a, C, S> =
    Pin<Box<dyn Future<Output = Result<Admitted<'a, C, S>, Refused>> + Send + 'a>>;

/// Waits until it is admitted, over the memory store. Made by [`Limiter::acquire`] and [`Limiter::acquire_within`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Acquiring<'a, C: Timer = SystemClock> {
    clock: &'a C,
    /// When it was first polled.
    arrived: Option<Timestamp>,
    until_acquired: UntilAcquired<'a, C>,
}

impl<'a, C: Timer> Acquiring<'a, C> {
    pub(crate) fn new(
        limiter: &'a Limiter<C>,
        key: &[u8],
        cost: u64,
        ttl: Option<Nanos>,
        max_wait: Option<Duration>,
    ) -> Self {
        let request = OfLimiter::new(limiter, key, cost);
        let request = match ttl {
            Some(ttl) => request.held_for(ttl),
            None => request,
        };
        let until_acquired = UntilAcquired::new(request, max_wait);
        Self { clock: limiter.clock(), arrived: None, until_acquired }
    }
}

impl<'a, C: Timer> Future for Acquiring<'a, C> {
    type Output = Result<Admitted<'a, C>, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let has_waited = self.arrived;
        if has_waited.is_none() {
            self.arrived = Some(self.clock.now());
        }
        let acquired = ready!(Pin::new(&mut self.until_acquired).poll(context));
        Poll::Ready(match (acquired, has_waited) {
            (Ok(admitted), Some(arrived)) => Ok(admitted.since(arrived)),
            (Ok(admitted), None) => Ok(admitted),
            (Err(refusal), _) => Err(refusal.into()),
        })
    }
}

impl<C: Timer> fmt::Debug for Acquiring<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acquiring").field(&self.until_acquired).finish()
    }
}
