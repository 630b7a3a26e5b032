//! Operations of a limiter over the memory store: they are done at once.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Charge, ChargedAt, Decision, IntoKey, LeaseToken, Nanos, Timestamp, Wait};

use super::{GrantedUnits, Limiter, LimiterRef, Reservation, to_nanos};
use crate::memory::{Lease, MemoryStats, MemoryStore, Release, Renewal};
use crate::{Clock, Refused};

/// Operations over the memory store.
impl<C: Clock> Limiter<C, Arc<MemoryStore>> {
    /// Asks for `cost` units for `key` and takes them if every limit admits them.
    ///
    /// What a concurrency limit gives to a check cannot be given back; it is held for the limit's ttl. To hold it and
    /// give it back, [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn check(&self, key: impl IntoKey, cost: u64) -> Decision {
        self.check_at(key, cost, self.clock.now())
    }

    /// As [`check`](Self::check), at an instant of the caller's.
    #[inline]
    pub fn check_at(&self, key: impl IntoKey, cost: u64, now: Timestamp) -> Decision {
        let key = key.key_bytes();
        let key = key.as_ref();
        match &*self.limits.counters {
            [counter] if self.limits.superseded.is_empty() => {
                let charge = Charge::new(key, counter, cost);
                self.store.check_one(&charge, now)
            }
            _ => self.check_all(key, cost, now),
        }
    }

    /// A request that falls under several limits, out of the way of one that does not.
    #[inline(never)]
    fn check_all(&self, key: &[u8], cost: u64, now: Timestamp) -> Decision {
        let decision = Decision::merge(&self.store.check(&self.plan(key, cost, now), now));
        self.with_superseded_retry_after(decision, key, cost, now)
    }

    /// Answers as [`check`](Self::check) would and changes nothing.
    pub fn peek(&self, key: impl IntoKey, cost: u64) -> Decision {
        self.peek_at(key, cost, self.clock.now())
    }

    /// As [`peek`](Self::peek), at an instant of the caller's.
    pub fn peek_at(&self, key: impl IntoKey, cost: u64, now: Timestamp) -> Decision {
        let key = key.key_bytes();
        let key = key.as_ref();
        let decision = Decision::merge(&self.store.peek(&self.plan(key, cost, now), now));
        self.with_superseded_retry_after(decision, key, cost, now)
    }

    /// Asks as [`check`](Self::check) does, and gives the units back when the reservation is dropped, unless it was
    /// [committed](Reservation::commit).
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// let limiter = Limiter::new("{algorithm: sliding_log, limit: 2, per: 1h}")?;
    /// limiter.reserve("user:42", 1)?.commit();
    /// let failed = limiter.reserve("user:42", 1)?;
    /// assert!(limiter.reserve("user:42", 1).is_err());
    /// drop(failed);
    /// assert!(limiter.peek("user:42", 1).is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, key: impl IntoKey, cost: u64) -> Result<Reservation<'_, C>, Refused> {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        let (decision, lease) = self.lease_at(key, cost, None, now);
        match decision.is_allowed() {
            true => {
                let granted = GrantedUnits { decision, lease, limits_at: now };
                Ok(Reservation::new(LimiterRef::Borrowed(self), key, cost, granted, now))
            }
            false => Err(Refused::OverLimit(decision)),
        }
    }

    /// Gives back `cost` units of `key` that were taken at an instant and not used; nothing of what was taken since. What
    /// concurrency limits gave is [released](Self::release) instead.
    ///
    /// A [reservation](Self::reserve) does this by itself.
    pub fn refund_at(&self, key: impl IntoKey, cost: u64, charged_at: Timestamp) {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        self.store.refund_charged_at(&self.plan(key, cost, charged_at), ChargedAt::new(charged_at), now);
        self.queue_group.wake(key, now);
    }

    /// Forgets all that `key` used.
    pub fn reset(&self, key: impl IntoKey) {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        self.store.reset(&self.plan(key, 0, now));
        self.queue_group.wake(key, now);
    }

    /// Asks as [`try_acquire`](Self::try_acquire) does and gives the lease itself, for a holder that is somewhere else: it is
    /// not given back by itself before its time is over. It lasts no longer than `ttl`, a millisecond at least, if that is less
    /// than the limits give.
    #[must_use = "the lease is held until its ttl is over, unless it is released"]
    pub fn lease(&self, key: impl IntoKey, cost: u64, ttl: Option<Duration>) -> (Decision, Option<Lease>) {
        self.lease_at(key.key_bytes().as_ref(), cost, ttl.map(to_nanos), self.clock.now())
    }

    /// Lets a [`lease`](Self::lease) of `key` last from now on as long as its limits give, and no longer than `ttl`.
    pub fn renew(&self, key: impl IntoKey, token: &LeaseToken, ttl: Option<Duration>) -> Renewal {
        self.renew_by_key(key.key_bytes().as_ref(), token, ttl.map(to_nanos))
    }

    /// Gives a [`lease`](Self::lease) of `key` back.
    pub fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Release {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        let release = self.store.release(&self.plan(key, 0, now), token, now);
        if release == Release::Released {
            self.queue_group.wake(key, now);
        }
        release
    }

    /// What the store holds and had to give up.
    pub fn stats(&self) -> MemoryStats {
        self.store.stats()
    }

    pub(crate) fn lease_at(
        &self,
        key: &[u8],
        cost: u64,
        ttl: Option<Nanos>,
        now: Timestamp,
    ) -> (Decision, Option<Lease>) {
        let (outcomes, lease) = self.store.acquire(&self.plan(key, cost, now), now, ttl);
        (self.with_superseded_retry_after(Decision::merge(&outcomes), key, cost, now), lease)
    }

    pub(super) fn renew_by_key(&self, key: &[u8], token: &LeaseToken, ttl: Option<Nanos>) -> Renewal {
        let now = self.clock.now();
        self.store.renew(&self.plan(key, 0, now), token, now, ttl)
    }

    /// A denial with the wait that is left if limits on their way out are gone before it is over.
    fn with_superseded_retry_after(&self, decision: Decision, key: &[u8], cost: u64, now: Timestamp) -> Decision {
        // What an attempt adds to a limit that counts denied ones only a check knows, so it is left as it is.
        if decision.is_allowed() || self.next_expiry(now).is_none() || self.counts_denied(now) {
            return decision;
        }
        let wait_at = |from| self.store.wait(&self.plan(key, cost, from), from);
        let (from, wait) = self.limits.wait_past_superseded(now, wait_at);
        let retired_ns = u128::from(from.as_nanos() - now.as_nanos());
        let wait = wait.span().map(|wait| Wait::of(Nanos::new(retired_ns.saturating_add(wait.get()))));
        decision.with_retry_after(wait.unwrap_or(Wait::NEVER))
    }
}
