//! An operation over a store that may answer later.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tidegate_core::{Decision, Mode, Nanos, OnStoreFailure, Op, Outcome, Plan, Timestamp, Verdict};

use super::admitted::{Granted, LimiterRef};
use super::{Admitted, Limiter, Reservation};
use crate::memory::MemoryStore;
use crate::store::{Ask, Fallback, LeaseReply, Reply, Response, Store};
use crate::{Clock, Outcomes, Refused, StoreFailure, SystemClock};

/// An operation of a [`Limiter`] over a store that may answer later. It started when the limiter was called.
///
/// A call that is dropped before the store has answered may have been charged. If the store answered at once, a lease or a reservation
/// that the caller did not take is given back.
#[must_use = "futures do nothing unless they are polled"]
pub struct Asking<'a, T, C = SystemClock, S = Arc<MemoryStore>> {
    /// Taken when it is done.
    asked: Option<(LimiterRef<'a, C, S>, Asked)>,
    response: Option<Response>,
    read: Read<'a, T, C, S>,
}

/// What a reply, or its lack, comes to.
type Read<'a, T, C, S> = fn(LimiterRef<'a, C, S>, Asked, Result<Reply, StoreFailure>) -> T;

/// What was asked, and when.
pub(super) struct Asked {
    key: Box<[u8]>,
    cost: u64,
    op: Op,
    now: Timestamp,
}

/// A plan that was decided, with or without the shared store.
pub(super) struct Concluded {
    pub decision: Decision,
    pub lease: LeaseReply,
    /// When it was decided, by the clock of the store that decided.
    pub at: Timestamp,
    /// Why it was denied, if it was denied because the shared store did not answer.
    pub unavailable: Option<StoreFailure>,
    pub outcomes: Outcomes,
}

impl<'a, T, C: Clock, S: Store> Asking<'a, T, C, S> {
    fn start(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64, op: Op, read: Read<'a, T, C, S>) -> Self {
        let (response, now) = {
            let limiter = limiter.get();
            let now = limiter.clock.now();
            let plan = limiter.plan(key, cost, now);
            (limiter.store.ask(&Ask { op, plan: &plan, now, deadline: None }), now)
        };
        let asked = Asked { key: key.into(), cost, op, now };
        Self { asked: Some((limiter, asked)), response: Some(response), read }
    }
}

impl<'a, C: Clock, S: Store> Asking<'a, Decision, C, S> {
    pub(super) fn check(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: Asked, reply| {
            asked.conclude(limiter.get(), reply).decision
        };
        Self::start(limiter, key, cost, Op::Check, read)
    }
}

impl<'a, C: Clock, S: Store> Asking<'a, Result<Decision, StoreFailure>, C, S> {
    pub(super) fn peek(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: Asked, reply: Result<Reply, _>| {
            let limiter = limiter.get();
            let reply = reply.and_then(|reply| reply.checked(&asked.ask(&asked.plan(limiter))))?;
            Ok(Decision::merge(&reply.outcomes))
        };
        Self::start(limiter, key, cost, Op::Peek, read)
    }
}

impl<'a, C: Clock, S: Store> Asking<'a, Result<(), StoreFailure>, C, S> {
    pub(super) fn reset(limiter: LimiterRef<'a, C, S>, key: &[u8]) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: Asked, reply: Result<Reply, _>| {
            reply?;
            limiter.get().wake(&asked.key);
            Ok(())
        };
        Self::start(limiter, key, 0, Op::Reset, read)
    }
}

impl<'a, C: Clock, S: Store> Asking<'a, Result<LeaseReply, StoreFailure>, C, S> {
    /// Renews or releases a lease.
    pub(crate) fn lease(limiter: LimiterRef<'a, C, S>, key: &[u8], op: Op) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: Asked, reply: Result<Reply, _>| {
            let limiter = limiter.get();
            let lease = limiter.lease_by_own_clock(reply?.lease, asked.now);
            if lease == LeaseReply::Released {
                limiter.wake(&asked.key);
            }
            Ok(lease)
        };
        Self::start(limiter, key, 0, op, read)
    }
}

impl<'a, C: Clock, S: Store> Asking<'a, (Decision, Option<crate::Lease>), C, S> {
    pub(super) fn raw_lease(
        limiter: LimiterRef<'a, C, S>,
        key: &[u8],
        cost: u64,
        ttl: Option<Nanos>,
    ) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: Asked, reply| {
            let Concluded { decision, lease, .. } = asked.conclude(limiter.get(), reply);
            (decision, lease.held())
        };
        Self::start(limiter, key, cost, Op::Acquire { ttl }, read)
    }
}

impl<'a, C: Clock, S: Store> Asking<'a, Result<Admitted<'a, C, S>, Refused>, C, S> {
    pub(crate) fn acquire(limiter: LimiterRef<'a, C, S>, key: &[u8], cost: u64, ttl: Option<Nanos>) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: Asked, reply| {
            let Concluded { decision, lease, unavailable, .. } = asked.conclude(limiter.get(), reply);
            refused(decision, unavailable)?;
            let granted = Granted { decision, lease: lease.held(), at: asked.now };
            let ttl = if let Op::Acquire { ttl } = asked.op { ttl } else { None };
            Ok(Admitted::new(limiter, asked.key, granted, ttl))
        };
        let op = limiter.get().op_that_takes(ttl, limiter.get().clock.now());
        Self::start(limiter, key, cost, op, read)
    }
}

