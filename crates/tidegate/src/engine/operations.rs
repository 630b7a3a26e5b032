//! Operations of an engine over any store.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate_core::rules::{MatchedLimits, Request};
use tidegate_core::{Charge, ChargedAt, Decision, Nanos, Op, Plan, Timestamp};

use super::decide::{DecideTask, PendingDecision};
use super::stages::StageTimer;
use super::{AcquireRequestFuture, ActiveRules, DecideOutput, DecideFuture, Engine, EngineError, Explanation};
use crate::store::{Ask, Reply, Response, AsyncStore, Store};
use crate::{Clock, LeaseToken, Release, Renewal, StoreError, Timer};

/// What a limit without rules says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that is not looked at limits nothing"]
pub struct CheckedCharge {
    /// The decision.
    pub decision: Decision,
    /// Whether it was made without the shared store, because that did not answer, by this node's share of the limit.
    pub degraded: bool,
}

/// Operations over a store that may answer later. While it does not answer, each rule's `on_store_failure` says what becomes of its
/// limits, and answers are [marked](crate::rules::Answer::degraded).
impl<C, S> Engine<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: AsyncStore + 'static,
{
    /// Decides a request: all limits that it falls under are charged, or none is. Does not wait for a limit with the action
    /// `delay`; [`decide`](Self::decide) does.
    pub fn check(&self, request: &Request<'_>) -> DecideFuture {
        self.start(request, Op::Check, None)
    }

    /// Answers as [`check`](Self::check) would, and changes nothing.
    pub fn peek(&self, request: &Request<'_>) -> DecideFuture {
        self.peek_with_deadline(request, None)
    }

    /// As [`peek`](Self::peek), until a deadline by the engine's clock: that of a decision which this goes with.
    pub fn peek_with_deadline(&self, request: &Request<'_>, deadline: Option<Timestamp>) -> DecideFuture {
        self.start(request, Op::Peek, deadline)
    }

    /// As [`check`](Self::check), and holds what the request takes from concurrency limits until the answer is dropped. Never waits
    /// for a limit.
    pub fn try_acquire(&self, request: &Request<'_>) -> AcquireRequestFuture<C, S> {
        let deciding = self.start(request, Op::Acquire { ttl: None }, None);
        AcquireRequestFuture::new(self, request, deciding)
    }

    /// As [`check`](Self::check), with the lease of what the request takes from concurrency limits, for a holder that is somewhere
    /// else: it is not given back by itself before its time is over.
    pub fn try_lease(&self, request: &Request<'_>, ttl: Option<Nanos>) -> DecideFuture {
        self.start(request, Op::Acquire { ttl }, None)
    }

    /// Explains what [`check`](Self::check) would answer now. Nothing is charged.
    pub async fn explain(&self, request: &Request<'_>) -> Result<Explanation, EngineError> {
        Ok(Explanation::new(request, self.peek(request).await?.answer))
    }

    /// Lets a lease last longer that the request acquired.
    pub async fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, EngineError> {
        Ok(self.change(request, Op::Renew { token: *token, ttl }, None).await?.lease.into())
    }

    /// Gives back what a lease holds that the request acquired, and lets requests of this node that wait for it go on.
    pub async fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, EngineError> {
        Ok(self.change(request, Op::Release { token: *token }, None).await?.lease.into())
    }

    /// Gives back what a request was charged and did not use. With when it was [charged](Decided::charged_at), nothing is taken from
    /// what was charged later; without it, the newest units are given back.
    ///
    /// What a request was charged in memory, while the shared store did not answer, stays charged there.
    pub async fn refund(
        &self,
        request: &Request<'_>,
        charged_at: Option<ChargedAt>,
    ) -> Result<(), EngineError> {
        self.refund_with_deadline(request, charged_at, None).await
    }

    /// As [`refund`](Self::refund), until a deadline by the engine's clock: that of a decision which this goes with.
    pub async fn refund_with_deadline(
        &self,
        request: &Request<'_>,
        charged_at: Option<ChargedAt>,
        deadline: Option<Timestamp>,
    ) -> Result<(), EngineError> {
        self.change(request, Op::Refund { charged_at }, deadline).await.map(drop)
    }

    /// Forgets all that the keys of a request used, in the shared store and in this process.
    pub async fn reset(&self, request: &Request<'_>) -> Result<(), EngineError> {
        self.change(request, Op::Reset, None).await.map(drop)
    }
}

impl<C, S> Engine<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    /// Decides without waiting for limits.
    #[inline]
    fn start(&self, request: &Request<'_>, op: Op, deadline: Option<Timestamp>) -> DecideFuture {
        let mut decided = DecideOutput::undecided(self.rules());
        let clock = &self.inner.clock;
        let mut task = DecideTask::new(op, clock.now(), StageTimer::OFF);
        task.session.set_deadline(deadline);
        task.match_request(decided.answer.rules(), request, clock);
        match task.start(&self.inner, &mut decided) {
            Ok(None) => DecideFuture::now(decided),
            Ok(Some(unfinished)) => self.finish_later(unfinished, task, decided),
            Err(error) => DecideFuture::failed(error),
        }
    }

    #[inline(never)]
    pub(super) fn finish_later(&self, rest: PendingDecision, task: DecideTask, mut decided: DecideOutput) -> DecideFuture {
        decided.answer.rules_mut().make_owned();
        DecideFuture::later(rest.finish(task, decided, self.clone()))
    }
}

