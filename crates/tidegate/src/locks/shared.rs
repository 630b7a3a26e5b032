//! Locks over a store that a fleet shares.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, IntoKey, LeaseToken};

use super::{LockGuard, Locks};
use crate::blocking::block_on;
use crate::limiter::{LimiterCall, LimiterRef, AcquireParams, to_nanos, wait_until_admitted};
use crate::memory::{Lease, Release, Renewal};
use crate::store::AsyncStore;
use crate::{Refused, StoreError, Timer};

/// Locks a key, over a store that may answer later.
pub type LockFuture<C, S> = Pin<Box<dyn Future<Output = Result<LockGuard<C, S>, Refused>> + Send>>;

/// Locks of a fleet. The futures work on any runtime.
impl<C, S> Locks<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: AsyncStore + 'static,
{
    /// Locks `key` if it is free, and renews the lock every third of `ttl` until the guard is dropped. Never waits for another
    /// holder.
    pub fn try_lock(&self, key: impl IntoKey, ttl: Duration) -> LockFuture<C, S> {
        let key: Box<[u8]> = key.key_bytes().as_ref().into();
        let limiter = Arc::clone(&self.limiter);
        let asking = LimiterCall::acquire(LimiterRef::Owned(limiter.clone()), &key, 1, Some(to_nanos(ttl)));
        Box::pin(async move { LockGuard::start(limiter, key, asking.await?) })
    }

    /// Waits until `key` is free, and locks it as [`try_lock`](Self::try_lock) does.
    pub fn lock(&self, key: impl IntoKey, ttl: Duration) -> LockFuture<C, S> {
        self.wait(AcquireParams::new(key, 1).with_ttl(ttl))
    }

    /// As [`lock`](Self::lock), and waits no longer than `max_wait`.
    pub fn lock_within(&self, key: impl IntoKey, ttl: Duration, max_wait: Duration) -> LockFuture<C, S> {
        self.wait(AcquireParams::new(key, 1).with_ttl(ttl).with_max_wait(max_wait))
    }

    /// As [`lock`](Self::lock), with the thread at hand.
    pub fn lock_blocking(&self, key: impl IntoKey, ttl: Duration) -> Result<LockGuard<C, S>, Refused> {
        block_on(self.lock(key, ttl))
    }

    /// As [`lock_within`](Self::lock_within), with the thread at hand.
    pub fn lock_within_blocking(
        &self,
        key: impl IntoKey,
        ttl: Duration,
        max_wait: Duration,
    ) -> Result<LockGuard<C, S>, Refused> {
        block_on(self.lock_within(key, ttl, max_wait))
    }

    /// Answers as [`try_lock`](Self::try_lock) would and changes nothing.
    pub fn peek(&self, key: impl IntoKey) -> LimiterCall<'_, Result<Decision, StoreError>, C, S> {
        self.limiter.peek(key, 1)
    }

    /// As [`try_lock`](Self::try_lock), with the lease itself, for a holder that is somewhere else: it is neither renewed nor given
    /// back by itself before its time is over.
    pub fn lease(&self, key: impl IntoKey, ttl: Duration) -> LimiterCall<'_, (Decision, Option<Lease>), C, S> {
        self.limiter.lease(key, 1, Some(ttl))
    }

    /// Lets a [`lease`](Self::lease) of `key` last for `ttl` from now.
    pub async fn renew(
        &self,
        key: impl IntoKey,
        token: &LeaseToken,
        ttl: Duration,
    ) -> Result<Renewal, StoreError> {
        self.limiter.renew(key, token, Some(ttl)).await
    }

    /// Gives a [`lease`](Self::lease) of `key` back.
    pub async fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Result<Release, StoreError> {
        self.limiter.release(key, token).await
    }

    fn wait(&self, wanted: AcquireParams) -> LockFuture<C, S> {
        let limiter = Arc::clone(&self.limiter);
        let key = wanted.key.clone();
        let waiting = wait_until_admitted(LimiterRef::Owned(limiter.clone()), wanted);
        Box::pin(async move { LockGuard::start(limiter, key, waiting.await?) })
    }
}
