//! One decision, step by step: which plans the store is asked about, and what its replies mean.
//!
//! ```text
//! loop { plan = next(); outcomes = the store's reply; if take(outcomes) says Decided { break } }
//! answer(), then each candidate
//! ```
//!
//! Most requests ask once. A request asks again if a limit has nothing left and borrows from a pool, and asks twice if attempts
//! are counted beside such a limit: first only to learn which limits borrow.
//!
//! It is pure, so it serves a store that answers at once as well as one that answers later: the caller asks.

use std::ops::Deref;

use super::{Answer, MatchedLimits, PlanParts, Request, Ruleset};
use crate::{Op, Outcome, Plan, PlanFull, Timestamp};

/// One decision on its way.
#[derive(Clone, Debug)]
pub struct Evaluation {
    matched: MatchedLimits,
    /// What the charges of the last plan are to the limits.
    parts: PlanParts,
    op: Op,
    now: Timestamp,
    /// Whether it is known which limits borrow.
    has_peeked: bool,
}

/// What to ask the store next about a plan.
#[derive(Clone, Copy, Debug)]
pub struct NextCall {
    /// What to do with the plan.
    pub op: Op,
    /// What the reply is for.
    pub phase: EvaluationPhase,
}

/// What a reply is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationPhase {
    /// The answer is made from it.
    Decide,
    /// It says which limits borrow; then the store is asked again.
    FindBorrowing,
}

/// What a reply means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Ask the store again, about another plan.
    AskAgain,
    /// The outcomes make the answer.
    Decided,
}

impl Evaluation {
    /// A decision about a request that falls under no limits yet, at `now`.
    #[inline]
    pub fn new(op: Op, now: Timestamp) -> Self {
        Self { matched: MatchedLimits::new(), parts: PlanParts::default(), op, now, has_peeked: false }
    }

    /// Finds the limits that a request falls under by these rules. Once, for each evaluation.
    pub fn match_request(&mut self, rules: &Ruleset, request: &Request<'_>) {
        self.matched.match_request(rules, request);
    }

    /// The limits that the request falls under.
    #[inline]
    pub fn matched(&self) -> &MatchedLimits {
        &self.matched
    }

    /// The instant of the decision.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets the instant of the decision, if that is known only after matching.
    #[inline]
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Starts again, at another instant or with another operation.
    pub fn restart(&mut self, op: Op, now: Timestamp) {
        (self.op, self.now, self.has_peeked) = (op, now, false);
        self.matched.clear_borrowing();
    }

    /// What to ask the store next, about the plan that is written to `plan`, which is empty.
    #[inline]
    pub fn next_call<'a>(&'a mut self, rules: &'a Ruleset, plan: &mut Plan<'a>) -> Result<NextCall, PlanFull> {
        let Self { matched, parts, op, now, has_peeked: is_peeked } = self;
        let matched = &*matched;
        matched.plan_into(plan, parts, rules, *now)?;
        let is_charged = op.charges() && !matched.is_denied_uncounted(plan);
        Ok(match is_charged && !*is_peeked && matched.needs_peek(rules, plan) {
            true => NextCall { op: Op::Peek, phase: EvaluationPhase::FindBorrowing },
            false => NextCall { op: if is_charged { *op } else { Op::Peek }, phase: EvaluationPhase::Decide },
        })
    }

    /// Takes the outcomes of the plan that was asked about.
    #[inline]
    pub fn apply_outcomes(&mut self, rules: &Ruleset, purpose: EvaluationPhase, outcomes: &[Outcome]) -> Progress {
        if self.matched.has_pool {
            let borrowing = self.parts.borrowing_limits(rules, &self.matched, outcomes, self.now);
            if !borrowing.is_empty() {
                self.matched.borrow_from_pools(&borrowing);
                self.has_peeked = false;
                return Progress::AskAgain;
            }
        }
        match purpose {
            EvaluationPhase::Decide => Progress::Decided,
            EvaluationPhase::FindBorrowing => {
                self.has_peeked = true;
                Progress::AskAgain
            }
        }
    }

    /// Makes the answer, from the last outcomes.
    #[inline]
    pub fn write_answer<R>(&self, answer: &mut Answer<R>, outcomes: &[Outcome])
    where
        R: Deref<Target = Ruleset>,
    {
        answer.decide(&self.matched, &self.parts, outcomes, self.now);
    }

    /// How many limits are only tried out.
    #[inline]
    pub fn candidate_count(&self) -> usize {
        self.matched.candidates().len()
    }

    /// What to ask about a limit that is only tried out; none if its key cannot be made. It is charged where it admits the
    /// request, unless a limit of another rule denies that. A lease that it would hold is not handed out.
    pub fn candidate_call<'a, R>(
        &'a self,
        rules: &'a Ruleset,
        index: usize,
        op: Op,
        answer: &Answer<R>,
    ) -> Option<(Op, Plan<'a>)>
    where
        R: Deref<Target = Ruleset>,
    {
        let candidate = &self.matched.candidates()[index];
        let rule = rules.resolve(&candidate.limit).rule;
        let is_denied = answer.limits().any(|limit| !std::ptr::eq(limit.rule, rule) && !limit.kind.passes());
        let op = if op == Op::Peek || is_denied { Op::Peek } else { Op::Check };
        self.matched.candidate_plan(rules, candidate).map(|plan| (op, plan))
    }

    /// Adds what a candidate says to the answer.
    pub fn add_candidate<R>(&self, answer: &mut Answer<R>, index: usize, outcome: Option<Outcome>)
    where
        R: Deref<Target = Ruleset>,
    {
        answer.add_candidate(&self.matched.candidates()[index], outcome);
    }
}
