//! The decision path, for every store and every listener: match, override, plan, ask the store, borrow from pools,
//! merge, candidates.
//!
//! ```text
//! Engine::decide  ->  DecideTask::start  ->  run             ask the store until the request is decided
//!                                        ->  write_output    make the answer from the outcomes
//!                                        ->  ask_candidates
//!                 ->  PendingDecision::finish                the same three, if the store answers later
//! ```
//!
//! `start` runs these steps while the store answers immediately, as memory always does. Nothing is boxed or reference
//! counted there. If the store answers later, `finish` continues as a future.
//!
//! The task, the plan and the decision are about 500 bytes each. They are written where they stay and passed by
//! reference: moving them between functions cost more than the decision itself.
//!
//! # Why a step machine
//!
//! A decision may ask the store more than once, and a store may answer immediately or later. There are two ways to
//! write that once for all stores:
//!
//! 1. A step machine: `Evaluation` (core) says what to ask next. `DecideTask::run` asks until the store answers later,
//!    and `run_async` continues from there as a future.
//! 2. One `async fn` over any store: a loop that awaits `response.reply()`. Over memory it is polled once, on the
//!    stack, with a waker that does nothing. Over another store it is boxed.
//!
//! Both were written and measured, in instructions per command of the whole server, as in `docs/benchmarks-server.md`:
//!
//! | command | step machine | `async fn` |
//! |---|---|---|
//! | `CL.THROTTLE` | 5,839 | 6,448 |
//! | `CL.THROTTLE`, pipeline of 16 | 2,396 | 3,001 |
//! | `TIDEGATE.CHECK` | 8,559 | 8,891 |
//! | `TIDEGATE.CHECK`, pipeline of 16 | 5,292 | 5,632 |
//! | `POST /v1/check` | 27,471 | 28,358 |
//! | `TIDEGATE.CHECK` over Redis | 48,979 | 48,431 |
//! | `TIDEGATE.CHECK` over Redis, pipeline of 16 | 21,626 | 21,079 |
//!
//! `Limiter::check` uses neither path, so it costs the same with both. In memory the step machine costs 3 to 6 % less
//! for a check by rules. Most of the difference for `CL.THROTTLE` is that the `async fn` asks through the store
//! interface, while the step machine calls `MemoryStore::check_charge` directly. Over Redis the `async fn` costs
//! 1 to 3 % less.
//!
//! The step machine was chosen because most decisions are made in memory. It also keeps `Evaluation` pure: the core has
//! no async code, and tests drive each step by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::rules::{
    Descriptor, Evaluation, FoundEntry, NextCall, OnOverrideMiss, OverrideHint, OverrideLookup,
    OverrideSource, OverrideStatus, OverrideTarget, Progress, Request, Ruleset,
};
use tidegate_core::{ChargedAt, Nanos, Op, Outcome, Plan, Timestamp};

use super::stages::StageTimer;
use super::{Answer, DecideOutput, Engine, EngineError, EngineInner};
use crate::memory::MemoryStore;
use crate::overrides::{LoadWait, OverrideCache};
use crate::store::{Ask, Fallback, LeaseReply, Reply, ReplyFuture, Response, Store};
use crate::{Clock, Outcomes, Refusal, StoreError};

/// The state of one decision.
///
/// It is large, so it stays in place while the store answers immediately, and is moved only to wait.
pub(super) struct DecideTask {
    pub evaluation: Evaluation,
    pub op: Op,
    pub session: StoreSession,
    /// The outcomes of the last call to the store.
    outcomes: Outcomes,
}

/// The calls to the store for one decision.
pub(super) struct StoreSession {
    /// When the store has taken too long for this request.
    deadline: Option<Timestamp>,
    /// When the store was asked last.
    asked_at: Timestamp,
    /// The error of the store, if it did not answer. Then the store is not asked again.
    pub failure: Option<StoreError>,
    /// Whether the request is decided without the store if the store does not answer.
    pub falls_back: bool,
    lease: LeaseReply,
    /// Whether a charge has reached too few replicas of the store.
    is_unreplicated: bool,
    /// When the store decided last.
    decided_at: Option<Timestamp>,
    pub stages: StageTimer,
}

/// How far a decision got.
pub(super) enum DecideStep {
    /// The last outcomes make the answer.
    Decided,
    /// The store answers later.
    Later(PendingAsk),
}

/// A call whose reply comes later.
pub(super) struct PendingAsk {
    next: NextCall,
    /// How many charges the plan has.
    charges: usize,
    later: ReplyFuture,
}

