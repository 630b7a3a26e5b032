//! Locks by key: a concurrency limit of one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{AlgorithmName, Decision, IntoKey, LimitSpec, WINDOW_NS_MAX};

use crate::blocking::block_on;
use crate::holding::span;
use crate::waiting::{LimiterRequest, Refusal};
use crate::{
    Clock, Holding, Lease, LeaseToken, Limiter, MemoryStats, MemoryStore, Release, Renewal, SystemClock,
    Timer,
};

/// A lock for each key, held by one at a time, for no longer than it said.
///
/// ```
/// use std::time::Duration;
/// use tidegate::Locks;
///
/// let locks = Locks::new();
/// let held = locks.lock("invoice:2025-11", Duration::from_secs(30)).expect("nobody else has it");
/// assert!(locks.lock("invoice:2025-11", Duration::from_secs(30)).is_err());
/// drop(held);
/// assert!(locks.lock("invoice:2025-11", Duration::from_secs(30)).is_ok());
/// ```
///
/// The locks of a store are bounded by its memory, as all it keeps. One that is full of locks that are held gives up the
/// one nearest its end for a new one: [`stats`](Self::stats) counts that in `live_evictions`, the holder hears
/// [`Release::AlreadyReleased`], and its fence keeps it out. Make the store as large as the locks held at a time need,
/// at about 300 bytes each; [`new`](Self::new) makes one for tens of thousands.
///
/// A holder that stops for longer than its lock lasts does not know that it lost it. What the lock protects does, if
/// it is shown the holder's [fence](Holding::fence) with every change and refuses any that is lower than one it has
/// seen: [`FenceGate`](crate::FenceGate).
pub struct Locks<C = SystemClock> {
    limiter: Limiter<C>,
}

impl Locks {
    /// Locks with an embedded store of their own.
    pub fn new() -> Self {
        Self::over(Arc::new(MemoryStore::bounded(LOCKS_BYTES)), SystemClock::new())
    }
}

/// The bound of a store that holds locks alone: tens of thousands at a time.
const LOCKS_BYTES: u64 = 16 << 20;

impl Default for Locks {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> Locks<C> {
    /// Locks in this store, by this clock.
    pub fn over(store: Arc<MemoryStore>, clock: C) -> Self {
        let spec = LimitSpec {
            algorithm: Some(AlgorithmName::Concurrency),
            // Every lock says how long it lasts.
            ttl_ns: Some(WINDOW_NS_MAX),
            ..LimitSpec::new(1, 0)
        };
        let limit = spec.build().unwrap_or_else(|error| unreachable!("one at a time is a limit: {error}"));
        let builder = Limiter::builder().rule("locks").limit(limit).store(store).clock(clock);
        let limiter = builder.build().unwrap_or_else(|error| unreachable!("one limit is enough: {error}"));
        Self { limiter }
    }
}

impl<C: Clock> Locks<C> {
    /// Locks `key` for `ttl`, a millisecond at least, if nobody holds it. The error says when it will be free at the
    /// latest.
    pub fn lock(&self, key: impl IntoKey, ttl: Duration) -> Result<Holding<'_, C>, Decision> {
        self.limiter.acquire_for(key, 1, ttl)
    }

    /// Answers as [`lock`](Self::lock) would and changes nothing.
    pub fn peek(&self, key: impl IntoKey) -> Decision {
        self.limiter.peek(key, 1)
    }

    /// What the store holds and had to give up.
    pub fn stats(&self) -> MemoryStats {
        self.limiter.stats()
    }

    /// As [`lock`](Self::lock), with the lease itself, for a holder that is somewhere else: it is not given back by
    /// itself before its time is over.
    #[must_use = "a lease that nobody has is held until its ttl is over"]
    pub fn lease(&self, key: impl IntoKey, ttl: Duration) -> (Decision, Option<Lease>) {
        self.limiter.lease_for(key, 1, ttl)
    }

    /// Lets a [`lease`](Self::lease) of `key` last for `ttl` from now.
    pub fn renew(&self, key: impl IntoKey, token: &LeaseToken, ttl: Duration) -> Renewal {
        self.limiter.renew_for(key, token, ttl)
    }

    /// Gives a [`lease`](Self::lease) of `key` back.
    pub fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Release {
        self.limiter.release(key, token)
    }
}

impl<C: Timer> Locks<C> {
    /// Waits until nobody holds `key`, first come first served, and locks it for `ttl`.
    pub fn until_locked(
        &self,
        key: impl IntoKey,
        ttl: Duration,
    ) -> impl Future<Output = Result<Holding<'_, C>, Refusal>> {
        self.request(key.key_bytes().as_ref(), ttl).holding(None)
    }

    /// As [`until_locked`](Self::until_locked), waiting no longer than `max_wait`.
    pub fn lock_within(
        &self,
        key: impl IntoKey,
        ttl: Duration,
        max_wait: Duration,
    ) -> impl Future<Output = Result<Holding<'_, C>, Refusal>> {
        self.request(key.key_bytes().as_ref(), ttl).holding(Some(max_wait))
    }

    /// As [`until_locked`](Self::until_locked), with the thread at hand.
    pub fn until_locked_blocking(&self, key: impl IntoKey, ttl: Duration) -> Result<Holding<'_, C>, Refusal> {
        block_on(self.until_locked(key, ttl))
    }

    /// As [`lock_within`](Self::lock_within), with the thread at hand.
    pub fn lock_within_blocking(
        &self,
        key: impl IntoKey,
        ttl: Duration,
        max_wait: Duration,
    ) -> Result<Holding<'_, C>, Refusal> {
        block_on(self.lock_within(key, ttl, max_wait))
    }

    fn request(&self, key: &[u8], ttl: Duration) -> LimiterRequest<'_, C> {
        LimiterRequest::new(&self.limiter, key, 1).held_for(span(ttl))
    }
}

impl<C> fmt::Debug for Locks<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}
