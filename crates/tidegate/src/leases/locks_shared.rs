//! Locks over a shared store.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, IntoKey, LeaseToken};

use super::guard::LockGuard;
use super::locks::Locks;
use crate::blocking::block_on;
use crate::limiter::{AcquireParams, LimiterCall, LimiterRef, to_nanos, wait_until_admitted};
use crate::memory::{Lease, Release, Renewal};
use crate::store::AsyncStore;
use crate::{Refused, StoreError, Timer};

/// The future of a lock over a store that may answer later.
pub type LockFuture<C, S> = Pin<Box<dyn Future<Output = Result<LockGuard<C, S>, Refused>> + Send>>;

/// Locks over a shared store. The futures work on any runtime.
impl<C, S> Locks<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: AsyncStore + 'static,
{
    /// Locks `key` if it is free. The lock is renewed every third of `ttl` until the guard is dropped. Never waits for
    /// another holder.
    pub fn try_lock(&self, key: impl IntoKey, ttl: Duration) -> LockFuture<C, S> {
        let key: Box<[u8]> = key.key_bytes().as_ref().into();
        let limiter = Arc::clone(&self.limiter);
        let call = LimiterCall::acquire(LimiterRef::Owned(limiter.clone()), &key, 1, Some(to_nanos(ttl)));
        Box::pin(async move { LockGuard::start(limiter, key, call.await?) })
    }

    /// Waits until `key` is free, and locks it as [`try_lock`](Self::try_lock) does.
    pub fn lock(&self, key: impl IntoKey, ttl: Duration) -> LockFuture<C, S> {
        self.wait(AcquireParams::new(key, 1).with_ttl(ttl))
    }

    /// As [`lock`](Self::lock), but waits at most `max_wait`.
    pub fn lock_within(&self, key: impl IntoKey, ttl: Duration, max_wait: Duration) -> LockFuture<C, S> {
        self.wait(AcquireParams::new(key, 1).with_ttl(ttl).with_max_wait(max_wait))
    }

    /// As [`lock`](Self::lock), blocking the current thread.
    pub fn lock_blocking(&self, key: impl IntoKey, ttl: Duration) -> Result<LockGuard<C, S>, Refused> {
        block_on(self.lock(key, ttl))
    }

    /// As [`lock_within`](Self::lock_within), blocking the current thread.
    pub fn lock_within_blocking(
        &self,
        key: impl IntoKey,
        ttl: Duration,
        max_wait: Duration,
    ) -> Result<LockGuard<C, S>, Refused> {
        block_on(self.lock_within(key, ttl, max_wait))
    }

    /// Returns what [`try_lock`](Self::try_lock) would decide, and changes nothing.
    pub fn peek(&self, key: impl IntoKey) -> LimiterCall<'_, Result<Decision, StoreError>, C, S> {
        self.limiter.peek(key, 1)
    }

    /// As [`try_lock`](Self::try_lock), but returns the lease itself, for a holder in another place. It is neither
    /// renewed nor released automatically before it expires.
    pub fn lease(
        &self,
        key: impl IntoKey,
        ttl: Duration,
    ) -> LimiterCall<'_, (Decision, Option<Lease>), C, S> {
        self.limiter.lease(key, 1, Some(ttl))
    }

    /// Renews a [`lease`](Self::lease) of `key`, for `ttl` from now.
    pub async fn renew(
        &self,
        key: impl IntoKey,
        token: &LeaseToken,
        ttl: Duration,
    ) -> Result<Renewal, StoreError> {
        self.limiter.renew(key, token, Some(ttl)).await
    }

    /// Releases a [`lease`](Self::lease) of `key`.
    pub async fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Result<Release, StoreError> {
        self.limiter.release(key, token).await
    }

    fn wait(&self, params: AcquireParams) -> LockFuture<C, S> {
        let limiter = Arc::clone(&self.limiter);
        let key = params.key.clone();
        let waiting = wait_until_admitted(LimiterRef::Owned(limiter.clone()), params);
        Box::pin(async move { LockGuard::start(limiter, key, waiting.await?) })
    }
}