/// What a pending decision waits for.
pub(super) enum PendingDecision {
    Ask(PendingAsk),
    Candidates(SmallVec<[PendingCandidate; 1]>),
}

/// A candidate whose outcome comes later.
pub(super) struct PendingCandidate {
    index: usize,
    op: Op,
    later: ReplyFuture,
}

/// How long a request waited, and why it stopped waiting.
#[derive(Clone, Copy)]
pub(super) struct WaitResult {
    pub waited: Nanos,
    pub refusal: Option<Refusal>,
}

impl WaitResult {
    pub const NONE: Self = Self { waited: Nanos::ZERO, refusal: None };
}

impl DecideTask {
    #[inline]
    pub fn new(op: Op, now: Timestamp, stages: StageTimer) -> Self {
        let falls_back = op != Op::Peek;
        let lease = LeaseReply::None;
        let session = StoreSession {
            deadline: None,
            asked_at: now,
            failure: None,
            falls_back,
            lease,
            is_unreplicated: false,
            decided_at: None,
            stages,
        };
        Self { evaluation: Evaluation::new(op, now), op, session, outcomes: Outcomes::new() }
    }

    /// Finds the limits that apply to the request.
    #[inline]
    pub fn match_request<C: Clock, S>(
        &mut self,
        engine: &EngineInner<C, S>,
        rules: &Ruleset,
        request: &Request<'_>,
    ) {
        let Self { evaluation, session, .. } = self;
        session.stages.time_matching(&engine.clock, || evaluation.match_request(rules, request));
        if !evaluation.matched().is_domain_known() && engine.denies_unknown_domains.load(Ordering::Relaxed) {
            evaluation.deny_unknown_domain(request);
        }
    }

