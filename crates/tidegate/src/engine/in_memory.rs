//! Operations of an engine over the memory store: they are done at once.

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

/// Operations over the memory store.
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
    /// Decides a request: all limits that it falls under are charged, or none is.
    ///
    /// Does not wait. A request that is over a limit with the action `delay` is denied here, with how long it would have had to
    /// wait; [`decide`](Self::decide) waits. What a concurrency limit gives to a check cannot be given back before the limit's
    /// ttl is over; [`try_acquire`](Self::try_acquire) gives it back.
    pub fn check(&self, request: &Request<'_>) -> Result<Answer, PlanFull> {
        self.check_at(request, self.inner.clock.now())
    }

    /// As [`check`](Self::check), at an instant of the caller's.
    pub fn check_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Answer, PlanFull> {
        Ok(self.decide_now(request, Op::Check, now)?.answer)
    }

    /// Answers as [`check`](Self::check) would, and changes nothing.
    pub fn peek(&self, request: &Request<'_>) -> Result<Answer, PlanFull> {
        self.peek_at(request, self.inner.clock.now())
    }

    /// As [`peek`](Self::peek), at an instant of the caller's.
    pub fn peek_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Answer, PlanFull> {
        Ok(self.decide_now(request, Op::Peek, now)?.answer)
    }

    /// Explains what [`check`](Self::check) would answer now. Nothing is charged.
    pub fn explain(&self, request: &Request<'_>) -> Result<Explanation, PlanFull> {
        self.explain_at(request, self.inner.clock.now())
    }

    /// As [`explain`](Self::explain), at an instant of the caller's.
    pub fn explain_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Explanation, PlanFull> {
        Ok(Explanation::new(request, self.peek_at(request, now)?))
    }

    /// Decides a request as [`check`](Self::check) does, and hands out the lease of what it takes from concurrency limits, of
    /// whatever action. There is none if the request does not pass, falls under no such limit, or takes nothing from it. It lasts
    /// as long as the shortest ttl of those limits, and no longer than `ttl`, of which a millisecond is the least.
    ///
    /// For a holder that is somewhere else: the lease is not given back by itself before its time is over. Rates that are charged
    /// beside stay charged when it is given back. Does not wait; [`lease`](Self::lease) does.
    pub fn try_lease(
        &self,
        request: &Request<'_>,
        ttl: Option<Nanos>,
    ) -> Result<(Answer, Option<Lease>), PlanFull> {
        let decided = self.decide_now(request, Op::Acquire { ttl }, self.inner.clock.now())?;
        Ok((decided.answer, decided.lease))
    }

    /// Decides a request as [`check`](Self::check) does, and holds what it takes from concurrency limits until the answer is
    /// dropped. Never waits; [`acquire`](Self::acquire) does.
    pub fn try_acquire(
        &self,
        request: &Request<'_>,
    ) -> Result<AdmittedRequest<C, Arc<MemoryStore>>, RequestRefused>
    where
        C: Send + Sync + 'static,
    {
        let decided = self.decide_now(request, Op::Acquire { ttl: None }, self.inner.clock.now());
        AdmittedRequest::from_output(self.clone(), RequestCopy::from_request(request), decided.map_err(EngineError::from))
    }

    /// Lets a lease last from now on as long as its limits give, and no longer than `ttl`. The request is the one that acquired
    /// it; its costs do not matter.
    ///
    /// A lease is found by the active rules, whatever they were when it was acquired: also where its limit counts in another way
    /// now. A limit that is gone holds nothing, so nothing is found.
    pub fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, PlanFull> {
        plan_full_only(expect_ready(self.change(request, Op::Renew { token: *token, ttl }, None)))
            .map(|reply| reply.lease.into())
    }

    /// Gives back what a lease holds, and lets requests that wait for it go on. The request is the one that acquired it; its costs
    /// do not matter. It is found as by [`renew`](Self::renew).
    pub fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, PlanFull> {
        plan_full_only(expect_ready(self.change(request, Op::Release { token: *token }, None)))
            .map(|reply| reply.lease.into())
    }

    /// Gives back what a request was charged and did not use. With when it was [charged](Decided::charged_at), nothing is taken from
    /// what was charged later; without it, the newest units are given back. Of an elastic limit with a pool, what is always granted
    /// gets it, even if the pool was charged.
    pub fn refund(&self, request: &Request<'_>, charged_at: Option<ChargedAt>) -> Result<(), PlanFull> {
        plan_full_only(expect_ready(self.change(request, Op::Refund { charged_at }, None))).map(drop)
    }

    /// Forgets all that the keys of a request used.
    pub fn reset(&self, request: &Request<'_>) -> Result<(), PlanFull> {
        plan_full_only(expect_ready(self.change(request, Op::Reset, None))).map(drop)
    }

    /// What the store holds and had to give up.
    pub fn stats(&self) -> MemoryStats {
        self.inner.store.stats()
    }

    fn decide_now(&self, request: &Request<'_>, op: Op, now: Timestamp) -> Result<DecideOutput, PlanFull> {
        let mut decided = DecideOutput::undecided(self.rules());
        let mut task = DecideTask::new(op, now, StageTimer::OFF);
        task.match_request(decided.answer.rules(), request, &self.inner.clock);
        match plan_full_only(task.start(&self.inner, &mut decided))? {
            None => Ok(decided),
            Some(_) => unreachable!("the memory store answers at once"),
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
