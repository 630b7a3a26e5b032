//! Operations of a limiter over a store that may answer later: they are futures.

use std::time::Duration;

use tidegate_core::{Decision, IntoKey, LeaseToken, Op};

use super::{LimiterCall, Limiter, LimiterRef, Reservation, to_nanos};
use crate::memory::{Lease, Release, Renewal};
use crate::store::AsyncStore;
use crate::{Clock, Refused, StoreError};

/// Operations over a store that may answer later. They start when they are called, and can be awaited on any runtime: the store
/// has deadlines of its own.
impl<C: Clock, S: AsyncStore> Limiter<C, S> {
    /// Asks for `cost` units for `key` and takes them if every limit admits them.
    ///
    /// There is always a decision. If the store does not answer, the limiter's
    /// [policy](super::LimiterBuilder::on_store_failure) decides, and the decision is [degraded](Decision::degraded). A request
    /// that is denied because the store does not answer may be tried again a second later.
    ///
    /// What a concurrency limit gives to a check cannot be given back; it is held for the limit's ttl. To hold it and
    /// give it back, [`try_acquire`](Self::try_acquire).
    pub fn check(&self, key: impl IntoKey, cost: u64) -> LimiterCall<'_, Decision, C, S> {
        LimiterCall::check(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost)
    }

    /// Answers as [`check`](Self::check) would and changes nothing. It is an error if the store does not answer.
    pub fn peek(&self, key: impl IntoKey, cost: u64) -> LimiterCall<'_, Result<Decision, StoreError>, C, S> {
        LimiterCall::peek(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost)
    }

    /// Asks as [`check`](Self::check) does, and gives the units back in the background when the reservation is dropped, unless it
    /// was [committed](Reservation::commit).
    pub fn reserve(
        &self,
        key: impl IntoKey,
        cost: u64,
    ) -> LimiterCall<'_, Result<Reservation<'_, C, S>, Refused>, C, S> {
        LimiterCall::reserve(self, key.key_bytes().as_ref(), cost)
    }

    /// Forgets all that `key` used, in the shared store and in this process.
    pub fn reset(&self, key: impl IntoKey) -> LimiterCall<'_, Result<(), StoreError>, C, S> {
        LimiterCall::reset(LimiterRef::Borrowed(self), key.key_bytes().as_ref())
    }

    /// Asks as [`try_acquire`](Self::try_acquire) does and gives the lease itself, for a holder that is somewhere else: it is
    /// not given back by itself before its time is over. It lasts no longer than `ttl`, a millisecond at least, if that is less
    /// than the limits give.
    pub fn lease(
        &self,
        key: impl IntoKey,
        cost: u64,
        ttl: Option<Duration>,
    ) -> LimiterCall<'_, (Decision, Option<Lease>), C, S> {
        LimiterCall::raw_lease(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), cost, ttl.map(to_nanos))
    }

    /// Lets a [`lease`](Self::lease) of `key` last from now on as long as its limits give, and no longer than `ttl`.
    pub async fn renew(
        &self,
        key: impl IntoKey,
        token: &LeaseToken,
        ttl: Option<Duration>,
    ) -> Result<Renewal, StoreError> {
        let op = Op::Renew { token: *token, ttl: ttl.map(to_nanos) };
        let renewing = LimiterCall::lease(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), op);
        Ok(renewing.await?.into())
    }

    /// Gives a [`lease`](Self::lease) of `key` back.
    pub async fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Result<Release, StoreError> {
        let op = Op::Release { token: *token };
        let releasing = LimiterCall::lease(LimiterRef::Borrowed(self), key.key_bytes().as_ref(), op);
        Ok(releasing.await?.into())
    }
}
