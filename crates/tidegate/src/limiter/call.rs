//! A call to a store that may answer later.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tidegate_core::{Decision, Mode, Nanos, OnStoreFailure, Op, Outcome, OutcomeKind, Plan, Timestamp};

use super::admitted::{GrantedUnits, LimiterRef};
use super::{Admitted, Limiter, Reservation};
use crate::memory::MemoryStore;
use crate::store::{Ask, Fallback, LeaseReply, Reply, Response, Store};
use crate::{Clock, Outcomes, Refused, StoreError, SystemClock};

/// A call of a [`Limiter`] over a store that may answer later. The call starts when the limiter's method is called, not
/// at the first poll.
///
/// A call that is dropped before the store has answered may have been charged. If the store had already answered, the
/// drop gives back a lease or a reservation that the caller did not take.
#[must_use = "futures do nothing unless they are polled"]
pub struct LimiterCall<'a, T, C = SystemClock, S = Arc<MemoryStore>> {
    /// None once the call is done.
    pending: Option<(LimiterRef<'a, C, S>, CallParams)>,
    response: Option<Response>,
    read_reply: ReadReply<'a, T, C, S>,
}

/// Turns the reply, or the error of the store, into the result.
type ReadReply<'a, T, C, S> = fn(LimiterRef<'a, C, S>, CallParams, Result<Reply, StoreError>) -> T;

/// What the store was asked, and when.
pub(crate) struct CallParams {
    key: Box<[u8]>,
    cost: u64,
    op: Op,
    now: Timestamp,
}

/// A decided call, with or without the shared store.
pub(crate) struct DecidedCall {
    pub decision: Decision,
    pub lease: LeaseReply,
    /// When the plan was decided, by the clock of the store that decided.
    pub at: Timestamp,
    /// The error of the shared store, if the request was denied because of it.
    pub store_error: Option<StoreError>,
    pub outcomes: Outcomes,
}

