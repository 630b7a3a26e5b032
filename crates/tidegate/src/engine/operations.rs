//! Calls of an engine over any store.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::rules::{MatchedLimits, OnOverrideMiss, Request};
use tidegate_core::{Charge, ChargedAt, Decision, Nanos, Op, Plan, Timestamp};

use super::admitted::RequestCopy;
use super::decide::{DecideTask, PendingDecision};
use super::stages::StageTimer;
use super::{
    AcquireRequestFuture, ActiveRules, DecideFuture, DecideOutput, Engine, EngineError, Explanation,
};
use crate::blocking::block_on;
use crate::overrides::LoadWait;
use crate::store::{Ask, AsyncStore, Reply, ReplyFuture, Response, Store};
use crate::{Clock, LeaseToken, Release, Renewal, StoreError, Timer};

/// How long a reset waits for the overrides of its keys.
const RESET_LOAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The decision for a charge without rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an ignored decision limits nothing"]
pub struct CheckedCharge {
    /// The decision.
    pub decision: Decision,
    /// Whether this node decided by its share of the limit, because the shared store did not answer.
    pub degraded: bool,
    /// Whether it is degraded because the key holds something else than a counter.
    pub unreadable_key: bool,
}

/// Calls over a store that may answer later. While it does not answer, the `on_store_failure` of each rule decides for
/// its limits, and answers are [marked as degraded](crate::rules::Answer::degraded).
impl<C, S> Engine<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: AsyncStore + 'static,
{
    /// Decides a request: either all limits that apply are charged, or none is. Does not wait for limits with the
    /// action `delay`. [`decide`](Self::decide) does.
    pub fn check(&self, request: &Request<'_>) -> DecideFuture {
        self.start(request, Op::Check, None)
    }

    /// Returns what [`check`](Self::check) would answer, and changes nothing.
    pub fn peek(&self, request: &Request<'_>) -> DecideFuture {
        self.peek_with_deadline(request, None)
    }

    /// As [`peek`](Self::peek), with a deadline by the engine's clock, for a peek that is part of another decision.
    pub fn peek_with_deadline(&self, request: &Request<'_>, deadline: Option<Timestamp>) -> DecideFuture {
        self.start(request, Op::Peek, deadline)
    }

    /// As [`check`](Self::check). The returned guard holds the leases of concurrency limits until it is dropped. Never
    /// waits for a limit.
    pub fn try_acquire(&self, request: &Request<'_>) -> AcquireRequestFuture<C, S> {
        let deciding = self.start(request, Op::Acquire { ttl: None }, None);
        AcquireRequestFuture::new(self, request, deciding)
    }

    /// As [`check`](Self::check), and returns the lease of concurrency limits itself, for a holder in another place. It
    /// is not released automatically before it expires.
    pub fn try_lease(&self, request: &Request<'_>, ttl: Option<Nanos>) -> DecideFuture {
        self.start(request, Op::Acquire { ttl }, None)
    }

    /// Explains what [`check`](Self::check) would answer now. Nothing is charged.
    pub async fn explain(&self, request: &Request<'_>) -> Result<Explanation, EngineError> {
        let answer = self.peek(request).await?.answer;
        Ok(Explanation::new(request, answer, &self.inner.store))
    }

    /// Renews a lease that the request acquired. Without a ttl, the lease keeps its own.
    pub async fn renew(
        &self,
        request: &Request<'_>,
        token: &LeaseToken,
        ttl: Option<Nanos>,
    ) -> Result<Renewal, EngineError> {
        Ok(self.change(request, Op::renew(*token, ttl), None).await?.lease.into())
    }

    /// Releases a lease that the request acquired, and wakes requests of this node that wait for it.
    pub async fn release(&self, request: &Request<'_>, token: &LeaseToken) -> Result<Release, EngineError> {
        Ok(self.change(request, Op::Release { token: *token }, None).await?.lease.into())
    }

    /// Refunds units that a request was charged and did not use. With the time of the
    /// [charge](DecideOutput::charged_at), later charges are not affected. Without it, the newest units are refunded.
    ///
    /// Units that were charged in memory while the shared store did not answer stay charged there.
    pub async fn refund(
        &self,
        request: &Request<'_>,
        charged_at: Option<ChargedAt>,
    ) -> Result<(), EngineError> {
        self.refund_with_deadline(request, charged_at, None).await
    }

