//! Locks over the memory store.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, IntoKey, LeaseToken};

use super::locks::Locks;
use crate::blocking::block_on;
use crate::limiter::{AcquireFuture, AcquireParams, Admitted};
use crate::memory::{Lease, MemoryStats, MemoryStore, Release, Renewal};
use crate::{Clock, Refused, Timer};

/// Locks within a process.
impl<C: Clock> Locks<C, Arc<MemoryStore>> {
    /// Locks `key` for `ttl` (at least a millisecond) if it is free. Never waits. The error has the latest time at
    /// which the lock will be free.
    pub fn try_lock(&self, key: impl IntoKey, ttl: Duration) -> Result<Admitted<'_, C>, Refused> {
        self.limiter.try_acquire_for(key, 1, ttl)
    }

    /// Returns what [`try_lock`](Self::try_lock) would decide, and changes nothing.
    pub fn peek(&self, key: impl IntoKey) -> Decision {
        self.limiter.peek(key, 1)
    }

    /// What the store holds, and what it had to evict.
    pub fn stats(&self) -> MemoryStats {
        self.limiter.stats()
    }

    /// As [`try_lock`](Self::try_lock), but returns the lease itself, for a holder in another place. It is not released
    /// automatically before it expires.
    #[must_use = "the lease is held until its ttl is over, unless it is released"]
    pub fn lease(&self, key: impl IntoKey, ttl: Duration) -> (Decision, Option<Lease>) {
        self.limiter.lease(key, 1, Some(ttl))
    }

    /// Renews a [`lease`](Self::lease) of `key`, for `ttl` from now.
    pub fn renew(&self, key: impl IntoKey, token: &LeaseToken, ttl: Duration) -> Renewal {
        self.limiter.renew(key, token, Some(ttl))
    }

    /// Releases a [`lease`](Self::lease) of `key`.
    pub fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Release {
        self.limiter.release(key, token)
    }
}

/// Waiting for locks within a process.
impl<C: Timer + Send + Sync> Locks<C, Arc<MemoryStore>> {
    /// Waits until `key` is free, first come first served, and locks it for `ttl`.
    pub fn lock(&self, key: impl IntoKey, ttl: Duration) -> AcquireFuture<'_, C> {
        AcquireFuture::new(&self.limiter, AcquireParams::new(key, 1).with_ttl(ttl))
    }

    /// As [`lock`](Self::lock), but waits at most `max_wait`.
    pub fn lock_within(&self, key: impl IntoKey, ttl: Duration, max_wait: Duration) -> AcquireFuture<'_, C> {
        AcquireFuture::new(&self.limiter, AcquireParams::new(key, 1).with_ttl(ttl).with_max_wait(max_wait))
    }

    /// As [`lock`](Self::lock), blocking the current thread.
    pub fn lock_blocking(&self, key: impl IntoKey, ttl: Duration) -> Result<Admitted<'_, C>, Refused> {
        block_on(self.lock(key, ttl))
    }

    /// As [`lock_within`](Self::lock_within), blocking the current thread.
    pub fn lock_within_blocking(
        &self,
        key: impl IntoKey,
        ttl: Duration,
        max_wait: Duration,
    ) -> Result<Admitted<'_, C>, Refused> {
        block_on(self.lock_within(key, ttl, max_wait))
    }
}