impl<'a, T, C: Clock, S: Store> LimiterCall<'a, T, C, S> {
    fn start(
        limiter: LimiterRef<'a, C, S>,
        key: &[u8],
        cost: u64,
        op: Op,
        read_reply: ReadReply<'a, T, C, S>,
    ) -> Self {
        let (response, now) = {
            let limiter = limiter.get();
            let now = limiter.clock.now();
            let plan = limiter.plan(key, cost, now);
            (limiter.store.ask(&Ask { op, plan: &plan, now, deadline: None }), now)
        };
        let params = CallParams { key: key.into(), cost, op, now };
        Self { pending: Some((limiter, params)), response: Some(response), read_reply }
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Decision, C, S> {
    pub(crate) fn check(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64) -> Self {
        let read_reply = |limiter: LimiterRef<'a, C, S>, params: CallParams, reply| {
            params.read_reply(limiter.get(), reply).decision
        };
        Self::start(limiter, key, cost, Op::Check, read_reply)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<Decision, StoreError>, C, S> {
    pub(crate) fn peek(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64) -> Self {
        let read_reply = |limiter: LimiterRef<'a, C, S>, params: CallParams, reply: Result<Reply, _>| {
            let limiter = limiter.get();
            let reply = reply.and_then(|reply| reply.require_complete(&params.ask(&params.plan(limiter))))?;
            Ok(Decision::merge(&reply.outcomes))
        };
        Self::start(limiter, key, cost, Op::Peek, read_reply)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<(), StoreError>, C, S> {
    pub(crate) fn reset(limiter: LimiterRef<'a, C, S>, key: &[u8]) -> Self {
        let read_reply = |limiter: LimiterRef<'a, C, S>, params: CallParams, reply: Result<Reply, _>| {
            reply?;
            limiter.get().wake(&params.key);
            Ok(())
        };
        Self::start(limiter, key, 0, Op::Reset, read_reply)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<LeaseReply, StoreError>, C, S> {
    /// Renews or releases a lease.
    pub(crate) fn lease(limiter: LimiterRef<'a, C, S>, key: &[u8], op: Op) -> Self {
        let read_reply = |limiter: LimiterRef<'a, C, S>, params: CallParams, reply: Result<Reply, _>| {
            let limiter = limiter.get();
            let lease = limiter.rebase_lease(reply?.lease, params.now);
            if lease == LeaseReply::Released {
                limiter.wake(&params.key);
            }
            Ok(lease)
        };
        Self::start(limiter, key, 0, op, read_reply)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, (Decision, Option<crate::Lease>), C, S> {
    pub(crate) fn raw_lease(
        limiter: LimiterRef<'a, C, S>,
        key: &[u8],
        cost: u64,
        ttl: Option<Nanos>,
    ) -> Self {
        let read_reply = |limiter: LimiterRef<'a, C, S>, params: CallParams, reply| {
            let DecidedCall { decision, lease, .. } = params.read_reply(limiter.get(), reply);
            (decision, lease.into_lease())
        };
        Self::start(limiter, key, cost, Op::Acquire { ttl }, read_reply)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<Admitted<'a, C, S>, Refused>, C, S> {
    pub(crate) fn acquire(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64, ttl: Option<Nanos>) -> Self {
        let read_reply = |limiter: LimiterRef<'a, C, S>, params: CallParams, reply| {
            let DecidedCall { decision, lease, store_error, .. } = params.read_reply(limiter.get(), reply);
            require_allowed(decision, store_error)?;
            let granted = GrantedUnits { decision, lease: lease.into_lease(), limits_at: params.now };
            let ttl = if let Op::Acquire { ttl } = params.op { ttl } else { None };
            Ok(Admitted::new(limiter, params.key, granted, ttl))
        };
        let op = limiter.get().acquire_op(ttl, limiter.get().clock.now());
        Self::start(limiter, key, cost, op, read_reply)
    }
}

impl<'a, C: Clock, S: Store> LimiterCall<'a, Result<Reservation<'a, C, S>, Refused>, C, S> {
    pub(crate) fn reserve(limiter: &'a Limiter<C, S>, key: &[u8], cost: u64) -> Self {
        let read_reply = |limiter: LimiterRef<'a, C, S>, params: CallParams, reply| {
            let DecidedCall { decision, lease, at, store_error, .. } =
                params.read_reply(limiter.get(), reply);
            require_allowed(decision, store_error)?;
            let granted = GrantedUnits { decision, lease: lease.into_lease(), limits_at: params.now };
            Ok(Reservation::new(limiter, &params.key, params.cost, granted, at))
        };
        let op = limiter.acquire_op(None, limiter.clock.now());
        Self::start(LimiterRef::Borrowed(limiter), key, cost, op, read_reply)
    }
}

fn require_allowed(decision: Decision, store_error: Option<StoreError>) -> Result<(), Refused> {
    match store_error {
        Some(failure) => Err(Refused::Store(failure)),
        None if decision.is_allowed() => Ok(()),
        None => Err(Refused::from_denied(decision)),
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
        let Some((limiter, params)) = self.pending.take() else {
            panic!("a future was polled after it was done")
        };
        Poll::Ready((self.read_reply)(limiter, params, reply))
    }
}

impl<T, C, S> Drop for LimiterCall<'_, T, C, S> {
    fn drop(&mut self) {
        // Read the reply and drop the result: its guard gives back what it holds.
        if let (Some(Response::Now(reply)), Some((limiter, params))) =
            (self.response.take(), self.pending.take())
        {
            (self.read_reply)(limiter, params, reply);
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
    ) -> DecidedCall {
        limiter.read_reply(&self.ask(&self.plan(limiter)), reply)
    }
}

impl<C: Clock, S: Store> Limiter<C, S> {
    /// The operation that takes units: `Acquire` if a limit has leases, else `Check`, which the deny cache can answer.
    pub(crate) fn acquire_op(&self, ttl: Option<Nanos>, now: Timestamp) -> Op {
        match self.has_leases(now) {
            true => Op::Acquire { ttl },
            false => Op::Check,
        }
    }

    /// Reads a reply. Without one, the store policies of the limits decide.
    pub(crate) fn read_reply(&self, ask: &Ask<'_, '_>, reply: Result<Reply, StoreError>) -> DecidedCall {
        match reply.and_then(|reply| reply.require_complete(ask)) {
            Ok(Reply { at, outcomes, lease, is_unreplicated, .. }) => {
                let mut decision = decision_of(&outcomes, lease);
                decision.unreplicated = is_unreplicated && decision.is_allowed();
                let lease = self.rebase_lease(lease, ask.now);
                DecidedCall { decision, lease, at, store_error: None, outcomes }
            }
            Err(failure) => self.decide_without_store(ask, failure),
        }
    }

    fn decide_without_store(&self, ask: &Ask<'_, '_>, failure: StoreError) -> DecidedCall {
        let (now, plan) = (self.clock.now(), ask.plan);
        let ask = Ask { now, ..*ask };
        let fallback = self.store.ask_fallback(&ask, &failure).and_then(|reply| reply.require_complete(&ask));
        let denies = |index: usize| {
            let policy = plan.charges()[index].policy;
            policy.on_store_failure == OnStoreFailure::Deny && policy.mode != Mode::Local
        };
        let (outcomes, lease) = match fallback {
            Ok(Reply { outcomes, lease, .. }) => (outcomes, lease),
            Err(_) => (plan.charges().iter().map(|_| unavailable_outcome()).collect(), LeaseReply::None),
        };
        let outcome = |(index, outcome)| if denies(index) { unavailable_outcome() } else { outcome };
        let outcomes: Outcomes = outcomes.into_iter().enumerate().map(outcome).collect();
        let is_unavailable = outcomes.iter().any(|outcome| *outcome == unavailable_outcome());
        let mut decision = decision_of(&outcomes, lease);
        decision.degraded = true;
        DecidedCall { decision, lease, at: now, store_error: is_unavailable.then_some(failure), outcomes }
    }

    fn rebase_lease(&self, lease: LeaseReply, asked_at: Timestamp) -> LeaseReply {
        if self.store.is_local() { lease } else { lease.rebased_to(asked_at) }
    }

    fn wake(&self, key: &[u8]) {
        self.queue_group.wake(key, self.clock.now());
    }
}

/// The merged outcomes, and whether a lease was refused.
pub(super) fn decision_of(outcomes: &[Outcome], lease: LeaseReply) -> Decision {
    let mut decision = Decision::merge(outcomes);
    decision.lease_memory_full = lease == LeaseReply::MemoryFull;
    decision
}

/// The outcome of a limit whose policy is to deny while the shared store does not answer.
fn unavailable_outcome() -> Outcome {
    Outcome {
        kind: OutcomeKind::Denied,
        remaining: 0,
        retry_after: Fallback::<()>::RETRY_AFTER,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
        over: 0,
    }
}

impl<T, C, S> fmt::Debug for LimiterCall<'_, T, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterCall").field("response", &self.response).finish_non_exhaustive()
    }
}
