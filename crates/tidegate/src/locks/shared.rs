//! Locks over a store that a fleet shares.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, IntoKey, LeaseToken};

use super::{LockGuard, Locks};
use crate::blocking::block_on;
use crate::limiter::{Asking, LimiterRef, span};
use crate::memory::{Lease, Release, Renewal};
use crate::store::Shared;
use crate::waiting::SharedRequest;
use crate::{Refused, StoreFailure, Timer};

/// Locks a key, over a store that may answer later.
pub type Locking<C, S> = Pin<Box<dyn Future<Output = Result<LockGuard<C, S>, Refused>> + Send>>;

/// Locks of a fleet. The futures work on any runtime.
impl<C, S> Locks<C, S>
where
    C: Timer + Send + Sync + 'static,
    S: Shared + 'static,
{
    /// Locks `key` if it is free, and renews the lock every third of `ttl` until the guard is dropped. Never waits for another
    /// holder.
    pub fn try_lock(&self, key: impl IntoKey, ttl: Duration) -> Locking<C, S> {
        let key: Box<[u8]> = key.key_bytes().as_ref().into();
        let limiter = Arc::clone(&self.limiter);
        let asking = Asking::acquire(LimiterRef::Owned(limiter.clone()), &key, 1, Some(span(ttl)));
        Box::pin(async move { LockGuard::start(limiter, key, asking.await?) })
    }

    /// Waits until `key` is free, and locks it as [`try_lock`](Self::try_lock) does.
    pub fn lock(&self, key: impl IntoKey, ttl: Duration) -> Locking<C, S> {
        self.wait(key.key_bytes().as_ref(), ttl, None)
    }

    /// As [`lock`](Self::lock), and waits no longer than `max_wait`.
    pub fn lock_within(&self, key: impl IntoKey, ttl: Duration, max_wait: Duration) -> Locking<C, S> {
        self.wait(key.key_bytes().as_ref(), ttl, Some(max_wait))
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
    pub fn peek(&self, key: impl IntoKey) -> Asking<'_, Result<Decision, StoreFailure>, C, S> {
        self.limiter.peek(key, 1)
    }

    /// As [`try_lock`](Self::try_lock), with the lease itself, for a holder that is somewhere else: it is neither renewed nor given
    /// back by itself before its time is over.
    pub fn lease(&self, key: impl IntoKey, ttl: Duration) -> Asking<'_, (Decision, Option<Lease>), C, S> {
        self.limiter.lease(key, 1, Some(ttl))
    }

    /// Lets a [`lease`](Self::lease) of `key` last for `ttl` from now.
    pub async fn renew(
        &self,
        key: impl IntoKey,
        token: &LeaseToken,
        ttl: Duration,
    ) -> Result<Renewal, StoreFailure> {
        self.limiter.renew(key, token, Some(ttl)).await
    }

    /// Gives a [`lease`](Self::lease) of `key` back.
    pub async fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Result<Release, StoreFailure> {
        self.limiter.release(key, token).await
    }

    fn wait(&self, key: &[u8], ttl: Duration, max_wait: Option<Duration>) -> Locking<C, S> {
        let limiter = Arc::clone(&self.limiter);
        let key = Box::<[u8]>::from(key);
        let request = SharedRequest {
            limiter: LimiterRef::Owned(limiter.clone()),
            key: key.clone(),
            cost: 1,
            ttl: Some(span(ttl)),
        };
        Box::pin(async move { LockGuard::start(limiter, key, request.admitted(max_wait).await?) })
    }
}
