//! The steps of one decision: which plans to send to the store, and what the replies mean.
//!
//! ```text
//! loop { plan = next_call(); outcomes = the store's reply; if apply_outcomes(outcomes) is Decided { break } }
//! write_answer(), then each candidate
//! ```
//!
//! Most requests ask the store once. A request asks again if a limit has nothing left and borrows from a pool. If
//! another limit counts denied attempts, it first peeks to find out which limits borrow. It also peeks first if it names
//! a counter several times and counts only for descriptors over their limits.
//!
//! The evaluation is pure: the caller asks the store. So it works for a store that answers immediately and for one that
//! answers later.

use std::ops::Deref;

use super::{
    Answer, MatchedLimits, OnOverrideMiss, OverrideSource, OverrideStatus, PlanParts, Request, Ruleset,
};
use crate::{Op, Outcome, Plan, PlanFull, Timestamp};

/// One decision in progress.
#[derive(Clone, Debug)]
pub struct Evaluation {
    matched: MatchedLimits,
    /// Which limits the charges of the last plan belong to.
    parts: PlanParts,
    op: Op,
    now: Timestamp,
    /// Whether a peek has shown which limits borrow and which descriptors count.
    has_peeked: bool,
}

/// The next call to the store.
#[derive(Clone, Copy, Debug)]
pub struct NextCall {
    /// The operation.
    pub op: Op,
    /// What the reply is used for.
    pub phase: EvaluationPhase,
}

/// What a reply is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationPhase {
    /// To make the answer.
    Decide,
    /// To find out which limits borrow and which descriptors count. Another call follows.
    Prepare,
}

/// What a reply means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Ask the store again, with another plan.
    AskAgain,
    /// The outcomes make the answer.
    Decided,
}

impl Evaluation {
    /// A decision at `now`. It has no limits until [`match_request`](Self::match_request) is called.
    #[inline]
    pub fn new(op: Op, now: Timestamp) -> Self {
        Self { matched: MatchedLimits::new(), parts: PlanParts::default(), op, now, has_peeked: false }
    }

    /// Finds the limits that a request falls under. Call it once for each evaluation.
    pub fn match_request(&mut self, rules: &Ruleset, request: &Request<'_>) {
        self.matched.match_request(rules, request);
    }

    /// Denies the request, because its domain has no rules. Call it after [`match_request`](Self::match_request).
    pub fn deny_unknown_domain(&mut self, request: &Request<'_>) {
        self.matched.deny_unknown_domain(request);
    }

    /// Applies the overrides of the request's keys. If some are not loaded, nothing is applied, unless `on_miss` or the rule
    /// says to go on without them. Call it after [`match_request`](Self::match_request), with the same
    /// request, when the instant of the decision is known.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "part of `MatchedLimits::apply_overrides`")]
    pub fn apply_overrides<S: OverrideSource>(
        &mut self,
        rules: &Ruleset,
        request: &Request<'_>,
        source: &S,
        on_miss: OnOverrideMiss,
    ) -> OverrideStatus {
        self.matched.apply_overrides(rules, request, self.now, source, on_miss)
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

    /// Sets the instant of the decision, if it is known only after matching.
    #[inline]
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Starts over, at another instant or with another operation.
    pub fn restart(&mut self, op: Op, now: Timestamp) {
        (self.op, self.now, self.has_peeked) = (op, now, false);
        self.matched.forget_replies();
    }

    /// Writes the next plan to `plan`, which must be empty, and returns the operation to ask the store for.
    #[inline]
    pub fn next_call<'a>(
        &'a mut self,
        rules: &'a Ruleset,
        plan: &mut Plan<'a>,
    ) -> Result<NextCall, PlanFull> {
        let Self { matched, parts, op, now, has_peeked } = self;
        let matched = &*matched;
        matched.plan_into(plan, parts, rules, *now)?;
        let is_charged = op.charges() && !matched.is_denied_uncounted(plan);
        let needs_peek = is_charged && matched.needs_peek(rules, plan) || parts.repeats_if_over(plan);
        Ok(match !*has_peeked && needs_peek {
            true => NextCall { op: Op::Peek, phase: EvaluationPhase::Prepare },
            false => NextCall { op: if is_charged { *op } else { Op::Peek }, phase: EvaluationPhase::Decide },
        })
    }

    /// Applies the outcomes of the last plan.
    #[inline]
    pub fn apply_outcomes(
        &mut self,
        rules: &Ruleset,
        phase: EvaluationPhase,
        outcomes: &[Outcome],
    ) -> Progress {
        if self.matched.has_pool {
            let borrowing = self.parts.borrowing_limits(rules, &self.matched, outcomes, self.now);
            if !borrowing.is_empty() {
                self.matched.borrow_from_pools(&borrowing);
                self.has_peeked = false;
                return Progress::AskAgain;
            }
        }
        match phase {
            EvaluationPhase::Decide => Progress::Decided,
            EvaluationPhase::Prepare => {
                self.has_peeked = true;
                if self.parts.has_shared {
                    self.matched.apply_peek(rules, &self.parts.parts, outcomes);
                }
                Progress::AskAgain
            }
        }
    }

    /// Writes the answer, from the last outcomes.
    #[inline]
    pub fn write_answer<R>(&self, answer: &mut Answer<R>, outcomes: &[Outcome])
    where
        R: Deref<Target = Ruleset>,
    {
        answer.decide(&self.matched, &self.parts, outcomes, self.now);
        if let Some(entry) = &self.matched.plain {
            answer.plain = self.matched.applied_plain(entry.clone());
        }
    }

    /// As [`write_answer`](Self::write_answer), for the last answer of this evaluation: it takes the overrides that applied.
    #[inline]
    pub fn write_last_answer<R>(&mut self, answer: &mut Answer<R>, outcomes: &[Outcome])
    where
        R: Deref<Target = Ruleset>,
    {
        answer.decide(&self.matched, &self.parts, outcomes, self.now);
        if let Some(entry) = self.matched.plain.take() {
            answer.plain = self.matched.applied_plain(entry);
        }
    }

    /// The number of candidate limits, which are only tried out.
    #[inline]
    pub fn candidate_count(&self) -> usize {
        self.matched.candidates().len()
    }

    /// The call for a candidate limit. `None` if the descriptor lacks a part of its key. The candidate is charged if it
    /// admits the request, unless a limit of another rule denies the request. It never hands out a lease.
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

    /// Adds the outcome of a candidate to the answer.
    pub fn add_candidate<R>(&self, answer: &mut Answer<R>, index: usize, outcome: Option<Outcome>)
    where
        R: Deref<Target = Ruleset>,
    {
        answer.add_candidate(&self.matched.candidates()[index], outcome);
    }
}
