//! Calls of an engine over the memory store. They return immediately.

use std::sync::Arc;

use tidegate_core::rules::Request;
use tidegate_core::{ChargedAt, Nanos, Op, PlanFull, Timestamp};

use super::admitted::RequestCopy;
use super::decide::DecideTask;
use super::operations::expect_ready;
use super::stages::StageTimer;
use super::{AdmittedRequest, Answer, DecideOutput, Engine, EngineError, Explanation, RequestRefused};
use crate::memory::{MemoryStats, MemoryStore};
use crate::{Clock, Lease, LeaseToken, Release, Renewal};

/// Calls over the memory store.
///
/// ```
/// use tidegate::Engine;
/// use tidegate::rules::{self, Descriptor, Entry, Request};
///
/// let file = "
/// domain: api
/// rules:
///   - name: reports
///     key: [tenant]
///     limits:
///       - { algorithm: concurrency, limit: 1, ttl: 5m }
///       - 100 per hour
/// ";
/// let engine = Engine::new(rules::parse("api.yaml", file)?.domains)?;
/// let entries = [Entry { key: "tenant", value: "7" }];
/// let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
///
/// let slot = engine.try_acquire(&request)?;
/// assert!(engine.try_acquire(&request).is_err());
/// drop(slot);
/// assert!(engine.try_acquire(&request).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<C: Clock> Engine<C, Arc<MemoryStore>> {
    /// Decides a request: either all limits that apply are charged, or none is.
    ///
    /// Does not wait. A request over a limit with the action `delay` is denied, and the answer says how long it would
    /// have had to wait. [`decide`](Self::decide) waits. A concurrency limit counts a check as held for the limit's
    /// ttl, and it cannot be released earlier. Use [`try_acquire`](Self::try_acquire) to release it.
    pub fn check(&self, request: &Request<'_>) -> Result<Answer, PlanFull> {
        self.check_at(request, self.inner.clock.now())
    }

    /// As [`check`](Self::check), at a given instant.
    pub fn check_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Answer, PlanFull> {
        Ok(self.decide_now(request, Op::Check, now)?.answer)
    }

    /// Returns what [`check`](Self::check) would answer, and changes nothing.
    pub fn peek(&self, request: &Request<'_>) -> Result<Answer, PlanFull> {
        self.peek_at(request, self.inner.clock.now())
    }

    /// As [`peek`](Self::peek), at a given instant.
    pub fn peek_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Answer, PlanFull> {
        Ok(self.decide_now(request, Op::Peek, now)?.answer)
    }

    /// Explains what [`check`](Self::check) would answer now. Nothing is charged.
    pub fn explain(&self, request: &Request<'_>) -> Result<Explanation, PlanFull> {
        self.explain_at(request, self.inner.clock.now())
    }

    /// As [`explain`](Self::explain), at a given instant.
    pub fn explain_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Explanation, PlanFull> {
        Ok(Explanation::new(request, self.peek_at(request, now)?, &self.inner.store))
    }

    /// Decides a request as [`check`](Self::check) does, and returns the lease of its concurrency limits, whatever
    /// their actions are. There is no lease if the request does not pass, if no concurrency limit applies, or if its
    /// cost there is zero. It lasts for the shortest ttl of those limits, and at most for `ttl` (at least a
    /// millisecond).
    ///
    /// The lease is for a holder in another place: it is not released automatically before it expires. Charges to rates
    /// are kept when it is released. Does not wait. [`lease`](Self::lease) does.
    pub fn try_lease(
        &self,
        request: &Request<'_>,
        ttl: Option<Nanos>,
    ) -> Result<(Answer, Option<Lease>), PlanFull> {
        let decided = self.decide_now(request, Op::Acquire { ttl }, self.inner.clock.now())?;
        Ok((decided.answer, decided.lease))
    }

    /// Decides a request as [`check`](Self::check) does. The returned guard holds the leases of concurrency limits
    /// until it is dropped. Never waits. [`acquire`](Self::acquire) does.
    pub fn try_acquire(
        &self,
        request: &Request<'_>,
    ) -> Result<AdmittedRequest<C, Arc<MemoryStore>>, RequestRefused>
    where
        C: Send + Sync + 'static,
    {
        let decided = self.decide_now(request, Op::Acquire { ttl: None }, self.inner.clock.now());
        AdmittedRequest::from_output(
            self.clone(),
            RequestCopy::from_request(request),
            decided.map_err(EngineError::from),
        )
    }

    /// Renews a lease, for `ttl` from now, and no longer than its limits allow. Without a ttl, the lease keeps the one
    /// that it was acquired or last renewed with. The request must be the one that acquired the lease. Its costs do not
    /// matter.
    ///
    /// The lease is found by the active rules, even if they have changed since it was acquired, and even if its limit
    /// now counts differently. A lease of a limit that was removed is not found.
    pub fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, PlanFull> {
        plan_full_only(expect_ready(self.change(request, Op::renew(*token, ttl), None)))
            .map(|reply| reply.lease.into())
    }

    /// Releases a lease, and wakes requests that wait for it. The request must be the one that acquired the lease. Its
    /// costs do not matter. The lease is found as by [`renew`](Self::renew).
    pub fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, PlanFull> {
        plan_full_only(expect_ready(self.change(request, Op::Release { token: *token }, None)))
            .map(|reply| reply.lease.into())
    }

    /// Refunds units that a request was charged and did not use. With the time of the
    /// [charge](DecideOutput::charged_at), later charges are not affected. Without it, the newest units are refunded.
    /// For an elastic limit with a pool, the refund goes to the units that are always granted, even if the pool was
    /// charged.
    pub fn refund(&self, request: &Request<'_>, charged_at: Option<ChargedAt>) -> Result<(), PlanFull> {
        plan_full_only(expect_ready(self.change(request, Op::Refund { charged_at }, None))).map(drop)
    }

    /// Removes the state of the request's keys.
    pub fn reset(&self, request: &Request<'_>) -> Result<(), PlanFull> {
        plan_full_only(expect_ready(self.change(request, Op::Reset, None))).map(drop)
    }

    /// What the store holds, and what it had to evict.
    pub fn stats(&self) -> MemoryStats {
        self.inner.store.stats()
    }

    fn decide_now(&self, request: &Request<'_>, op: Op, now: Timestamp) -> Result<DecideOutput, PlanFull> {
        let mut decided = DecideOutput::undecided(self.rules());
        let mut task = DecideTask::new(op, now, StageTimer::OFF);
        task.match_request(&self.inner, decided.answer.rules(), request);
        if task.apply_overrides(&self.inner, decided.answer.rules(), request).is_some() {
            // They are loaded for later requests. This call does not wait.
            task.apply_loaded_overrides(&self.inner, decided.answer.rules(), request);
        }
        match plan_full_only(task.start(&self.inner, &mut decided))? {
            None => Ok(decided),
            Some(_) => unreachable!("the memory store answers immediately"),
        }
    }
}

/// The memory store never fails.
fn plan_full_only<T>(result: Result<T, EngineError>) -> Result<T, PlanFull> {
    result.map_err(|error| match error {
        EngineError::PlanFull => PlanFull,
        EngineError::Store(failure) => unreachable!("the memory store does not fail: {failure}"),
    })
}
