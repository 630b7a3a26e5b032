//! An operation over a store that may answer later.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tidegate_core::{Decision, Mode, Nanos, OnStoreFailure, Op, Outcome, Plan, Timestamp, OutcomeKind};

use super::admitted::{GrantedUnits, LimiterRef};
use super::{Admitted, Limiter, Reservation};
use crate::memory::MemoryStore;
use crate::store::{Ask, Fallback, LeaseReply, Reply, Response, Store};
use crate::{Clock, Outcomes, Refused, StoreError, SystemClock};

/// An operation of a [`Limiter`] over a store that may answer later. It started when the limiter was called.
///
/// A call that is dropped before the store has answered may have been charged. If the store answered at once, a lease or a reservation
/// that the caller did not take is given back.
#[must_use = "futures do nothing unless they are polled"]
pub struct LimiterCall<'a, T, C = SystemClock, S = Arc<MemoryStore>> {
    /// Taken when it is done.
    pending: Option<(LimiterRef<'a, C, S>, CallParams)>,
    response: Option<Response>,
    read_reply: ReadReply<'a, T, C, S>,
}

/// What a reply, or its lack, comes to.
type ReadReply<'a, T, C, S> = fn(LimiterRef<'a, C, S>, CallParams, Result<Reply, StoreError>) -> T;

/// What was asked, and when.
pub(super) struct CallParams {
    key: Box<[u8]>,
    cost: u64,
    op: Op,
    now: Timestamp,
}

/// A plan that was decided, with or without the shared store.
pub(super) struct CallResult {
    pub decision: Decision,
    pub lease: LeaseReply,
    /// When it was decided, by the clock of the store that decided.
    pub at: Timestamp,
    /// Why it was denied, if it was denied because the shared store did not answer.
    pub store_error: Option<StoreError>,
    pub outcomes: Outcomes,
}

