//! The decision path: match, plan, ask, borrow from pools, merge, candidates.
//!
//! ```text
//! Engine::decide  ->  DecideTask::start  ->  run             ask the store until the request is decided
//!                                      ->  conclude        make the answer from the outcomes
//!                                      ->  ask_candidates
//!                 ->  Unfinished::finish                    the same three, where the store answers later
//! ```
//!
//! These are the path, for every store and every listener. `start` drives them while the store answers at once, as memory always
//! does; nothing is boxed or counted there. `finish` goes on where `start` had to stop.
//!
//! The task, the plan and the decision are some 500 bytes each. They are written where they stay, and passed by reference: moving
//! them from function to function cost more than the decision itself.

use smallvec::SmallVec;
use tidegate_core::rules::{Evaluation, NextAsk, Progress, Request, Ruleset};
use tidegate_core::{ChargedAt, Nanos, Op, Outcome, Plan, Timestamp};

use super::stages::Stopwatch;
use super::{Answer, Decided, Engine, EngineError, Inner};
use crate::store::{Ask, Fallback, Later, LeaseReply, Reply, Response, Store};
use crate::{Clock, Outcomes, Refusal, StoreFailure};

/// One decision on its way.
///
/// It is large, so it stays where it was made while the store answers at once, and is moved only to wait.
pub(super) struct DecideTask {
    pub evaluation: Evaluation,
    pub op: Op,
    pub asks: Asks,
    /// What the store said last.
    outcomes: Outcomes,
}

/// What is known of the store while a request is decided.
pub(super) struct Asks {
    /// When the store has taken too long for this request.
    deadline: Option<Timestamp>,
    /// When the store was asked last.
    asked: Timestamp,
    /// Why the store did not answer, if it did not. Then it is not asked again.
    pub failure: Option<StoreFailure>,
    /// Whether the request is decided without the store if that does not answer.
    pub falls_back: bool,
    lease: LeaseReply,
    /// When the store decided last.
    decided: Option<Timestamp>,
    pub stages: Stopwatch,
}

/// How far a decision came.
pub(super) enum Step {
    /// The last outcomes make the answer.
    Decided,
    /// The store answers later.
    Later(Parked),
}

/// An ask whose reply comes later.
pub(super) struct Parked {
    next: NextAsk,
    /// How many charges the plan has.
    charges: usize,
    later: Later,
}

/// What a decision that was not made at once waits for.
pub(super) enum Unfinished {
    Ask(Parked),
    Candidates(SmallVec<[Candidate; 1]>),
}

/// A candidate whose outcome comes later.
pub(super) struct Candidate {
    index: usize,
    op: Op,
    later: Later,
}

/// When a request was decided, and why it does not wait any longer.
#[derive(Clone, Copy)]
pub(super) struct Waited {
    pub waited: Nanos,
    pub refusal: Option<Refusal>,
}

impl Waited {
    pub const NOT: Self = Self { waited: Nanos::ZERO, refusal: None };
}

impl DecideTask {
    #[inline]
    pub fn new(op: Op, now: Timestamp, stages: Stopwatch) -> Self {
        let falls_back = op != Op::Peek;
        let lease = LeaseReply::None;
        let asks =
            Asks { deadline: None, asked: now, failure: None, falls_back, lease, decided: None, stages };
        Self { evaluation: Evaluation::new(op, now), op, asks, outcomes: Outcomes::new() }
    }

    /// Finds the limits that the request falls under.
    #[inline]
    pub fn match_request<C: Clock>(&mut self, rules: &Ruleset, request: &Request<'_>, clock: &C) {
        let Self { evaluation, asks, .. } = self;
        asks.stages.matching(clock, || evaluation.match_request(rules, request));
    }