    /// Applies the overrides of the request's keys, when the instant of the decision is known. Returns what to wait for if
    /// they have to be loaded first; nothing was applied then.
    #[inline]
    pub fn apply_overrides<C, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        rules: &Ruleset,
        request: &Request<'_>,
    ) -> Option<LoadWait> {
        // Most servers have no overrides at all.
        let overrides = engine.overrides.get().filter(|overrides| !overrides.is_empty())?;
        self.apply_from(overrides, engine.memory().map(|memory| &**memory), rules, request)
    }

    /// Separate, so that a decision without overrides stays small.
    #[inline(never)]
    fn apply_from(
        &mut self,
        overrides: &Arc<OverrideCache>,
        memory: Option<&MemoryStore>,
        rules: &Ruleset,
        request: &Request<'_>,
    ) -> Option<LoadWait> {
        let source = TouchingSource { overrides, memory, rules };
        match self.evaluation.apply_overrides(rules, request, &source, OnOverrideMiss::Wait) {
            OverrideStatus::Applied => None,
            status => self.load_overrides(overrides, rules, request, status),
        }
    }

    #[cold]
    fn load_overrides(
        &mut self,
        overrides: &Arc<OverrideCache>,
        rules: &Ruleset,
        request: &Request<'_>,
        status: OverrideStatus,
    ) -> Option<LoadWait> {
        let wait = overrides.load(rules, self.evaluation.matched());
        if status == OverrideStatus::Incomplete {
            return None;
        }
        if wait.is_none() {
            self.evaluation.apply_overrides(rules, request, &**overrides, OnOverrideMiss::Default);
        }
        wait
    }

    /// As [`apply_overrides`](Self::apply_overrides), without those that are not loaded.
    pub fn apply_loaded_overrides<C, S>(
        &mut self,
        engine: &EngineInner<C, S>,
        rules: &Ruleset,
        request: &Request<'_>,
    ) {
        if let Some(overrides) = engine.overrides.get() {
            self.evaluation.apply_overrides(rules, request, &**overrides, OnOverrideMiss::Default);
        }
    }

    /// Decides, as far as the store answers immediately. Writes the decision to `decided`, which already has the rules.
    #[inline]
    pub fn start<C: Clock, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        decided: &mut DecideOutput,
    ) -> Result<Option<PendingDecision>, EngineError> {
        if let DecideStep::Later(pending) = self.run(engine, decided.answer.rules())? {
            return Ok(Some(PendingDecision::Ask(pending)));
        }
        self.write_output(decided);
        if self.evaluation.candidate_count() == 0 {
            return Ok(None);
        }
        let candidates = self.ask_candidates(engine, &mut decided.answer);
        Ok(if candidates.is_empty() { None } else { Some(PendingDecision::Candidates(candidates)) })
    }

    /// Asks the store until the request is decided, or until the store answers later.
    pub fn run<C: Clock, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        rules: &Ruleset,
    ) -> Result<DecideStep, EngineError> {
        loop {
            let mut plan = Plan::new();
            let now = self.evaluation.now();
            let mut next = self.evaluation.next_call(rules, &mut plan)?;
            if let Op::Acquire { .. } = next.op
                && !plan.has_leases()
            {
                // The same for rates, and cheaper: memory has a fast path, and a shared store a deny cache.
                next.op = Op::Check;
            }
            if let Some(memory) = engine.memory() {
                self.session.ask_memory(&engine.clock, memory, next.op, &plan, now, &mut self.outcomes);
            } else {
                let reply = match self.session.ask(engine, next.op, &plan, now) {
                    Response::Now(reply) => reply,
                    Response::Later(later) => {
                        let charges = plan.charges().len();
                        return Ok(DecideStep::Later(PendingAsk { next, charges, later }));
                    }
                };
                self.outcomes = match self.session.receive(engine, next.op, plan.charges().len(), reply) {
                    Ok(outcomes) => outcomes,
                    Err(failure) => self.session.receive_failure(engine, next.op, &plan, failure)?,
                };
            }
            drop(plan);
            if self.evaluation.apply_outcomes(rules, next.phase, &self.outcomes) == Progress::Decided {
                return Ok(DecideStep::Decided);
            }
        }
    }

    /// Continues to the end, also if the store answers later.
    pub async fn run_async<C: Clock, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        rules: &Ruleset,
        mut step: DecideStep,
    ) -> Result<(), EngineError> {
        while let DecideStep::Later(PendingAsk { next, charges, later }) = step {
            let reply = later.await;
            self.session.stages.add_store_since(self.session.asked_at, &engine.clock);
            self.outcomes = match self.session.receive(engine, next.op, charges, reply) {
                Ok(outcomes) => outcomes,
                Err(failure) => {
                    // The same plan as the one the store was asked about: nothing has changed since.
                    let mut plan = Plan::new();
                    self.evaluation.next_call(rules, &mut plan)?;
                    self.session.receive_failure(engine, next.op, &plan, failure)?
                }
            };
            step = match self.evaluation.apply_outcomes(rules, next.phase, &self.outcomes) {
                Progress::Decided => DecideStep::Decided,
                Progress::AskAgain => self.run(engine, rules)?,
            };
        }
        Ok(())
    }

    /// Writes the answer from the last outcomes.
    #[inline]
    pub fn write_answer(&self, answer: &mut Answer) {
        self.evaluation.write_answer(answer, &self.outcomes);
        self.mark_answer(answer);
    }

    /// Says what happened at the store.
    #[inline]
    fn mark_answer(&self, answer: &mut Answer) {
        answer.unreplicated = self.session.is_unreplicated && answer.kind.passes();
        if let Some(failure) = &self.session.failure {
            answer.degrade(Fallback::<()>::RETRY_AFTER);
            answer.unreadable_key = matches!(failure, StoreError::Unreadable(_));
        }
        if self.session.lease == LeaseReply::MemoryFull {
            answer.refuse_leases(Fallback::<()>::RETRY_AFTER);
        }
    }

    /// Writes the decision from the last outcomes, for a request that did not wait for limits.
    #[inline]
    pub fn write_output(&mut self, decided: &mut DecideOutput) {
        self.evaluation.write_last_answer(&mut decided.answer, &self.outcomes);
        self.mark_answer(&mut decided.answer);
        (decided.lease, decided.stages) = (self.session.lease.into_lease(), self.session.stages.times());
        decided.charged_at = self.charged_at(&decided.answer);
    }

    /// The decision with this answer, and with the details of how it was made.
    pub fn output(&self, answer: Answer, WaitResult { waited, refusal }: WaitResult) -> DecideOutput {
        let (lease, stages) = (self.session.lease.into_lease(), self.session.stages.times());
        let charged_at = self.charged_at(&answer);
        DecideOutput { answer, waited, lease, charged_at, stages, refusal }
    }

    /// When the request was charged, if it was.
    #[inline]
    fn charged_at(&self, answer: &Answer) -> Option<ChargedAt> {
        match answer.kind.passes() {
            true => self.session.decided_at.map(ChargedAt::new),
            false => None,
        }
    }

    /// Asks the store about all candidates.
    #[inline(never)]
    pub fn ask_candidates<C: Clock, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        answer: &mut Answer,
    ) -> SmallVec<[PendingCandidate; 1]> {
        let mut later = SmallVec::new();
        for index in 0..self.evaluation.candidate_count() {
            let outcome = match self.evaluation.candidate_call(answer.rules(), index, self.op, answer) {
                None => None,
                Some((op, plan)) => match self.session.ask(engine, op, &plan, self.evaluation.now()) {
                    Response::Later(reply) => {
                        later.push(PendingCandidate { index, op, later: reply });
                        continue;
                    }
                    Response::Now(reply) => {
                        let ask = Ask { op, plan: &plan, now: self.session.asked_at, deadline: None };
                        candidate_outcome(engine, &ask, reply)
                    }
                },
            };
            self.evaluation.add_candidate(answer, index, outcome);
        }
        later
    }

    /// Waits for the candidates whose outcomes come later.
    pub async fn finish_candidates<C: Clock, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        answer: &mut Answer,
        candidates: SmallVec<[PendingCandidate; 1]>,
    ) {
        for PendingCandidate { index, op, later } in candidates {
            let reply = later.await;
            let outcome = {
                let now = engine.clock.now();
                match self.evaluation.candidate_call(answer.rules(), index, op, answer) {
                    Some((_, plan)) => {
                        candidate_outcome(engine, &Ask { op, plan: &plan, now, deadline: None }, reply)
                    }
                    None => None,
                }
            };
            self.evaluation.add_candidate(answer, index, outcome);
        }
    }
}