impl<'a, T, C: Clock, S: Store> LimiterCall<'a, T, C, S> {
    fn start(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64, op: Op, read: ReadReply<'a, T, C, S>) -> Self {
        let (response, now) = {
            let limiter = limiter.get();
            let now = limiter.clock.now();
            let plan = limiter.plan(key, cost, now);
            (limiter.store.ask(&Ask { op, plan: &plan, now, deadline: None }), now)
        };
        let asked = CallParams { key: key.into(), cost, op, now };
        Self { pending: Some((limiter, asked)), response: Some(response), read_reply: read }
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Decision, C, S> {
    pub(super) fn check(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: CallParams, reply| {
            asked.read_reply(limiter.get(), reply).decision
        };
        Self::start(limiter, key, cost, Op::Check, read)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<Decision, StoreError>, C, S> {
    pub(super) fn peek(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: CallParams, reply: Result<Reply, _>| {
            let limiter = limiter.get();
            let reply = reply.and_then(|reply| reply.require_complete(&asked.ask(&asked.plan(limiter))))?;
            Ok(Decision::merge(&reply.outcomes))
        };
        Self::start(limiter, key, cost, Op::Peek, read)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<(), StoreError>, C, S> {
    pub(super) fn reset(limiter: LimiterRef<'a, C, S>, key: &[u8]) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: CallParams, reply: Result<Reply, _>| {
            reply?;
            limiter.get().wake(&asked.key);
            Ok(())
        };
        Self::start(limiter, key, 0, Op::Reset, read)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<LeaseReply, StoreError>, C, S> {
    /// Renews or releases a lease.
    pub(crate) fn lease(limiter: LimiterRef<'a, C, S>, key: &[u8], op: Op) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: CallParams, reply: Result<Reply, _>| {
            let limiter = limiter.get();
            let lease = limiter.rebase_lease(reply?.lease, asked.now);
            if lease == LeaseReply::Released {
                limiter.wake(&asked.key);
            }
            Ok(lease)
        };
        Self::start(limiter, key, 0, op, read)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, (Decision, Option<crate::Lease>), C, S> {
    pub(super) fn raw_lease(
        limiter: LimiterRef<'a, C, S>,
        key: &[u8],
        cost: u64,
        ttl: Option<Nanos>,
    ) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: CallParams, reply| {
            let CallResult { decision, lease, .. } = asked.read_reply(limiter.get(), reply);
            (decision, lease.into_lease())
        };
        Self::start(limiter, key, cost, Op::Acquire { ttl }, read)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<Admitted<'a, C, S>, Refused>, C, S> {
    pub(crate) fn acquire(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64, ttl: Option<Nanos>) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: CallParams, reply| {
            let CallResult { decision, lease, store_error: unavailable, .. } = asked.read_reply(limiter.get(), reply);
            require_allowed(decision, unavailable)?;
            let granted = GrantedUnits { decision, lease: lease.into_lease(), limits_at: asked.now };
            let ttl = if let Op::Acquire { ttl } = asked.op { ttl } else { None };
            Ok(Admitted::new(limiter, asked.key, granted, ttl))
        };
        let op = limiter.get().acquire_op(ttl, limiter.get().clock.now());
        Self::start(limiter, key, cost, op, read)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<Reservation<'a, C, S>, Refused>, C, S> {
    pub(super) fn reserve(limiter: &'a Limiter<C, S>, key: &[u8], cost: u64) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: CallParams, reply| {
            let CallResult { decision, lease, at, store_error: unavailable, .. } = asked.read_reply(limiter.get(), reply);
            require_allowed(decision, unavailable)?;
            let granted = GrantedUnits { decision, lease: lease.into_lease(), limits_at: asked.now };
            Ok(Reservation::new(limiter, &asked.key, asked.cost, granted, at))
        };
        let op = limiter.acquire_op(None, limiter.clock.now());
        Self::start(LimiterRef::Borrowed(limiter), key, cost, op, read)
    }
}

fn require_allowed(decision: Decision, unavailable: Option<StoreError>) -> Result<(), Refused> {
    match unavailable {
        Some(failure) => Err(Refused::Store(failure)),
        None if decision.is_allowed() => Ok(()),
        None => Err(Refused::OverLimit(decision)),
    }
}

impl<T, C, S> Future for LimiterCall<'_, T, C, S> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let reply = match &mut self.response {
            Some(Response::Later(later)) => ready!(later.as_mut().poll(context)),
            _ => match self.response.take() {
                Some(Response::Now(reply)) => reply,
                _ => panic!("a future was polled after it was done"),
            },
        };
        self.response = None;
        let Some((limiter, asked)) = self.pending.take() else {
            panic!("a future was polled after it was done")
        };
        Poll::Ready((self.read_reply)(limiter, asked, reply))
    }
}

impl<T, C, S> Drop for LimiterCall<'_, T, C, S> {
    fn drop(&mut self) {
        // The result is dropped, and a guard gives back what it holds.
        if let (Some(Response::Now(reply)), Some((limiter, asked))) =
            (self.response.take(), self.pending.take())
        {
            (self.read_reply)(limiter, asked, reply);
        }
    }
}

impl CallParams {
    fn plan<'p, C: Clock, S: Store>(&'p self, limiter: &'p Limiter<C, S>) -> Plan<'p> {
        limiter.plan(&self.key, self.cost, self.now)
    }

    fn ask<'b, 'p>(&self, plan: &'b Plan<'p>) -> Ask<'b, 'p> {
        Ask { op: self.op, plan, now: self.now, deadline: None }
    }

    fn read_reply<C: Clock, S: Store>(
        &self,
        limiter: &Limiter<C, S>,
        reply: Result<Reply, StoreError>,
    ) -> CallResult {
        limiter.read_reply(&self.ask(&self.plan(limiter)), reply)
    }
}

impl<C: Clock, S: Store> Limiter<C, S> {
    /// The operation that takes units: an acquisition if a limit has leases, else a check, which the deny cache may answer.
    pub(super) fn acquire_op(&self, ttl: Option<Nanos>, now: Timestamp) -> Op {
        match self.has_leases(now) {
            true => Op::Acquire { ttl },
            false => Op::Check,
        }
    }

    /// What a reply means; without one, what the limits' policies say.
    pub(super) fn read_reply(&self, ask: &Ask<'_, '_>, reply: Result<Reply, StoreError>) -> CallResult {
        match reply.and_then(|reply| reply.require_complete(ask)) {
            Ok(Reply { at, outcomes, lease, .. }) => CallResult {
                decision: Decision::merge(&outcomes),
                lease: self.rebase_lease(lease, ask.now),
                at,
                store_error: None,
                outcomes,
            },
            Err(failure) => self.decide_without_store(ask, failure),
        }
    }

    fn decide_without_store(&self, ask: &Ask<'_, '_>, failure: StoreError) -> CallResult {
        let (now, plan) = (self.clock.now(), ask.plan);
        let ask = Ask { now, ..*ask };
        let without = self.store.ask_fallback(&ask, &failure).and_then(|reply| reply.require_complete(&ask));
        let denies = |index: usize| {
            let policy = plan.charges()[index].policy;
            policy.on_store_failure == OnStoreFailure::Deny && policy.mode != Mode::Local
        };
        let (outcomes, lease) = match without {
            Ok(Reply { outcomes, lease, .. }) => (outcomes, lease),
            Err(_) => (plan.charges().iter().map(|_| unavailable_outcome()).collect(), LeaseReply::None),
        };
        let outcome = |(index, outcome)| if denies(index) { unavailable_outcome() } else { outcome };
        let outcomes: Outcomes = outcomes.into_iter().enumerate().map(outcome).collect();
        let is_unavailable = outcomes.iter().any(|outcome| *outcome == unavailable_outcome());
        let mut decision = Decision::merge(&outcomes);
        decision.degraded = true;
        CallResult { decision, lease, at: now, store_error: is_unavailable.then_some(failure), outcomes }
    }

    fn rebase_lease(&self, lease: LeaseReply, asked: Timestamp) -> LeaseReply {
        if self.store.is_local() { lease } else { lease.rebased_to(asked) }
    }

    fn wake(&self, key: &[u8]) {
        self.queue_group.wake(key, self.clock.now());
    }
}

/// The outcome of a limit that denies what the shared store does not answer for.
fn unavailable_outcome() -> Outcome {
    Outcome {
        kind: OutcomeKind::Denied,
        remaining: 0,
        retry_after: Fallback::<()>::RETRY_AFTER,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
    }
}

impl<T, C, S> fmt::Debug for LimiterCall<'_, T, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("response", &self.response).finish_non_exhaustive()
    }
}
