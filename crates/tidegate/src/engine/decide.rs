//! The decision path: match, plan, ask, borrow from pools, merge, candidates.
//!
//! ```text
//! Engine::decide  ->  DecideTask::start  ->  run       ask the store until the request is decided
//!                                      ->  conclude  make the answer, ask the candidates
//!                                      ->  finish    the same two, where the store answers later
//! ```
//!
//! `run` and `conclude` are the path, for every store and every listener. `start` drives them while the store answers at once, as
//! memory always does; nothing is boxed or counted there. `finish` goes on where `start` had to stop.

use smallvec::SmallVec;
use tidegate_core::rules::{AskPurpose, Evaluation, NextAsk, PlanDraft, PlanParts, Progress, Ruleset};
use tidegate_core::{ChargedAt, Nanos, Op, Outcome, Plan, Timestamp};

use super::stages::Stopwatch;
use super::{ActiveRules, Answer, Decided, Engine, EngineError, Inner};
use crate::store::{Ask, Fallback, Later, LeaseReply, Reply, Response, Store};
use crate::{Clock, Outcomes, Refusal, StoreFailure};

/// One decision on its way.
pub(super) struct DecideTask {
    pub evaluation: Evaluation,
    pub op: Op,
    pub asks: Asks,
}

/// What is known of the store while a request is decided.
pub(super) struct Asks {
    /// When the store has taken too long for this request.
    deadline: Option<Timestamp>,
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
    /// These outcomes make the answer.
    Decided(PlanParts, Outcomes),
    /// The store answers later.
    Later(Parked),
}

/// An ask whose reply comes later.
pub(super) struct Parked {
    parts: PlanParts,
    purpose: AskPurpose,
    op: Op,
    asked: Timestamp,
    later: Later,
}

/// A decision that was made at once, or goes on later.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each decision")]
pub(super) enum Started {
    Now(Result<Decided, EngineError>),
    Later(Box<Continuation>),
}

/// Where a decision goes on.
#[allow(clippy::large_enum_variant, reason = "it is in a box")]
pub(super) enum Continuation {
    Ask(DecideTask, ActiveRules, Parked),
    Candidates(DecideTask, Decided, SmallVec<[Candidate; 1]>),
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
    pub fn new(evaluation: Evaluation, op: Op, stages: Stopwatch) -> Self {
        let falls_back = op != Op::Peek;
        let lease = LeaseReply::None;
        let asks = Asks { deadline: None, failure: None, falls_back, lease, decided: None, stages };
        Self { evaluation, op, asks }
    }

    /// Decides, as far as the store answers at once.
    #[inline]
    pub fn start<C: Clock, S: Store>(mut self, engine: &Inner<C, S>, rules: ActiveRules) -> Started {
        match self.run(engine, &rules) {
            Ok(Step::Decided(parts, outcomes)) => {
                let (decided, candidates) = self.conclude(engine, rules, &parts, &outcomes, Waited::NOT);
                match candidates.is_empty() {
                    true => Started::Now(Ok(decided)),
                    false => Started::Later(Box::new(Continuation::Candidates(self, decided, candidates))),
                }
            }
            Ok(Step::Later(parked)) => {
                Started::Later(Box::new(Continuation::Ask(self, rules.counted(), parked)))
            }
            Err(error) => Started::Now(Err(error)),
        }
    }