/// The overrides of keys. While the processor waits for the filter of keys or for the overrides of a key, it also loads the memory
/// of the key's counter, which nearly always has the same identity as that of the rule. `docs/benchmarks-config.md` has
/// what it saves.
struct TouchingSource<'a> {
    overrides: &'a OverrideCache,
    memory: Option<&'a MemoryStore>,
    rules: &'a Ruleset,
}

impl TouchingSource<'_> {
    #[inline]
    fn touch(&self, target: OverrideTarget<'_>) {
        if let Some(memory) = self.memory {
            memory.touch(self.rules.limit_at(target.position).main_counter(), target.key);
        }
    }
}

#[allow(clippy::inline_always, reason = "part of `OverrideCache`'s methods")]
impl OverrideSource for TouchingSource<'_> {
    #[inline(always)]
    fn may_have(&self, target: OverrideTarget<'_>) -> Option<OverrideHint> {
        let hint = self.overrides.may_have(target);
        if hint.is_none() {
            // The processor predicts this, so it does not wait for the filter.
            self.touch(target);
        }
        hint
    }

    #[inline(always)]
    fn find_alone(&self, target: OverrideTarget<'_>, hint: OverrideHint) -> Option<FoundEntry> {
        self.overrides.find_alone_while(target, hint, || self.touch(target))
    }

    fn find(
        &self,
        rules: &Ruleset,
        target: OverrideTarget<'_>,
        hint: OverrideHint,
        descriptor: &Descriptor<'_>,
    ) -> OverrideLookup {
        self.overrides.find(rules, target, hint, descriptor)
    }
}

impl PendingDecision {
    /// Continues to the end.
    pub async fn finish<C: Clock, S: Store>(
        self,
        mut task: DecideTask,
        mut decided: DecideOutput,
        engine: Engine<C, S>,
    ) -> Result<DecideOutput, EngineError> {
        let engine = &*engine.inner;
        let candidates = match self {
            Self::Ask(pending) => {
                task.run_async(engine, decided.answer.rules(), DecideStep::Later(pending)).await?;
                task.write_output(&mut decided);
                task.ask_candidates(engine, &mut decided.answer)
            }
            Self::Candidates(candidates) => candidates,
        };
        task.finish_candidates(engine, &mut decided.answer, candidates).await;
        Ok(decided)
    }
}

impl StoreSession {
    /// Sets when the store has taken too long.
    #[inline]
    pub fn set_deadline(&mut self, deadline: Option<Timestamp>) {
        self.deadline = deadline;
    }

    /// When the store has taken too long, counted from now if the store was not asked yet: loading overrides is part of the
    /// decision.
    pub fn start_deadline<C: Clock, S: Store>(&mut self, engine: &EngineInner<C, S>) -> Option<Timestamp> {
        let timeout = engine.store.timeout()?;
        let start = || engine.clock.now().saturating_add(Nanos::new(timeout.as_nanos()));
        Some(*self.deadline.get_or_insert_with(start))
    }

    /// Starts the deadline, and lets a load take at most half of the time that is left: the rest is for the counters.
    pub fn bound_wait<C: Clock, S: Store>(&mut self, engine: &EngineInner<C, S>, wait: LoadWait) -> LoadWait {
        let Some(deadline) = self.start_deadline(engine) else { return wait };
        let left_ns = deadline.as_nanos().saturating_sub(engine.clock.now().as_nanos());
        wait.at_most(Duration::from_nanos(left_ns / 2))
    }

