//! The rules in force, and what they decide.

use std::cell::Cell;
use std::sync::Arc;

use arc_swap::Guard;
use tidegate_core::rules::{Answer, LimitAnswer, Request, Ruleset, Touches};
use tidegate_core::{Nanos, Plan, PlanFull, Timestamp};

use super::Engine;
use super::stages::Watch;
use crate::{Clock, Lease, Outcomes};

/// The rules that were in force when this was taken. Answers point into them.
///
/// What is asked here is asked of this process's memory, at once, also where the engine is [sharing](Engine::sharing)
/// another store: that one answers later, so [`Engine`] has futures of the same names.
pub struct InForce<'e, C> {
    engine: &'e Engine<C>,
    rules: Guard<Arc<Ruleset>>,
}

/// Whether an answer changes anything.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'h> {
    /// It charges what it is asked for.
    Charge,
    /// It does not.
    Look,
    /// It charges, and what concurrency limits give is to be given back.
    Hold(&'h Hold),
}

/// What a request holds if it is admitted.
pub(super) struct Hold {
    /// How long it is wanted for, if that is less than the limits would give.
    pub ttl: Option<Nanos>,
    pub lease: Cell<Option<Lease>>,
}

impl<'e, C: Clock> InForce<'e, C> {
    pub(super) fn new(engine: &'e Engine<C>, rules: Guard<Arc<Ruleset>>) -> Self {
        Self { engine, rules }
    }

    /// The rules themselves.
    pub fn ruleset(&self) -> &Ruleset {
        &self.rules
    }

    /// Decides a request: all limits that it touches are charged, or none is.
    ///
    /// Does not wait. A request that is over a limit with the action `delay` is denied here, with how long it would
    /// have had to wait. [`Engine::decide`] waits.
    ///
    /// What a concurrency limit gives to a check nobody can give back; it is held for the limit's ttl. To hold it and
    /// give it back, [`acquire`](Self::acquire).
    pub fn check(&self, request: &Request<'_>) -> Result<Answer<'_>, PlanFull> {
        self.check_at(request, self.engine.clock.now())
    }

    /// As [`check`](Self::check), at an instant of the caller's.
    pub fn check_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Answer<'_>, PlanFull> {
        self.decide(request, now, Purpose::Charge)
    }

    /// Answers as [`check`](Self::check) would and changes nothing.
    pub fn peek(&self, request: &Request<'_>) -> Result<Answer<'_>, PlanFull> {
        self.peek_at(request, self.engine.clock.now())
    }

    /// As [`peek`](Self::peek), at an instant of the caller's.
    pub fn peek_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Answer<'_>, PlanFull> {
        self.decide(request, now, Purpose::Look)
    }

    /// Gives back what a request was charged and did not use. Of an elastic limit with a pool, what is always granted gets
    /// it, even if the pool was charged.
    pub fn refund(&self, request: &Request<'_>) -> Result<(), PlanFull> {
        let (touches, now) = (self.rules.touched_by(request), self.engine.clock.now());
        self.engine.store.refund(&touches.plan(now)?.plan, now);
        self.engine.nudge(&touches, now);
        Ok(())
    }

    /// Forgets all that the keys of a request used.
    pub fn reset(&self, request: &Request<'_>) -> Result<(), PlanFull> {
        let (touches, now) = (self.rules.touched_by(request), self.engine.clock.now());
        self.engine.store.reset(&touches.plan(now)?.plan);
        self.engine.nudge(&touches, now);
        Ok(())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.engine.clock.now()
    }

    pub(super) fn engine(&self) -> &'e Engine<C> {
        self.engine
    }

    pub(super) fn decide(
        &self,
        request: &Request<'_>,
        now: Timestamp,
        asking: Purpose<'_>,
    ) -> Result<Answer<'_>, PlanFull> {
        let touches = self.rules.touched_by(request);
        let mut answer = self.engine.settle(&touches, now, asking, Watch::OFF)?;
        self.engine.try_candidates(&touches, &mut answer, now, asking);
        Ok(answer)
    }
}

impl<C: Clock> Engine<C> {
    /// What all limits that are in force say. Nothing is charged that is only tried out.
    pub(super) fn settle<'r>(
        &self,
        touches: &Touches<'r>,
        now: Timestamp,
        asking: Purpose<'_>,
        watch: Watch<'_>,
    ) -> Result<Answer<'r>, PlanFull> {
        let ask = |plan: &Plan<'_>, asking| watch.store(&self.clock, || self.ask(plan, now, asking));
        let mut turned: Option<Touches<'r>> = None;
        // Once, and once more for each limit that turns to a pool.
        loop {
            let touches = turned.as_ref().unwrap_or(touches);
            let drawn = touches.plan(now)?;
            let foresees = !matches!(asking, Purpose::Look) && drawn.is_to_be_foreseen(touches);
            let first = if foresees { Purpose::Look } else { asking };
            let mut outcomes = ask(&drawn.plan, first);
            let mut turning = drawn.turning(touches, &outcomes, now);
            if foresees && turning.is_empty() {
                outcomes = ask(&drawn.plan, asking);
                turning = drawn.turning(touches, &outcomes, now);
            }
            if turning.is_empty() {
                return Ok(Answer::merge(touches, &drawn, &outcomes, now));
            }
            drop(drawn);
            let mut turn = touches.clone();
            turn.turn_to_pools(&turning);
            turned = Some(turn);
        }
    }

    fn ask(&self, plan: &Plan<'_>, now: Timestamp, asking: Purpose<'_>) -> Outcomes {
        match asking {
            Purpose::Charge => self.store.check(plan, now),
            Purpose::Look => self.store.peek(plan, now),
            Purpose::Hold(hold) => {
                let (outcomes, lease) = self.store.acquire(plan, now, hold.ttl);
                hold.lease.set(lease);
                outcomes
            }
        }
    }

    /// Asks the limits that are only tried out what they would have said in place of their rule's own: they are charged
    /// where they admit the request, unless another rule keeps it from passing. What they hold nobody gives back.
    pub(super) fn try_candidates<'r>(
        &self,
        touches: &Touches<'r>,
        answer: &mut Answer<'r>,
        now: Timestamp,
        asking: Purpose<'_>,
    ) {
        let asking = if let Purpose::Hold(_) = asking { Purpose::Charge } else { asking };
        for candidate in touches.candidates() {
            let is_other = |limit: &&LimitAnswer<'_>| !std::ptr::eq(limit.rule, candidate.rule);
            let blocked = answer.limits.iter().filter(is_other).any(|limit| !limit.fate.passes());
            let asking = if blocked { Purpose::Look } else { asking };
            let outcome = touches.candidate_charge(candidate).map(|charge| {
                let mut plan = Plan::new();
                // An empty plan has room for one.
                let _ = plan.add(charge);
                self.ask(&plan, now, asking)[0]
            });
            answer.candidates.push(LimitAnswer::of_candidate(candidate, outcome));
        }
    }
}

impl<C> std::fmt::Debug for InForce<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InForce").finish_non_exhaustive()
    }
}
