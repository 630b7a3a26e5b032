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

use super::{Answer, MatchedLimits, PlanDraft, PlanParts, Request, Ruleset};
use crate::{Op, Outcome, Plan, PlanFull, Timestamp};

/// One decision on its way.
#[derive(Clone, Debug)]
pub struct Evaluation {
    matched: MatchedLimits,
    op: Op,
    now: Timestamp,
    /// Whether it is known which limits borrow.
    is_peeked: bool,
}

/// What to ask the store next.
#[derive(Debug)]
pub struct NextAsk<'a> {
    /// What to do with the plan.
    pub op: Op,
    /// The plan.
    pub draft: PlanDraft<'a>,
    /// What the reply is for.
    pub purpose: AskPurpose,
}

/// What a reply is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskPurpose {
    /// The answer is made from it.
    Answer,
    /// It says which limits borrow; then the store is asked again.
    Borrowing,
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
    /// A decision about these limits at `now`.
    #[inline]
    pub fn new(matched: MatchedLimits, op: Op, now: Timestamp) -> Self {
        Self { matched, op, now, is_peeked: false }
    }

    /// A decision about a request by these rules, at `now`.
    #[inline]
    pub fn of(rules: &Ruleset, request: &Request<'_>, op: Op, now: Timestamp) -> Self {
        Self::new(rules.matched_by(request), op, now)
    }

    /// The limits that the request falls under.
    pub fn matched(&self) -> &MatchedLimits {
        &self.matched
    }

    /// The instant of the decision.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Starts again, at another instant or with another operation.
    pub fn restart(&mut self, op: Op, now: Timestamp) {
        (self.op, self.now, self.is_peeked) = (op, now, false);
        self.matched.repay();
    }

    /// What to ask the store next.
    #[inline]
    pub fn next<'a>(&'a self, rules: &'a Ruleset) -> Result<NextAsk<'a>, PlanFull> {
        let draft = self.matched.plan(rules, self.now)?;
        let is_charged = self.op.charges() && !draft.is_denied_without_trace();
        let is_peeked_first = is_charged && !self.is_peeked && draft.has_to_be_peeked(rules, &self.matched);
        Ok(match is_peeked_first {
            true => NextAsk { op: Op::Peek, draft, purpose: AskPurpose::Borrowing },
            false => NextAsk {
                op: if is_charged { self.op } else { Op::Peek },
                draft,
                purpose: AskPurpose::Answer,
            },
        })
    }

    /// Takes the outcomes of the plan that was asked about.
    #[inline]
    pub fn take(
        &mut self,
        rules: &Ruleset,
        parts: &PlanParts,
        purpose: AskPurpose,
        outcomes: &[Outcome],
    ) -> Progress {
        let borrowing = parts.borrowing(rules, &self.matched, outcomes, self.now);
        if !borrowing.is_empty() {
            self.matched.borrow(&borrowing);
            self.is_peeked = false;
            return Progress::AskAgain;
        }
        match purpose {
            AskPurpose::Answer => Progress::Decided,
            AskPurpose::Borrowing => {
                self.is_peeked = true;
                Progress::AskAgain
            }
        }
    }

    /// The answer, from the last outcomes.
    #[inline]
    pub fn answer<R>(&self, rules: R, parts: &PlanParts, outcomes: &[Outcome]) -> Answer<R>
    where
        R: Deref<Target = Ruleset>,
    {
        Answer::merge(rules, &self.matched, parts, outcomes, self.now)
    }

    /// How many limits are only tried out.
    #[inline]
    pub fn candidates(&self) -> usize {
        self.matched.candidates().len()
    }

    /// What to ask about a limit that is only tried out; none if its key cannot be made. It is charged where it admits the
    /// request, unless a limit of another rule denies that. A lease that it would hold is not handed out.
    pub fn candidate<'a, R>(
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
        let is_denied = answer.limits().any(|limit| !std::ptr::eq(limit.rule, rule) && !limit.fate.passes());
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