impl<C: Timer, S: Store> Engine<C, S> {
    /// As [`decide`](Self::decide), with the thread at hand.
    pub fn decide_blocking(&self, request: &Request<'_>) -> Result<DecideOutput, EngineError>
    where
        C: Send + Sync + 'static,
        S: 'static,
    {
        crate::blocking::block_on(self.decide(request))
    }
}

impl<C: Clock, S: Store> Engine<C, S> {
    /// Decides a charge that no rule is about. While a shared store does not answer, this node's share of it counts.
    pub async fn check_charge(&self, charge: &Charge<'_>, op: Op) -> CheckedCharge {
        match self.start_charge(charge, op) {
            ChargeResponse::Now(checked) => checked,
            ChargeResponse::Later(later) => {
                let reply = later.await;
                self.finish_charge(charge, op, reply)
            }
        }
    }

    /// As [`check_one`](Self::check_one), for a caller that goes on with something else while the store answers.
    #[inline]
    pub fn start_charge(&self, charge: &Charge<'_>, op: Op) -> ChargeResponse {
        let (store, now) = (&self.inner.store, self.inner.clock.now());
        if let (Some(memory), true, Op::Check) = (store.local(), store.is_local(), op) {
            return ChargeResponse::Now(CheckedCharge { decision: memory.check_one(charge, now), degraded: false });
        }
        let plan = Plan::of_one(*charge);
        match store.ask(&Ask { op, plan: &plan, now, deadline: None }) {
            Response::Now(reply) => ChargeResponse::Now(self.finish_charge(charge, op, reply)),
            Response::Later(later) => ChargeResponse::Later(later),
        }
    }

    /// What a reply means for the charge that the store was asked about.
    pub fn finish_charge(&self, charge: &Charge<'_>, op: Op, reply: Result<Reply, StoreError>) -> CheckedCharge {
        let plan = Plan::of_one(*charge);
        let ask = Ask { op, plan: &plan, now: self.inner.clock.now(), deadline: None };
        match reply.and_then(|reply| reply.require_complete(&ask)) {
            Ok(reply) => CheckedCharge { decision: Decision::merge(&reply.outcomes), degraded: false },
            Err(failure) => {
                let reply = self.inner.store.ask_fallback(&ask, &failure);
                let outcomes = reply.map(|reply| reply.outcomes).unwrap_or_default();
                CheckedCharge { decision: Decision::merge(&outcomes), degraded: true }
            }
        }
    }

    /// Does something else to the counters of a request than deciding it, and wakes requests that wait for units that came back.
    pub(super) async fn change(
        &self,
        request: &Request<'_>,
        op: Op,
        deadline: Option<Timestamp>,
    ) -> Result<Reply, EngineError> {
        self.start_change(request, op, deadline)?.finish(self).await
    }

    /// Starts what [`change`](Self::change) does.
    pub(super) fn start_change(
        &self,
        request: &Request<'_>,
        op: Op,
        deadline: Option<Timestamp>,
    ) -> Result<PendingChange, EngineError> {
        let inner = &*self.inner;
        let rules = self.rules();
        let matched = rules.matched_limits(request);
        let now = inner.clock.now();
        let response = {
            let plan = match op {
                Op::Renew { .. } | Op::Release { .. } => matched.lease_plan(&rules)?,
                _ => matched.plan(&rules, now)?.plan,
            };
            match plan.charges().is_empty() {
                true => Response::Now(Ok(Reply::empty(now))),
                false => inner.store.ask(&Ask { op, plan: &plan, now, deadline }),
            }
        };
        let rules = if let Response::Later(_) = response { rules.into_owned() } else { rules };
        Ok(PendingChange { rules, matched, op, asked_at: now, response })
    }
}

/// A change to the counters of a request, under way.
pub(super) struct PendingChange {
    rules: ActiveRules,
    matched: MatchedLimits,
    op: Op,
    asked_at: Timestamp,
    response: Response,
}

impl PendingChange {
    /// Whether the store has answered.
    pub fn is_done(&self) -> bool {
        matches!(self.response, Response::Now(_))
    }

    /// Waits for the store, and wakes requests that wait for units that came back.
    pub async fn finish<C: Clock, S: Store>(self, engine: &Engine<C, S>) -> Result<Reply, EngineError> {
        let Self { rules, matched, op, asked_at: asked, response } = self;
        let inner = &*engine.inner;
        let mut reply = response.reply().await?;
        if !inner.store.is_local() {
            reply.lease = reply.lease.rebased_to(asked);
        }
        let wakes = match op {
            Op::Release { .. } => Release::from(reply.lease) == Release::Released,
            Op::Refund { .. } | Op::Reset => true,
            _ => false,
        };
        if wakes {
            inner.wake_waiters(&matched, &rules);
        }
        Ok(reply)
    }
}

/// A charge that is decided at once, or later.
pub enum ChargeResponse {
    /// What the limit says.
    Now(CheckedCharge),
    /// The store answers later: see [`Engine::finish_one`].
    Later(crate::store::ReplyFuture),
}

impl std::fmt::Debug for ChargeResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(checked) => f.debug_tuple("Now").field(checked).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// What a future comes to that has nothing to wait for.
pub(super) fn expect_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the memory store answers at once"),
    }
}
