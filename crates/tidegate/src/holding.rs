//! Units that are held, and given back when whoever holds them is done.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Fence, IntoKey, LeaseToken, Nanos, Timestamp};

use crate::memory::{Lease, Release, Renewal};
use crate::{Clock, Limiter, SystemClock};

/// Units of a key, held until this is dropped, released, or their time is over.
///
/// Made by [`Limiter::acquire`]. Rates that were charged beside stay charged.
#[must_use = "what is held is given back when this is dropped"]
pub struct Holding<'a, C: Clock = SystemClock> {
    limiter: Limited<'a, C>,
    key: Box<[u8]>,
    /// What the limits said when it was acquired.
    decision: Decision,
    lease: Option<Lease>,
    /// What it asked for, if that is less than its limits would give.
    ttl: Option<Nanos>,
}

/// The limiter, borrowed or shared.
enum Limited<'a, C> {
    Borrowed(&'a Limiter<C>),
    Shared(Arc<Limiter<C>>),
}

/// Holding units. A limiter may have rates beside its concurrency limits: all admit a request or none is charged.
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
/// let slots: Vec<_> = (0..3).filter_map(|_| limiter.acquire("tenant:7", 1).ok()).collect();
/// assert_eq!(slots.len(), 3);
/// assert!(limiter.acquire("tenant:7", 1).is_err());
/// drop(slots);
/// assert!(limiter.acquire("tenant:7", 1).is_ok());
/// # Ok::<(), tidegate::LimiterError>(())
/// ```
impl<C: Clock> Limiter<C> {
    /// Asks for `cost` units of `key` as [`check`](Self::check) does, and holds what concurrency limits gave until
    /// the answer is dropped. The error is the decision that denied it.
    ///
    /// A limiter without a concurrency limit, and a cost of zero, give nothing to hold.
    pub fn acquire(&self, key: impl IntoKey, cost: u64) -> Result<Holding<'_, C>, Decision> {
        Holding::acquire(Limited::Borrowed(self), key.key_bytes().as_ref(), cost, None)
    }

    /// As [`acquire`](Self::acquire), for no longer than `ttl`, a millisecond at least, if that is less than the
    /// limits would give.
    pub fn acquire_for(
        &self,
        key: impl IntoKey,
        cost: u64,
        ttl: Duration,
    ) -> Result<Holding<'_, C>, Decision> {
        Holding::acquire(Limited::Borrowed(self), key.key_bytes().as_ref(), cost, Some(span(ttl)))
    }

    /// As [`acquire`](Self::acquire), with a holding that can go wherever the limiter can.
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: impl IntoKey,
        cost: u64,
    ) -> Result<Holding<'static, C>, Decision> {
        Holding::acquire(Limited::Shared(Arc::clone(self)), key.key_bytes().as_ref(), cost, None)
    }

    /// As [`acquire`](Self::acquire), with the lease itself, for a holder that is somewhere else: it is not given back
    /// by itself before its time is over.
    #[must_use = "a lease that nobody has is held until its ttl is over"]
    pub fn lease(&self, key: impl IntoKey, cost: u64) -> (Decision, Option<Lease>) {
        self.lease_at(key.key_bytes().as_ref(), cost, None, self.clock().now())
    }

    /// As [`lease`](Self::lease), for no longer than `ttl` if that is less than the limits would give.
    #[must_use = "a lease that nobody has is held until its ttl is over"]
    pub fn lease_for(&self, key: impl IntoKey, cost: u64, ttl: Duration) -> (Decision, Option<Lease>) {
        self.lease_at(key.key_bytes().as_ref(), cost, Some(span(ttl)), self.clock().now())
    }

    /// Lets a [`lease`](Self::lease) of `key` last from now on as long as its limits give.
    pub fn renew(&self, key: impl IntoKey, token: &LeaseToken) -> Renewal {
        self.renewed(key.key_bytes().as_ref(), token, None)
    }

    /// As [`renew`](Self::renew), for no longer than `ttl` if that is less than the limits would give.
    pub fn renew_for(&self, key: impl IntoKey, token: &LeaseToken, ttl: Duration) -> Renewal {
        self.renewed(key.key_bytes().as_ref(), token, Some(span(ttl)))
    }

    /// Gives a [`lease`](Self::lease) of `key` back.
    pub fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Release {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock().now());
        let release = self.store().release(&self.plan(key, 0, now), token, now);
        if release == Release::Released {
            self.queue_group().wake(key, now);
        }
        release
    }

    pub(crate) fn lease_at(
        &self,
        key: &[u8],
        cost: u64,
        ttl: Option<Nanos>,
        now: Timestamp,
    ) -> (Decision, Option<Lease>) {
        let (outcomes, lease) = self.store().acquire(&self.plan(key, cost, now), now, ttl);
        (self.until_retired(Decision::merge(&outcomes), key, cost, now), lease)
    }

    fn renewed(&self, key: &[u8], token: &LeaseToken, ttl: Option<Nanos>) -> Renewal {
        let now = self.clock().now();
        self.store().renew(&self.plan(key, 0, now), token, now, ttl)
    }
}