    /// As [`refund`](Self::refund), with a deadline by the engine's clock, for a refund that is part of another
    /// decision.
    pub async fn refund_with_deadline(
        &self,
        request: &Request<'_>,
        charged_at: Option<ChargedAt>,
        deadline: Option<Timestamp>,
    ) -> Result<(), EngineError> {
        self.change(request, Op::Refund { charged_at }, deadline).await.map(drop)
    }

    /// Removes the state of the request's keys, in the shared store and in this process.
    ///
    /// A request that lacks a part of a key resets the counter that all such requests share: see
    /// [`reset_limits`](Self::reset_limits).
    pub async fn reset(&self, request: &Request<'_>) -> Result<(), EngineError> {
        self.change(request, Op::Reset, None).await.map(drop)
    }

    /// Removes the state of the keys of these limits, which must be of these rules.
    ///
    /// If a key has an override with another window, the counter of that window is reset too.
    pub async fn reset_limits(&self, rules: ActiveRules, matched: MatchedLimits) -> Result<(), EngineError> {
        let rules = rules.into_owned();
        if let Some(overrides) = self.inner.overrides.get().filter(|overrides| !overrides.is_empty()) {
            if let Some(load) = overrides.load_within(&rules, &matched, RESET_LOAD_TIMEOUT) {
                load.await;
            }
            let mut overridden = matched.clone();
            overridden.override_values(&rules, self.inner.clock.now(), &**overrides);
            self.start_change_of(rules.clone(), overridden, Op::Reset, None)?.finish(self).await?;
        }
        self.start_change_of(rules, matched, Op::Reset, None)?.finish(self).await.map(drop)
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
        self.start_with(request, op, deadline, OnOverrideMiss::Wait)
    }

    #[inline]
    fn start_with(
        &self,
        request: &Request<'_>,
        op: Op,
        deadline: Option<Timestamp>,
        on_miss: OnOverrideMiss,
    ) -> DecideFuture {
        let mut decided = DecideOutput::undecided(self.rules());
        let clock = &self.inner.clock;
        let mut task = DecideTask::new(op, clock.now(), StageTimer::OFF);
        task.session.set_deadline(deadline);
        task.match_request(&self.inner, decided.answer.rules(), request);
        if let Some(wait) = self.apply_overrides(&mut task, &decided, request, on_miss) {
            let (engine, request) = (self.clone(), RequestCopy::from_request(request));
            let wait = task.session.bound_wait(&self.inner, wait);
            let deadline = task.session.start_deadline(&self.inner).or(deadline);
            return DecideFuture::later(async move {
                wait.await;
                let on_miss = OnOverrideMiss::Default;
                request.with_request(|request| engine.start_with(request, op, deadline, on_miss)).await
            });
        }
        match task.start(&self.inner, &mut decided) {
            Ok(None) => DecideFuture::now(decided),
            Ok(Some(pending)) => self.finish_later(pending, task, decided),
            Err(error) => DecideFuture::failed(error),
        }
    }

    /// Applies the overrides of the request's keys. Returns what to wait for, if `on_miss` says so.
    #[inline]
    pub(super) fn apply_overrides(
        &self,
        task: &mut DecideTask,
        decided: &DecideOutput,
        request: &Request<'_>,
        on_miss: OnOverrideMiss,
    ) -> Option<LoadWait> {
        match on_miss {
            OnOverrideMiss::Wait => task.apply_overrides(&self.inner, decided.answer.rules(), request),
            OnOverrideMiss::Default => {
                task.apply_loaded_overrides(&self.inner, decided.answer.rules(), request);
                None
            }
        }
    }

    #[inline(never)]
    pub(super) fn finish_later(
        &self,
        pending: PendingDecision,
        task: DecideTask,
        mut decided: DecideOutput,
    ) -> DecideFuture {
        decided.answer.rules_mut().make_owned();
        DecideFuture::later(pending.finish(task, decided, self.clone()))
    }
}

impl<C: Timer, S: Store> Engine<C, S> {
    /// As [`decide`](Self::decide), blocking the current thread.
    pub fn decide_blocking(&self, request: &Request<'_>) -> Result<DecideOutput, EngineError>
    where
        C: Send + Sync + 'static,
        S: 'static,
    {
        block_on(self.decide(request))
    }
}

impl<C: Clock, S: Store> Engine<C, S> {
    /// Decides a charge that belongs to no rule. While a shared store does not answer, this node's share of the limit
    /// counts.
    pub async fn check_charge(&self, charge: &Charge<'_>, op: Op) -> CheckedCharge {
        match self.start_charge(charge, op) {
            ChargeResponse::Now(checked) => checked,
            ChargeResponse::Later(later) => {
                let reply = later.await;
                self.finish_charge(charge, op, reply)
            }
        }
    }