impl<'a, C: Clock, S: Store> Asking<'a, Result<Reservation<'a, C, S>, Refused>, C, S> {
    pub(super) fn reserve(limiter: &'a Limiter<C, S>, key: &[u8], cost: u64) -> Self {
        let read = |limiter: LimiterRef<'a, C, S>, asked: Asked, reply| {
            let Concluded { decision, lease, at, unavailable, .. } = asked.conclude(limiter.get(), reply);
            refused(decision, unavailable)?;
            let granted = Granted { decision, lease: lease.held(), at: asked.now };
            Ok(Reservation::new(limiter, &asked.key, asked.cost, granted, at))
        };
        let op = limiter.op_that_takes(None, limiter.clock.now());
        Self::start(LimiterRef::Borrowed(limiter), key, cost, op, read)
    }
}

fn refused(decision: Decision, unavailable: Option<StoreFailure>) -> Result<(), Refused> {
    match unavailable {
        Some(failure) => Err(Refused::Store(failure)),
        None if decision.is_allowed() => Ok(()),
        None => Err(Refused::OverLimit(decision)),
    }
}

impl<T, C, S> Future for Asking<'_, T, C, S> {
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
        let Some((limiter, asked)) = self.asked.take() else {
            panic!("a future was polled after it was done")
        };
        Poll::Ready((self.read)(limiter, asked, reply))
    }
}

impl<T, C, S> Drop for Asking<'_, T, C, S> {
    fn drop(&mut self) {
        // The result is dropped, and a guard gives back what it holds.
        if let (Some(Response::Now(reply)), Some((limiter, asked))) =
            (self.response.take(), self.asked.take())
        {
            (self.read)(limiter, asked, reply);
        }
    }
}

impl Asked {
    fn plan<'p, C: Clock, S: Store>(&'p self, limiter: &'p Limiter<C, S>) -> Plan<'p> {
        limiter.plan(&self.key, self.cost, self.now)
    }

    fn ask<'b, 'p>(&self, plan: &'b Plan<'p>) -> Ask<'b, 'p> {
        Ask { op: self.op, plan, now: self.now, deadline: None }
    }

    fn conclude<C: Clock, S: Store>(
        &self,
        limiter: &Limiter<C, S>,
        reply: Result<Reply, StoreFailure>,
    ) -> Concluded {
        limiter.conclude(&self.ask(&self.plan(limiter)), reply)
    }
}

impl<C: Clock, S: Store> Limiter<C, S> {
    /// The operation that takes units: an acquisition if a limit has leases, else a check, which the deny cache may answer.
    pub(super) fn op_that_takes(&self, ttl: Option<Nanos>, now: Timestamp) -> Op {
        match self.has_leases(now) {
            true => Op::Acquire { ttl },
            false => Op::Check,
        }
    }

    /// What a reply means; without one, what the limits' policies say.
    pub(super) fn conclude(&self, ask: &Ask<'_, '_>, reply: Result<Reply, StoreFailure>) -> Concluded {
        match reply.and_then(|reply| reply.checked(ask)) {
            Ok(Reply { at, outcomes, lease, .. }) => Concluded {
                decision: Decision::merge(&outcomes),
                lease: self.lease_by_own_clock(lease, ask.now),
                at,
                unavailable: None,
                outcomes,
            },
            Err(failure) => self.conclude_without(ask, failure),
        }
    }

    fn conclude_without(&self, ask: &Ask<'_, '_>, failure: StoreFailure) -> Concluded {
        let (now, plan) = (self.clock.now(), ask.plan);
        let ask = Ask { now, ..*ask };
        let without = self.store.ask_without(&ask, &failure).and_then(|reply| reply.checked(&ask));
        let denies = |index: usize| {
            let policy = plan.charges()[index].policy;
            policy.on_store_failure == OnStoreFailure::Deny && policy.mode != Mode::Local
        };
        let (outcomes, lease) = match without {
            Ok(Reply { outcomes, lease, .. }) => (outcomes, lease),
            Err(_) => (plan.charges().iter().map(|_| unavailable()).collect(), LeaseReply::None),
        };
        let outcome = |(index, outcome)| if denies(index) { unavailable() } else { outcome };
        let outcomes: Outcomes = outcomes.into_iter().enumerate().map(outcome).collect();
        let is_unavailable = outcomes.iter().any(|outcome| *outcome == unavailable());
        let mut decision = Decision::merge(&outcomes);
        decision.degraded = true;
        Concluded { decision, lease, at: now, unavailable: is_unavailable.then_some(failure), outcomes }
    }

    fn lease_by_own_clock(&self, lease: LeaseReply, asked: Timestamp) -> LeaseReply {
        if self.store.is_local() { lease } else { lease.by_clock_of(asked) }
    }

    fn wake(&self, key: &[u8]) {
        self.queue_group.wake(key, self.clock.now());
    }
}

/// The outcome of a limit that denies what the shared store does not answer for.
fn unavailable() -> Outcome {
    Outcome {
        verdict: Verdict::Denied,
        remaining: 0,
        retry_after: Fallback::<()>::RETRY_AFTER,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
    }
}

impl<T, C, S> fmt::Debug for Asking<'_, T, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("response", &self.response).finish_non_exhaustive()
    }
}
