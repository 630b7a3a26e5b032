//! A request that was admitted, and what it holds.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, FencingToken, Nanos, Op, Timestamp};

use super::{LimiterCall, Limiter};
use crate::memory::{Lease, MemoryStore, Release, Renewal};
use crate::store::{AsyncStore, Store};
use crate::{Clock, StoreError, SystemClock};

/// A request that was admitted. What concurrency limits gave is held until this is dropped, released, or its time is over.
///
/// Made by [`Limiter::try_acquire`], [`acquire`](Limiter::acquire) and [`acquire_within`](Limiter::acquire_within), and by the
/// same verbs of [`Locks`](crate::Locks). Rates that were charged stay charged.
///
/// Over a shared store, dropping it does not wait: the lease is released in the background.
#[must_use = "what is held is given back when this is dropped"]
pub struct Admitted<'a, C: Clock = SystemClock, S: Store = Arc<MemoryStore>> {
    limiter: LimiterRef<'a, C, S>,
    key: Box<[u8]>,
    /// What the limits said when it was admitted.
    decision: Decision,
    lease: Option<Lease>,
    /// How long it asked to hold, if that is less than its limits would give.
    ttl: Option<Nanos>,
    waited: Duration,
}

/// A limiter, borrowed or owned.
pub(crate) enum LimiterRef<'a, C, S> {
    Borrowed(&'a Limiter<C, S>),
    Owned(Arc<Limiter<C, S>>),
}

/// What limits gave, and as of when.
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

    /// The same for a request that waited.
    pub(super) fn with_waited(mut self, waited: Duration) -> Self {
        self.waited = waited;
        self
    }

    /// What the limits said when it was admitted.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// How long it waited, from when it asked until it was due.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The lease; none if there was nothing to hold.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The number to show to what the lease protects; zero, which everything newer outranks, if there was
    /// nothing to hold.
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.map_or(FencingToken::default(), |lease| lease.fence)
    }

    pub(crate) fn ttl(&self) -> Option<Nanos> {
        self.ttl
    }

    /// Takes the lease out: it is not given back when this is dropped.
    pub(crate) fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take()
    }
}

/// Over the memory store.
impl<C: Clock> Admitted<'_, C, Arc<MemoryStore>> {
    /// Holds on for a ttl from now. What holds nothing has been released already.
    pub fn renew(&mut self) -> Renewal {
        let Some(lease) = &mut self.lease else { return Renewal::AlreadyReleased };
        let renewal = self.limiter.get().renew_by_key(&self.key, &lease.token, self.ttl);
        if let Renewal::Renewed(renewed) = renewal {
            *lease = renewed;
        }
        renewal
    }

    /// Gives it back and says whether it was still held.
    pub fn release(mut self) -> Release {
        match self.lease.take() {
            Some(lease) => self.limiter.get().release(&self.key, &lease.token),
            None => Release::AlreadyReleased,
        }
    }
}

/// Over a store that may answer later.
impl<C: Clock, S: AsyncStore> Admitted<'_, C, S> {
    /// Holds on for a ttl from now. What holds nothing has been released already.
    pub async fn renew(&mut self) -> Result<Renewal, StoreError> {
        let Some(lease) = &mut self.lease else { return Ok(Renewal::AlreadyReleased) };
        let op = Op::Renew { token: lease.token, ttl: self.ttl };
        let renewal: Renewal = LimiterCall::lease(self.limiter.clone(), &self.key, op).await?.into();
        if let Renewal::Renewed(renewed) = renewal {
            *lease = renewed;
        }
        Ok(renewal)
    }

    /// Gives it back and says whether it was still held.
    pub async fn release(mut self) -> Result<Release, StoreError> {
        let Some(lease) = &self.lease else { return Ok(Release::AlreadyReleased) };
        let op = Op::Release { token: lease.token };
        // If the store does not answer, the lease is released again when this is dropped.
        let released = LimiterCall::lease(self.limiter.clone(), &self.key, op).await?;
        self.lease = None;
        Ok(released.into())
    }
}

impl<C: Clock, S: Store> Drop for Admitted<'_, C, S> {
    fn drop(&mut self) {
        // If its time is over there is nothing left to give back.
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

pub(crate) fn to_nanos(duration: Duration) -> Nanos {
    Nanos::new(duration.as_nanos())
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