    /// As [`check_charge`](Self::check_charge), for a caller that does other work until the store answers.
    #[inline]
    pub fn start_charge(&self, charge: &Charge<'_>, op: Op) -> ChargeResponse {
        self.start_charge_at(charge, op, || self.inner.clock.now())
    }

    /// As [`start_charge`](Self::start_charge). If memory decides, it does so at the instant that `at` returns: a reading
    /// of the engine's clock that several charges may share.
    #[inline]
    pub fn start_charge_at(
        &self,
        charge: &Charge<'_>,
        op: Op,
        at: impl FnOnce() -> Timestamp,
    ) -> ChargeResponse {
        if let (Some(memory), Op::Check) = (self.inner.memory(), op) {
            return ChargeResponse::Now(CheckedCharge {
                decision: memory.check_charge(charge, at()),
                degraded: false,
                unreadable_key: false,
            });
        }
        let plan = Plan::of_one(*charge);
        let now = self.inner.clock.now();
        match self.inner.store.ask(&Ask { op, plan: &plan, now, deadline: None }) {
            Response::Now(reply) => ChargeResponse::Now(self.finish_charge(charge, op, reply)),
            Response::Later(later) => ChargeResponse::Later(later),
        }
    }

    /// Reads the store's reply for the charge.
    pub fn finish_charge(
        &self,
        charge: &Charge<'_>,
        op: Op,
        reply: Result<Reply, StoreError>,
    ) -> CheckedCharge {
        let plan = Plan::of_one(*charge);
        let ask = Ask { op, plan: &plan, now: self.inner.clock.now(), deadline: None };
        match reply.and_then(|reply| reply.require_complete(&ask)) {
            Ok(reply) => CheckedCharge {
                decision: Decision::merge(&reply.outcomes),
                degraded: false,
                unreadable_key: false,
            },
            Err(failure) => {
                let reply = self.inner.store.ask_fallback(&ask, &failure);
                let outcomes = reply.map(|reply| reply.outcomes).unwrap_or_default();
                CheckedCharge {
                    decision: Decision::merge(&outcomes),
                    degraded: true,
                    unreadable_key: matches!(failure, StoreError::Unreadable(_)),
                }
            }
        }
    }

    /// Performs an operation that is not a decision on the counters of a request, and wakes requests that wait for
    /// returned units.
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
        let rules = self.rules();
        let mut matched = rules.matched_limits(request);
        if let Some(overrides) = self.inner.overrides.get().filter(|overrides| !overrides.is_empty()) {
            let is_of_lease = matches!(op, Op::Renew { .. } | Op::Release { .. });
            let by_rules = is_of_lease.then(|| matched.clone());
            // The request was decided a moment ago, so its overrides are loaded.
            matched.override_limits(&rules, request, self.inner.clock.now(), &**overrides);
            if let Some(by_rules) = by_rules {
                // A lease is held whether its key has been banned since or not.
                matched.add_replaced(&by_rules);
            }
        }
        self.start_change_of(rules, matched, op, deadline)
    }

    fn start_change_of(
        &self,
        rules: ActiveRules,
        matched: MatchedLimits,
        op: Op,
        deadline: Option<Timestamp>,
    ) -> Result<PendingChange, EngineError> {
        let inner = &*self.inner;
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

/// A change to the counters of a request, in flight.
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

    /// Waits for the store, and wakes requests that wait for returned units.
    pub async fn finish<C: Clock, S: Store>(self, engine: &Engine<C, S>) -> Result<Reply, EngineError> {
        let Self { rules, matched, op, asked_at, response } = self;
        let inner = &*engine.inner;
        let mut reply = response.reply().await?;
        if !inner.store.is_local() {
            reply.lease = reply.lease.rebased_to(asked_at);
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

/// The response to a charge: decided immediately, or later.
pub enum ChargeResponse {
    /// The decision.
    Now(CheckedCharge),
    /// The store answers later: see [`Engine::finish_charge`].
    Later(ReplyFuture),
}

impl std::fmt::Debug for ChargeResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(checked) => f.debug_tuple("Now").field(checked).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// The output of a future that is ready at its first poll.
pub(super) fn expect_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the memory store answers immediately"),
    }
}