    /// Decides, as far as the store answers at once. The decision is written to `decided`, which has the rules.
    #[inline]
    pub fn start<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        decided: &mut Decided,
    ) -> Result<Option<Unfinished>, EngineError> {
        if let Step::Later(parked) = self.run(engine, decided.answer.rules())? {
            return Ok(Some(Unfinished::Ask(parked)));
        }
        self.conclude(decided);
        if self.evaluation.candidates() == 0 {
            return Ok(None);
        }
        let candidates = self.ask_candidates(engine, &mut decided.answer);
        Ok(if candidates.is_empty() { None } else { Some(Unfinished::Candidates(candidates)) })
    }

    /// Asks the store until the request is decided, or the store answers later.
    pub fn run<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        rules: &Ruleset,
    ) -> Result<Step, EngineError> {
        loop {
            let mut plan = Plan::new();
            let now = self.evaluation.now();
            let next = self.evaluation.next(rules, &mut plan)?;
            let reply = match self.asks.ask(engine, next.op, &plan, now) {
                Response::Now(reply) => reply,
                Response::Later(later) => {
                    let charges = plan.charges().len();
                    return Ok(Step::Later(Parked { next, charges, later }));
                }
            };
            self.outcomes = match self.asks.receive(engine, next.op, plan.charges().len(), reply) {
                Ok(outcomes) => outcomes,
                Err(failure) => self.asks.receive_failure(engine, next.op, &plan, failure)?,
            };
            drop(plan);
            if self.evaluation.take(rules, next.purpose, &self.outcomes) == Progress::Decided {
                return Ok(Step::Decided);
            }
        }
    }

    /// Runs to the end, also where the store answers later.
    pub async fn run_later<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        rules: &Ruleset,
        mut step: Step,
    ) -> Result<(), EngineError> {
        while let Step::Later(Parked { next, charges, later }) = step {
            let reply = later.await;
            self.asks.stages.add_store_since(self.asks.asked, &engine.clock);
            self.outcomes = match self.asks.receive(engine, next.op, charges, reply) {
                Ok(outcomes) => outcomes,
                Err(failure) => {
                    // The same plan as the one that was asked about: nothing has changed since.
                    let mut plan = Plan::new();
                    self.evaluation.next(rules, &mut plan)?;
                    self.asks.receive_failure(engine, next.op, &plan, failure)?
                }
            };
            step = match self.evaluation.take(rules, next.purpose, &self.outcomes) {
                Progress::Decided => Step::Decided,
                Progress::AskAgain => self.run(engine, rules)?,
            };
        }
        Ok(())
    }

    /// Makes the answer from the last outcomes.
    #[inline]
    pub fn answer(&self, answer: &mut Answer) {
        self.evaluation.answer(answer, &self.outcomes);
        if self.asks.failure.is_some() {
            answer.degrade(Fallback::<()>::RETRY_AFTER);
        }
    }

    /// Makes the decision from the last outcomes, for a request that did not wait for limits.
    #[inline]
    pub fn conclude(&self, decided: &mut Decided) {
        self.answer(&mut decided.answer);
        (decided.lease, decided.stages) = (self.asks.lease.held(), self.asks.stages.times());
        decided.charged_at = self.charged_at(&decided.answer);
    }

    /// A decision with this answer, and what is known of how it came about.
    pub fn decided(&self, answer: Answer, Waited { waited, refusal }: Waited) -> Decided {
        let (lease, stages) = (self.asks.lease.held(), self.asks.stages.times());
        let charged_at = self.charged_at(&answer);
        Decided { answer, waited, lease, charged_at, stages, refusal }
    }

    /// When the request was charged, if it was.
    #[inline]
    fn charged_at(&self, answer: &Answer) -> Option<ChargedAt> {
        match answer.fate.passes() {
            true => self.asks.decided.map(ChargedAt::new),
            false => None,
        }
    }

    /// Asks all candidates.
    #[inline(never)]
    pub fn ask_candidates<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        answer: &mut Answer,
    ) -> SmallVec<[Candidate; 1]> {
        let mut later = SmallVec::new();
        for index in 0..self.evaluation.candidates() {
            let outcome = match self.evaluation.candidate(answer.rules(), index, self.op, answer) {
                None => None,
                Some((op, plan)) => match self.asks.ask(engine, op, &plan, self.evaluation.now()) {
                    Response::Later(reply) => {
                        later.push(Candidate { index, op, later: reply });
                        continue;
                    }
                    Response::Now(reply) => {
                        let ask = Ask { op, plan: &plan, now: self.asks.asked, deadline: None };
                        candidate_outcome(engine, &ask, reply)
                    }
                },
            };
            self.evaluation.add_candidate(answer, index, outcome);
        }
        later
    }

    /// Waits for the candidates that answer later.
    pub async fn finish_candidates<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        answer: &mut Answer,
        candidates: SmallVec<[Candidate; 1]>,
    ) {
        for Candidate { index, op, later } in candidates {
            let reply = later.await;
            let outcome = {
                let now = engine.clock.now();
                match self.evaluation.candidate(answer.rules(), index, op, answer) {
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

impl Unfinished {
    /// Goes on to the end.
    pub async fn finish<C: Clock, S: Store>(
        self,
        mut task: DecideTask,
        mut decided: Decided,
        engine: Engine<C, S>,
    ) -> Result<Decided, EngineError> {
        let engine = &*engine.inner;
        let candidates = match self {
            Self::Ask(parked) => {
                task.run_later(engine, decided.answer.rules(), Step::Later(parked)).await?;
                task.conclude(&mut decided);
                task.ask_candidates(engine, &mut decided.answer)
            }
            Self::Candidates(candidates) => candidates,
        };
        task.finish_candidates(engine, &mut decided.answer, candidates).await;
        Ok(decided)
    }
}

impl Asks {
    /// Sets when the store has taken too long.
    #[inline]
    pub fn set_deadline(&mut self, deadline: Option<Timestamp>) {
        self.deadline = deadline;
    }

    /// Asks the store, unless it failed before, and keeps when.
    #[inline]
    fn ask<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        op: Op,
        plan: &Plan<'_>,
        at: Timestamp,
    ) -> Response {
        self.asked = at;
        // No store is asked about nothing, so that the answer is not degraded.
        if plan.charges().is_empty() {
            return Response::Now(Ok(Reply::decided(at, Outcomes::new())));
        }
        let Some(timeout) = engine.store.timeout() else {
            let ask = Ask { op, plan, now: at, deadline: None };
            return self.stages.store(&engine.clock, || engine.store.ask(&ask));
        };
        self.asked = engine.clock.now();
        let timeout = Nanos::new(timeout.as_nanos());
        let deadline = *self.deadline.get_or_insert_with(|| self.asked.saturating_add(timeout));
        let ask = Ask { op, plan, now: self.asked, deadline: Some(deadline) };
        match &self.failure {
            Some(failure) => Response::Now(engine.store.ask_without(&ask, failure)),
            None => engine.store.ask(&ask),
        }
    }

    /// Takes a reply to a plan with this many charges.
    #[inline]
    fn receive<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        op: Op,
        charges: usize,
        reply: Result<Reply, StoreFailure>,
    ) -> Result<Outcomes, StoreFailure> {
        match reply {
            Ok(reply) if reply.answers(op, charges) => {
                self.lease = match engine.store.is_local() || self.failure.is_some() {
                    true => reply.lease,
                    false => reply.lease.by_clock_of(self.asked),
                };
                if self.failure.is_none() && charges > 0 {
                    self.decided = Some(reply.at);
                }
                Ok(reply.outcomes)
            }
            Ok(_) => Err(Reply::incomplete()),
            Err(failure) => Err(failure),
        }
    }

    /// Decides a plan without the store, which did not answer.
    #[cold]
    fn receive_failure<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        op: Op,
        plan: &Plan<'_>,
        failure: StoreFailure,
    ) -> Result<Outcomes, EngineError> {
        if !self.falls_back {
            return Err(failure.into());
        }
        let ask = Ask { op, plan, now: engine.clock.now(), deadline: None };
        let reply = engine.store.ask_without(&ask, &failure)?;
        (self.lease, self.decided) = (reply.lease, None);
        self.failure = Some(failure);
        Ok(reply.outcomes)
    }

    /// Lets the store be asked again after a wait, with a new deadline, also if it did not answer before.
    pub fn renew(&mut self) {
        (self.failure, self.deadline) = (None, None);
    }
}

/// The outcome of a candidate. The request's answer does not depend on it, so it is not degraded if the store does not answer.
fn candidate_outcome<C, S: Store>(
    engine: &Inner<C, S>,
    ask: &Ask<'_, '_>,
    reply: Result<Reply, StoreFailure>,
) -> Option<Outcome> {
    let reply =
        reply.and_then(|reply| reply.checked(ask)).or_else(|failure| engine.store.ask_without(ask, &failure));
    reply.ok().and_then(|reply| reply.outcomes.first().copied())
}