    /// Asks the store until the request is decided, or the store answers later.
    #[inline]
    pub fn run<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        rules: &Ruleset,
    ) -> Result<Step, EngineError> {
        loop {
            let NextAsk { op, draft: PlanDraft { plan, parts }, purpose } = self.evaluation.next(rules)?;
            let (asked, response) = self.asks.ask(engine, op, &plan, self.evaluation.now());
            let reply = match response {
                Response::Now(reply) => reply,
                Response::Later(later) => {
                    return Ok(Step::Later(Parked { parts, purpose, op, asked, later }));
                }
            };
            let reply =
                self.asks.receive(engine, &Ask { op, plan: &plan, now: asked, deadline: None }, reply)?;
            drop(plan);
            if self.evaluation.take(rules, &parts, purpose, &reply.outcomes) == Progress::Decided {
                return Ok(Step::Decided(parts, reply.outcomes));
            }
        }
    }

    /// Goes on with a reply that came later.
    pub fn resume<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        rules: &Ruleset,
        parked: Asked,
        reply: Result<Reply, StoreFailure>,
    ) -> Result<Step, EngineError> {
        let Asked { parts, purpose, op, asked } = parked;
        self.asks.stages.add_store_since(asked, &engine.clock);
        let reply = {
            // The same plan as the one that was asked about: nothing has changed since.
            let plan = self.evaluation.next(rules)?.draft.plan;
            self.asks.receive(engine, &Ask { op, plan: &plan, now: asked, deadline: None }, reply)?
        };
        match self.evaluation.take(rules, &parts, purpose, &reply.outcomes) {
            Progress::Decided => Ok(Step::Decided(parts, reply.outcomes)),
            Progress::AskAgain => self.run(engine, rules),
        }
    }

    /// Runs to the end, also where the store answers later.
    pub async fn run_later<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        rules: &Ruleset,
        mut step: Step,
    ) -> Result<(PlanParts, Outcomes), EngineError> {
        loop {
            match step {
                Step::Decided(parts, outcomes) => return Ok((parts, outcomes)),
                Step::Later(Parked { parts, purpose, op, asked, later }) => {
                    let reply = later.await;
                    step = self.resume(engine, rules, Asked { parts, purpose, op, asked }, reply)?;
                }
            }
        }
    }

    /// Makes the answer and asks the candidates; those whose outcomes come later are left.
    #[inline]
    pub fn conclude<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        rules: ActiveRules,
        parts: &PlanParts,
        outcomes: &[Outcome],
        waited: Waited,
    ) -> (Decided, SmallVec<[Candidate; 1]>) {
        let mut answer = self.answer(rules, parts, outcomes);
        let candidates = match self.evaluation.candidates() {
            0 => SmallVec::new(),
            _ => self.ask_candidates(engine, &mut answer),
        };
        (self.decided(answer, waited), candidates)
    }

    /// The answer, from the last outcomes.
    #[inline]
    pub fn answer(&self, rules: ActiveRules, parts: &PlanParts, outcomes: &[Outcome]) -> Answer {
        let mut answer = self.evaluation.answer(rules, parts, outcomes);
        if self.asks.failure.is_some() {
            answer.degrade(Fallback::<()>::RETRY_AFTER);
        }
        answer
    }

    /// An answer, with what is known of how it came about.
    #[inline]
    pub fn decided(&self, answer: Answer, waited: Waited) -> Decided {
        let Waited { waited, refusal } = waited;
        let (lease, stages) = (self.asks.lease.held(), self.asks.stages.times());
        let charged_at = match answer.fate.passes() {
            true => self.asks.decided.map(ChargedAt::new),
            false => None,
        };
        Decided { answer, waited, lease, charged_at, stages, refusal }
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
                    (_, Response::Later(reply)) => {
                        later.push(Candidate { index, op, later: reply });
                        continue;
                    }
                    (asked, Response::Now(reply)) => {
                        let ask = Ask { op, plan: &plan, now: asked, deadline: None };
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

/// What was asked, once its reply is there.
pub(super) struct Asked {
    parts: PlanParts,
    purpose: AskPurpose,
    op: Op,
    asked: Timestamp,
}

impl Continuation {
    /// Goes on to the end.
    pub async fn finish<C: Clock, S: Store>(self, engine: Engine<C, S>) -> Result<Decided, EngineError> {
        let engine = &*engine.inner;
        let (mut decision, mut decided, candidates) = match self {
            Self::Ask(mut decision, rules, parked) => {
                let (parts, outcomes) = decision.run_later(engine, &rules, Step::Later(parked)).await?;
                let (decided, candidates) = decision.conclude(engine, rules, &parts, &outcomes, Waited::NOT);
                (decision, decided, candidates)
            }
            Self::Candidates(decision, decided, candidates) => (decision, decided, candidates),
        };
        decision.finish_candidates(engine, &mut decided.answer, candidates).await;
        // A peek that the store did not answer is no answer.
        Ok(decided)
    }
}

impl Asks {
    /// The same, until this deadline.
    pub fn until(self, deadline: Option<Timestamp>) -> Self {
        Self { deadline, ..self }
    }

    /// Asks the store, unless it failed before, and says when.
    #[inline]
    fn ask<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        op: Op,
        plan: &Plan<'_>,
        at: Timestamp,
    ) -> (Timestamp, Response) {
        // No store is asked about nothing, so that the answer is not degraded.
        if plan.charges().is_empty() {
            return (at, Response::Now(Ok(Reply::decided(at, Outcomes::new()))));
        }
        let Some(timeout) = engine.store.timeout() else {
            let ask = Ask { op, plan, now: at, deadline: None };
            let response = self.stages.store(&engine.clock, || engine.store.ask(&ask));
            return (at, response);
        };
        let now = engine.clock.now();
        let timeout = Nanos::new(timeout.as_nanos());
        let deadline = *self.deadline.get_or_insert_with(|| now.saturating_add(timeout));
        let ask = Ask { op, plan, now, deadline: Some(deadline) };
        let response = match &self.failure {
            Some(failure) => Response::Now(engine.store.ask_without(&ask, failure)),
            None => engine.store.ask(&ask),
        };
        (now, response)
    }

    /// Takes a reply; decides without the store if it did not answer.
    #[inline]
    fn receive<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        ask: &Ask<'_, '_>,
        reply: Result<Reply, StoreFailure>,
    ) -> Result<Reply, EngineError> {
        match reply.and_then(|reply| reply.checked(ask)) {
            Ok(reply) => {
                self.lease = match engine.store.is_local() || self.failure.is_some() {
                    true => reply.lease,
                    false => reply.lease.by_clock_of(ask.now),
                };
                if self.failure.is_none() && !ask.plan.charges().is_empty() {
                    self.decided = Some(reply.at);
                }
                Ok(reply)
            }
            Err(failure) => self.receive_failure(engine, ask, failure),
        }
    }

    #[cold]
    fn receive_failure<C: Clock, S: Store>(
        &mut self,
        engine: &Inner<C, S>,
        ask: &Ask<'_, '_>,
        failure: StoreFailure,
    ) -> Result<Reply, EngineError> {
        if !self.falls_back {
            return Err(failure.into());
        }
        let now = engine.clock.now();
        let reply = engine.store.ask_without(&Ask { now, ..*ask }, &failure)?;
        (self.lease, self.decided) = (reply.lease, None);
        self.failure = Some(failure);
        Ok(reply)
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
