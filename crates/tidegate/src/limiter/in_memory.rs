//! A limiter over the memory store. Every call returns immediately.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Charge, ChargedAt, Decision, IntoKey, LeaseToken, Nanos, TimedCost, Timestamp, Wait};

use super::call::decision_of;
use super::{GrantedUnits, Limiter, LimiterRef, Reservation, to_nanos};
use crate::memory::{Lease, MemoryStats, MemoryStore, Release, Renewal};
use crate::store::Store;
use crate::{Clock, Refused};

/// Operations over the memory store.
impl<C: Clock> Limiter<C, Arc<MemoryStore>> {
    /// Asks for `cost` units of `key`, and takes them if every limit admits them.
    ///
    /// A concurrency limit counts a check as held for the limit's ttl, and it cannot be released earlier. Use
    /// [`try_acquire`](Self::try_acquire) to release it.
    #[inline(always)]
    pub fn check(&self, key: impl IntoKey, cost: u64) -> Decision {
        self.check_at(key, cost, self.clock.now())
    }

    /// As [`check`](Self::check), at a given instant.
    #[inline(always)]
    pub fn check_at(&self, key: impl IntoKey, cost: u64, now: Timestamp) -> Decision {
        self.check_in(&self.store, key.key_bytes().as_ref(), cost, now)
    }

    /// Checks several keys at one instant. Each key is decided by itself, in order, as by [`check`](Self::check): a denied
    /// key does not affect the others. The limiter reads the clock once, and the processor loads the counters of several
    /// keys at a time, so many keys cost less together than one by one.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// let limiter = Limiter::new("1/s burst 2")?;
    /// let decisions = limiter.check_many(&["ann", "bob", "ann", "ann"], 1);
    /// let allowed: Vec<bool> = decisions.iter().map(|decision| decision.is_allowed()).collect();
    /// assert_eq!(allowed, [true, true, true, false]);
    /// # Ok::<(), tidegate::LimiterError>(())
    /// ```
    #[must_use = "unused decisions limit nothing"]
    pub fn check_many<K: IntoKey>(&self, keys: &[K], cost: u64) -> Vec<Decision> {
        self.check_many_at(keys, cost, self.clock.now())
    }

