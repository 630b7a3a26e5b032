//! A limiter over a store that may answer later. Its calls are futures.

use std::time::Duration;

use tidegate_core::{Decision, IntoKey, LeaseToken, Op};

use super::{Limiter, LimiterCall, LimiterRef, Reservation, to_nanos};
use crate::memory::{Lease, Release, Renewal};
use crate::store::AsyncStore;
use crate::{Clock, Refused, StoreError};

/// Calls over a store that may answer later. A call starts when its method is called, and can be awaited on any
/// runtime, because the store has its own deadlines.
impl<C: Clock, S: AsyncStore> Limiter<C, S> {
    /// Asks for `cost` units of `key`, and takes them if every limit admits them.
    ///
    /// There is always a decision. If the store does not answer, the limiter's
    /// [policy](super::LimiterBuilder::on_store_failure) decides, and the decision is [degraded](Decision::degraded). A
    /// request that is denied because the store does not answer can be retried after a second.
    ///
    /// A concurrency limit counts a check as held for the limit's ttl, and it cannot be released earlier. Use
    /// [`try_acquire`](Self::try_acquire) to release it.
    pub fn check(&self, key: impl IntoKey, cost: u64) -> LimiterCall<'_, Decision, C, S> {
        LimiterCall::check(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost)
    }

    /// Returns what [`check`](Self::check) would return, and changes nothing. Fails if the store does not answer.
    pub fn peek(&self, key: impl IntoKey, cost: u64) -> LimiterCall<'_, Result<Decision, StoreError>, C, S> {
        LimiterCall::peek(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost)
    }

    /// Charges as [`check`](Self::check) does, and refunds the units in the background when the reservation is dropped
    /// without a [`commit`](Reservation::commit).
    pub fn reserve(
        &self,
        key: impl IntoKey,
        cost: u64,
    ) -> LimiterCall<'_, Result<Reservation<'_, C, S>, Refused>, C, S> {
        LimiterCall::reserve(self, key.key_bytes().as_ref(), cost)
    }

    /// Removes the state of `key`, in the shared store and in this process.
    pub fn reset(&self, key: impl IntoKey) -> LimiterCall<'_, Result<(), StoreError>, C, S> {
        LimiterCall::reset(LimiterRef::Borrowed(self), key.key_bytes().as_ref())
    }

    /// Acquires as [`try_acquire`](Self::try_acquire) does and returns the lease itself, for a holder in another place.
    /// It is not released automatically before it expires. It lasts at most `ttl` (at least a millisecond), and no
    /// longer than the limits allow.
    pub fn lease(
        &self,
        key: impl IntoKey,
        cost: u64,
        ttl: Option<Duration>,
    ) -> LimiterCall<'_, (Decision, Option<Lease>), C, S> {
        LimiterCall::raw_lease(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, ttl.map(to_nanos))
    }

    /// Renews a [`lease`](Self::lease) of `key`, for `ttl` from now, and no longer than its limits allow. Without a ttl,
    /// the lease keeps the one that it was acquired or last renewed with.
    pub async fn renew(
        &self,
        key: impl IntoKey,
        token: &LeaseToken,
        ttl: Option<Duration>,
    ) -> Result<Renewal, StoreError> {
        let op = Op::renew(*token, ttl.map(to_nanos));
        let renewing = LimiterCall::lease(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), op);
        Ok(renewing.await?.into())
    }

    /// Releases a [`lease`](Self::lease) of `key`.
    pub async fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Result<Release, StoreError> {
        let op = Op::Release { token: *token };
        let releasing = LimiterCall::lease(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), op);
        Ok(releasing.await?.into())
    }
}
