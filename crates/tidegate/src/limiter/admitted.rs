//! An admitted request, and the lease that it holds.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, FencingToken, Nanos, Op, Timestamp};

use super::{Limiter, LimiterCall};
use crate::memory::{Lease, MemoryStore, Release, Renewal};
use crate::store::{AsyncStore, Store};
use crate::{Clock, StoreError, SystemClock};

/// An admitted request. It holds the lease of its concurrency limits until it is dropped or released, or until the
/// lease expires.
///
/// Returned by [`Limiter::try_acquire`], [`acquire`](Limiter::acquire) and [`acquire_within`](Limiter::acquire_within),
/// and by the corresponding methods of [`Locks`](crate::Locks). Charges to rates are kept.
///
/// Over a shared store, dropping it does not block: the lease is released in the background.
#[must_use = "the lease is released when this is dropped"]
pub struct Admitted<'a, C: Clock = SystemClock, S: Store = Arc<MemoryStore>> {
    limiter: LimiterRef<'a, C, S>,
    key: Box<[u8]>,
    /// The decision that admitted the request.
    decision: Decision,
    lease: Option<Lease>,
    /// The ttl that the caller asked for, if it did.
    ttl: Option<Nanos>,
    waited: Duration,
}

/// A limiter, borrowed or owned.
pub(crate) enum LimiterRef<'a, C, S> {
    Borrowed(&'a Limiter<C, S>),
    Owned(Arc<Limiter<C, S>>),
}

/// What the limits granted, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantedUnits {
    pub decision: Decision,
    pub lease: Option<Lease>,
    pub limits_at: Timestamp,
}

impl<'a, C: Clock, S: Store> Admitted<'a, C, S> {
    pub(crate) fn new(
        limiter: LimiterRef<'a, C, S>,
        key: Box<[u8]>,
        granted: GrantedUnits,
        ttl: Option<Nanos>,
    ) -> Self {
        let GrantedUnits { decision, lease, .. } = granted;
        Self { limiter, key, decision, lease, ttl, waited: Duration::ZERO }
    }

    /// Records how long the request waited.
    pub(super) fn with_waited(mut self, waited: Duration) -> Self {
        self.waited = waited;
        self
    }

    /// The decision that admitted the request.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// How long the request waited, from when it was made until it was due.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The lease. None without a concurrency limit.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The fencing token to present to what the lease protects. Zero, which is lower than every real token, if there is
    /// no lease.
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.map_or(FencingToken::default(), |lease| lease.fence)
    }

    pub(crate) fn ttl(&self) -> Option<Nanos> {
        self.ttl
    }

    /// Takes the lease out, so that dropping this does not release it.
    pub(crate) fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take()
    }
}

/// Renewal over any store, for a holder that keeps several leases.
#[cfg(feature = "tower")]
impl<C: Clock, S: Store> Admitted<'static, C, S> {
    /// Starts to renew the lease. None without a lease.
    pub(crate) fn start_renewal(
        &self,
    ) -> Option<LimiterCall<'static, Result<crate::store::LeaseReply, StoreError>, C, S>> {
        let lease = self.lease.as_ref()?;
        let op = Op::renew(lease.token, self.ttl);
        Some(LimiterCall::lease(self.limiter.clone(), &self.key, op))
    }

    /// The lease was renewed.
    pub(crate) fn set_lease(&mut self, lease: Lease) {
        self.lease = Some(lease);
    }
}

/// Over the memory store.
impl<C: Clock> Admitted<'_, C, Arc<MemoryStore>> {
    /// Renews the lease for its ttl from now. Without a lease the result is `AlreadyReleased`.
    pub fn renew(&mut self) -> Renewal {
        let Some(lease) = &mut self.lease else { return Renewal::AlreadyReleased };
        let renewal = self.limiter.get().renew_by_key(&self.key, &lease.token, self.ttl);
        if let Renewal::Renewed(renewed) = renewal {
            *lease = renewed;
        }
        renewal
    }

    /// Releases the lease, and returns whether it was still held.
    pub fn release(mut self) -> Release {
        match self.lease.take() {
            Some(lease) => self.limiter.get().release(&self.key, &lease.token),
            None => Release::AlreadyReleased,
        }
    }
}

/// Over a store that may answer later.
impl<C: Clock, S: AsyncStore> Admitted<'_, C, S> {
    /// Renews the lease for its ttl from now. Without a lease the result is `AlreadyReleased`.
    pub async fn renew(&mut self) -> Result<Renewal, StoreError> {
        let Some(lease) = &mut self.lease else { return Ok(Renewal::AlreadyReleased) };
        let op = Op::renew(lease.token, self.ttl);
        let renewal: Renewal = LimiterCall::lease(self.limiter.clone(), &self.key, op).await?.into();
        if let Renewal::Renewed(renewed) = renewal {
            *lease = renewed;
        }
        Ok(renewal)
    }

    /// Releases the lease, and returns whether it was still held.
    pub async fn release(mut self) -> Result<Release, StoreError> {
        let Some(lease) = &self.lease else { return Ok(Release::AlreadyReleased) };
        let op = Op::Release { token: lease.token };
        // If the store does not answer, `drop` releases the lease once more.
        let released = LimiterCall::lease(self.limiter.clone(), &self.key, op).await?;
        self.lease = None;
        Ok(released.into())
    }
}

impl<C: Clock, S: Store> Drop for Admitted<'_, C, S> {
    fn drop(&mut self) {
        // A lease that has expired needs no release; the store then ignores it.
        if let Some(lease) = self.lease.take() {
            self.limiter.get().release_in_background(&self.key, &lease.token);
        }
    }
}

impl<C, S> LimiterRef<'_, C, S> {
    pub(crate) fn get(&self) -> &Limiter<C, S> {
        match self {
            Self::Borrowed(limiter) => limiter,
            Self::Owned(limiter) => limiter,
        }
    }
}

impl<C, S> Clone for LimiterRef<'_, C, S> {
    fn clone(&self) -> Self {
        match self {
            Self::Borrowed(limiter) => Self::Borrowed(limiter),
            Self::Owned(limiter) => Self::Owned(Arc::clone(limiter)),
        }
    }
}

impl<C: Clock, S: Store> std::fmt::Debug for Admitted<'_, C, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admitted")
            .field("decision", &self.decision)
            .field("lease", &self.lease)
            .field("waited", &self.waited)
            .finish_non_exhaustive()
    }
}

pub(crate) fn to_nanos(duration: Duration) -> Nanos {
    Nanos::new(duration.as_nanos())
}