impl<'a, C: Clock> Holding<'a, C> {
    fn acquire(limiter: Limited<'a, C>, key: &[u8], cost: u64, ttl: Option<Nanos>) -> Result<Self, Decision> {
        let (decision, lease) = limiter.get().lease_at(key, cost, ttl, limiter.get().clock().now());
        let holding = Self { limiter, key: key.into(), decision, lease, ttl };
        if decision.is_allowed() { Ok(holding) } else { Err(decision) }
    }

    /// What was acquired after a wait.
    pub(crate) fn of(
        limiter: &'a Limiter<C>,
        key: Box<[u8]>,
        admitted: Admitted,
        ttl: Option<Nanos>,
    ) -> Self {
        let Admitted { decision, lease, .. } = admitted;
        Self { limiter: Limited::Borrowed(limiter), key, decision, lease, ttl }
    }

    /// What the limits said when it was acquired.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The lease; none if there was nothing to hold.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The number to show to whatever the lease protects; zero, which everything newer outranks, if there was
    /// nothing to hold.
    pub fn fence(&self) -> Fence {
        self.lease.map_or(Fence::default(), |lease| lease.fence)
    }

    /// Holds on for a ttl from now. What holds nothing has been released already.
    pub fn renew(&mut self) -> Renewal {
        let Some(lease) = &mut self.lease else { return Renewal::AlreadyReleased };
        let renewal = self.limiter.get().renewed(&self.key, &lease.token, self.ttl);
        if let Renewal::Renewed(renewed) = renewal {
            *lease = renewed;
        }
        renewal
    }

    /// Gives it back and says whether it was still held.
    pub fn release(mut self) -> Release {
        self.give_back()
    }

    fn give_back(&mut self) -> Release {
        match self.lease.take() {
            Some(lease) => self.limiter.get().release(&self.key, &lease.token),
            None => Release::AlreadyReleased,
        }
    }
}

pub(crate) fn span(duration: Duration) -> Nanos {
    Nanos::new(duration.as_nanos())
}

/// What limits gave, and as of when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub decision: Decision,
    pub lease: Option<Lease>,
    pub at: Timestamp,
}

impl<C> Limited<'_, C> {
    fn get(&self) -> &Limiter<C> {
        match self {
            Self::Borrowed(limiter) => limiter,
            Self::Shared(limiter) => limiter,
        }
    }
}

impl<C: Clock> Drop for Holding<'_, C> {
    fn drop(&mut self) {
        // If its time is over there is nothing left to give back.
        let _ = self.give_back();
    }
}

impl<C: Clock> std::fmt::Debug for Holding<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holding").field("lease", &self.lease).finish_non_exhaustive()
    }
}