    /// Asks the store, unless it failed before. Records the time of the call.
    #[inline]
    fn ask<C: Clock, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        op: Op,
        plan: &Plan<'_>,
        at: Timestamp,
    ) -> Response {
        self.asked_at = at;
        // Do not ask about an empty plan: if the store failed, the answer would be degraded for no reason.
        if plan.charges().is_empty() {
            return Response::Now(Ok(Reply::new(at, Outcomes::new())));
        }
        let Some(timeout) = engine.store.timeout() else {
            let ask = Ask { op, plan, now: at, deadline: None };
            return self.stages.time_store(&engine.clock, || engine.store.ask(&ask));
        };
        self.asked_at = engine.clock.now();
        let timeout = Nanos::new(timeout.as_nanos());
        let deadline = *self.deadline.get_or_insert_with(|| self.asked_at.saturating_add(timeout));
        let ask = Ask { op, plan, now: self.asked_at, deadline: Some(deadline) };
        match &self.failure {
            Some(failure) => Response::Now(engine.store.ask_fallback(&ask, failure)),
            None => engine.store.ask(&ask),
        }
    }

    /// Asks the memory store, which answers immediately and never fails. Writes the outcomes in place, because a reply
    /// is too large to be moved.
    #[inline]
    fn ask_memory<C: Clock>(
        &mut self,
        clock: &C,
        memory: &MemoryStore,
        op: Op,
        plan: &Plan<'_>,
        at: Timestamp,
        outcomes: &mut Outcomes,
    ) {
        if !outcomes.is_empty() {
            *outcomes = Outcomes::new();
        }
        self.asked_at = at;
        self.lease = match plan.charges() {
            [] => {
                self.lease = LeaseReply::None;
                return;
            }
            [charge] if matches!(op, Op::Check) => {
                let decision = self.stages.time_store(clock, || memory.check_charge(charge, at));
                outcomes.extend([decision.outcome()]);
                if decision.lease_memory_full { LeaseReply::MemoryFull } else { LeaseReply::None }
            }
            _ => {
                let ask = Ask { op, plan, now: at, deadline: None };
                let reply = self.stages.time_store(clock, || memory.ask_now(&ask));
                *outcomes = reply.outcomes;
                reply.lease
            }
        };
        self.decided_at = Some(at);
    }

    /// Reads the reply to a plan with this many charges.
    #[inline]
    fn receive<C: Clock, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        op: Op,
        charges: usize,
        reply: Result<Reply, StoreError>,
    ) -> Result<Outcomes, StoreError> {
        match reply {
            Ok(reply) if reply.is_complete_for(op, charges) => {
                self.lease = match engine.store.is_local() || self.failure.is_some() {
                    true => reply.lease,
                    false => reply.lease.rebased_to(self.asked_at),
                };
                if self.failure.is_none() && charges > 0 {
                    self.decided_at = Some(reply.at);
                    self.is_unreplicated |= reply.is_unreplicated;
                }
                Ok(reply.outcomes)
            }
            Ok(_) => Err(Reply::incomplete_error()),
            Err(failure) => Err(failure),
        }
    }

    /// Decides a plan without the store, which did not answer.
    #[cold]
    fn receive_failure<C: Clock, S: Store>(
        &mut self,
        engine: &EngineInner<C, S>,
        op: Op,
        plan: &Plan<'_>,
        failure: StoreError,
    ) -> Result<Outcomes, EngineError> {
        if !self.falls_back {
            return Err(failure.into());
        }
        let ask = Ask { op, plan, now: engine.clock.now(), deadline: None };
        let reply = engine.store.ask_fallback(&ask, &failure)?;
        (self.lease, self.decided_at, self.is_unreplicated) = (reply.lease, None, false);
        self.failure = Some(failure);
        Ok(reply.outcomes)
    }

    /// Allows the store to be asked again after a wait, with a new deadline, even if it did not answer before.
    pub fn reset(&mut self) {
        (self.failure, self.deadline, self.is_unreplicated) = (None, None, false);
    }
}

/// The outcome of a candidate. The answer does not depend on it, so the answer is not degraded if the store does not
/// answer.
fn candidate_outcome<C, S: Store>(
    engine: &EngineInner<C, S>,
    ask: &Ask<'_, '_>,
    reply: Result<Reply, StoreError>,
) -> Option<Outcome> {
    let reply = reply
        .and_then(|reply| reply.require_complete(ask))
        .or_else(|failure| engine.store.ask_fallback(ask, &failure));
    reply.ok().and_then(|reply| reply.outcomes.first().copied())
}