    /// As [`check_many`](Self::check_many), at a given instant.
    #[must_use = "unused decisions limit nothing"]
    pub fn check_many_at<K: IntoKey>(&self, keys: &[K], cost: u64, now: Timestamp) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(keys.len());
        match &*self.limits.counters {
            [counter] if self.limits.superseded.is_empty() => {
                let decided = |decision| decisions.push(decision);
                self.store.check_keys(counter, keys, TimedCost { now, cost }, decided);
            }
            _ => {
                let check = |key: &K| self.check_all_in(&self.store, key.key_bytes().as_ref(), cost, now);
                decisions.extend(keys.iter().map(check));
            }
        }
        decisions
    }

    /// Returns what [`check`](Self::check) would return, and changes nothing.
    pub fn peek(&self, key: impl IntoKey, cost: u64) -> Decision {
        self.peek_at(key, cost, self.clock.now())
    }

    /// As [`peek`](Self::peek), at a given instant.
    pub fn peek_at(&self, key: impl IntoKey, cost: u64, now: Timestamp) -> Decision {
        let key = key.key_bytes();
        let key = key.as_ref();
        let decision = Decision::merge(&self.store.peek(&self.plan(key, cost, now), now));
        self.with_superseded_retry_after(&self.store, decision, key, cost, now)
    }

    /// Charges as [`check`](Self::check) does, and refunds the units when the reservation is dropped without a
    /// [`commit`](Reservation::commit).
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
            false => Err(Refused::from_denied(decision)),
        }
    }

    /// Refunds `cost` units of `key` that were charged at `charged_at` and not used. Units that were charged later are
    /// not refunded. Leases are [released](Self::release) instead.
    ///
    /// A [reservation](Self::reserve) does this automatically.
    pub fn refund_at(&self, key: impl IntoKey, cost: u64, charged_at: Timestamp) {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        self.store.refund_charged_at(&self.plan(key, cost, charged_at), ChargedAt::new(charged_at), now);
        self.queue_group.wake(key, now);
    }

    /// Removes the state of `key`.
    pub fn reset(&self, key: impl IntoKey) {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        self.store.reset(&self.plan(key, 0, now));
        self.queue_group.wake(key, now);
    }

    /// Acquires as [`try_acquire`](Self::try_acquire) does and returns the lease itself, for a holder in another place.
    /// It is not released automatically before it expires. It lasts at most `ttl` (at least a millisecond), and no
    /// longer than the limits allow.
    #[must_use = "the lease is held until its ttl is over, unless it is released"]
    pub fn lease(&self, key: impl IntoKey, cost: u64, ttl: Option<Duration>) -> (Decision, Option<Lease>) {
        self.lease_at(key.key_bytes().as_ref(), cost, ttl.map(to_nanos), self.clock.now())
    }

    /// Renews a [`lease`](Self::lease) of `key`, for `ttl` from now, and no longer than its limits allow. Without a ttl,
    /// the lease keeps the one that it was acquired or last renewed with.
    pub fn renew(&self, key: impl IntoKey, token: &LeaseToken, ttl: Option<Duration>) -> Renewal {
        self.renew_by_key(key.key_bytes().as_ref(), token, ttl.map(to_nanos))
    }

    /// Releases a [`lease`](Self::lease) of `key`.
    pub fn release(&self, key: impl IntoKey, token: &LeaseToken) -> Release {
        let key = key.key_bytes();
        let (key, now) = (key.as_ref(), self.clock.now());
        let release = self.store.release(&self.plan(key, 0, now), token, now);
        if release == Release::Released {
            self.queue_group.wake(key, now);
        }
        release
    }

    /// What the store holds, and what it had to evict.
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
        let decision =
            self.with_superseded_retry_after(&self.store, decision_of(&outcomes, lease), key, cost, now);
        (decision, lease.into_lease())
    }

    pub(super) fn renew_by_key(&self, key: &[u8], token: &LeaseToken, ttl: Option<Nanos>) -> Renewal {
        let now = self.clock.now();
        self.store.renew(&self.plan(key, 0, now), token, now, ttl.or(token.ttl()))
    }
}

/// What needs the memory store and not the type of the limiter's store.
impl<C: Clock, S: Store> Limiter<C, S> {
    /// The memory store, if it has all counters.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&Arc<MemoryStore>> {
        self.store.local().filter(|_| self.store.is_local())
    }

    /// As [`check`](Self::check), over the [memory store](Self::memory).
    #[inline(always)]
    pub(crate) fn check_in(&self, memory: &MemoryStore, key: &[u8], cost: u64, now: Timestamp) -> Decision {
        match &*self.limits.counters {
            [counter] if self.limits.superseded.is_empty() => {
                memory.check_charge(&Charge::new(key, counter, cost), now)
            }
            _ => self.check_all_in(memory, key, cost, now),
        }
    }

    /// Several limits. Not inlined, to keep the code for one limit small.
    #[inline(never)]
    fn check_all_in(&self, memory: &MemoryStore, key: &[u8], cost: u64, now: Timestamp) -> Decision {
        let (outcomes, lease) = memory.check_plan(&self.plan(key, cost, now), now);
        self.with_superseded_retry_after(memory, decision_of(&outcomes, lease), key, cost, now)
    }

    /// Shortens `retry_after` of a denial if a superseded limit ends before the wait is over.
    fn with_superseded_retry_after(
        &self,
        memory: &MemoryStore,
        decision: Decision,
        key: &[u8],
        cost: u64,
        now: Timestamp,
    ) -> Decision {
        // Only a check knows what an attempt adds to a limit that counts denied requests, so leave its wait unchanged.
        let is_final = decision.is_allowed() || decision.lease_memory_full;
        if is_final || self.next_expiry(now).is_none() || self.counts_denied(now) {
            return decision;
        }
        let wait_at = |from| memory.wait(&self.plan(key, cost, from), from);
        let (from, wait) = self.limits.wait_past_superseded(now, wait_at);
        let skipped_ns = u128::from(from.as_nanos() - now.as_nanos());
        let wait = wait.span().map(|wait| Wait::of(Nanos::new(skipped_ns.saturating_add(wait.get()))));
        decision.with_retry_after(wait.unwrap_or(Wait::NEVER))
    }
}
