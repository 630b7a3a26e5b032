//! What the rules make of the outcomes: the answer to a request.

use std::cmp::Reverse;
use std::ops::Deref;

use smallvec::SmallVec;

use super::compiled_limit::CompiledLimit;
use super::matched::{LimitRef, MatchedLimit, MatchedLimits, ResolvedLimit};
use super::plan_draft::{PartCounter, PlanPart, PlanParts};
use super::{Action, ElasticSource, LimitId, Margin, Rule, RuleLimit, Ruleset};
use crate::{Mode, Nanos, OnStoreFailure, Outcome, Timestamp, OutcomeKind, Wait};

/// What becomes of a request, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AnswerKind {
    /// It passes.
    Allowed,
    /// It passes; a dry run would have denied it.
    ShadowDenied,
    /// It passes; a quota is exceeded.
    OverQuota,
    /// It passes; it is over a limit by no more than that limit tolerates.
    Soft,
    /// It passes when its delay is over.
    Delayed,
    /// It is to look as if it passed, and to be dropped.
    ShadowBanned,
    /// It does not pass.
    Denied,
    /// It does not pass, because the shared store does not answer and a rule says that nothing passes then.
    Unavailable,
}

/// This many limits need no allocation. Few, because an answer is moved, and each limit takes 112 bytes.
const LIMITS_INLINE: usize = 2;

/// The answer to a request.
///
/// It holds on to the rules that it was made by, `R`: its limits refer to them.
#[derive(Clone, Debug)]
#[must_use = "an answer that is not looked at limits nothing"]
pub struct Answer<R> {
    rules: R,
    /// What becomes of the request.
    pub kind: AnswerKind,
    /// What all limits together still admit: the least. Limits that are only observed count if there are no others.
    pub remaining: u64,
    /// When all of them would admit it; none if it passes.
    pub retry_after: Wait,
    /// When all of its keys are as if never seen.
    pub reset_after: Nanos,
    /// How long the request is to be held.
    pub delay: Nanos,
    /// The position among the limits of the one that decided: of denials the first that asks for the longest wait, else the
    /// first with the least left. None if the request falls under no limit.
    pub decided_by: Option<usize>,
    /// Whether some limit was decided without the store that a fleet shares, because that did not answer.
    pub degraded: bool,
    limits: SmallVec<[LimitOutcome; LIMITS_INLINE]>,
    candidates: Vec<LimitOutcome>,
}

/// What one limit says, as an answer keeps it.
#[derive(Clone, Debug)]
struct LimitOutcome {
    limit: LimitRef,
    descriptor: u32,
    kind: AnswerKind,
    cost: u64,
    outcome: Outcome,
    key_status: KeyStatus,
    /// L, if it is not the written one.
    resized_to: Option<u64>,
    /// Whether clients see its numbers: not those of a dry run.
    is_visible: bool,
}

/// What one limit says, with its rule.
#[derive(Clone, Copy, Debug)]
pub struct LimitAnswer<'a> {
    /// The rule of the limit.
    pub rule: &'a Rule,
    /// The limit and how the rule applies it.
    pub limit: &'a RuleLimit,
    /// The name of the limit within its rule, or its position.
    pub id: &'a LimitId,
    /// Which descriptor falls under the limit, from 0.
    pub descriptor: usize,
    /// What would become of the request if there were no other limit.
    pub kind: AnswerKind,
    /// The units that it was asked for.
    pub cost: u64,
    /// The numbers.
    pub outcome: &'a Outcome,
    /// Whether its counter was asked: a request that lacks a part of the key may be denied for that alone.
    pub key_status: KeyStatus,
    resized_to: Option<u64>,
    compiled: &'a CompiledLimit,
}

/// Whether a limit's counter was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    /// It was.
    Present,
    /// It was not: the descriptor lacks a part of the key.
    Missing,
}

impl AnswerKind {
    /// Whether the request goes on, now or when its delay is over.
    pub fn passes(self) -> bool {
        self <= Self::Delayed
    }

    /// As it is written in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::ShadowDenied => "shadow_denied",
            Self::OverQuota => "over_quota",
            Self::Soft => "soft",
            Self::Delayed => "delayed",
            Self::ShadowBanned => "shadow_banned",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
        }
    }
}

impl<R: Deref<Target = Ruleset>> Answer<R> {
    /// The answer to a request that is not decided yet, by these rules: it passes, and falls under no limit.
    ///
    /// An answer is large. It is made where it stays, and [decided](super::Evaluation::answer) there.
    #[inline]
    pub fn undecided(rules: R) -> Self {
        Self {
            rules,
            kind: AnswerKind::Allowed,
            remaining: u64::MAX,
            retry_after: Wait::NONE,
            reset_after: Nanos::ZERO,
            delay: Nanos::ZERO,
            decided_by: None,
            degraded: false,
            limits: SmallVec::new(),
            candidates: Vec::new(),
        }
    }

    /// Merges the outcomes of a plan for these limits.
    #[inline]
    pub(super) fn decide(
        &mut self,
        matched: &MatchedLimits,
        parts: &PlanParts,
        outcomes: &[Outcome],
        now: Timestamp,
    ) {
        self.limits.clear();
        for (index, matched) in (0..).zip(matched.all()) {
            let parts = PartOutcomes { parts: &parts.0, limit: index, outcomes, now };
            self.limits.push(LimitOutcome::from_parts(matched, self.rules.resolve(&matched.limit), &parts));
        }
        self.merge_limits();
    }

    /// The rules that the answer was made by.
    #[inline]
    pub fn rules(&self) -> &Ruleset {
        &self.rules
    }

    /// How the answer holds on to its rules.
    pub fn rules_mut(&mut self) -> &mut R {
        &mut self.rules
    }

    /// The rules, without the answer.
    pub fn into_rules(self) -> R {
        self.rules
    }

    /// What each limit says.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = LimitAnswer<'_>> + DoubleEndedIterator + Clone {
        self.limits.iter().map(|limit| self.limit_answer(limit))
    }

    /// What the limit at a position says.
    pub fn limit(&self, index: usize) -> Option<LimitAnswer<'_>> {
        self.limits.get(index).map(|limit| self.limit_answer(limit))
    }

    /// What the limits say that are only tried out.
    pub fn candidates(&self) -> impl ExactSizeIterator<Item = LimitAnswer<'_>> + Clone {
        self.candidates.iter().map(|limit| self.limit_answer(limit))
    }

    /// The limit that decided.
    #[inline]
    pub fn decider(&self) -> Option<LimitAnswer<'_>> {
        self.decided_by.map(|index| self.limit_answer(&self.limits[index]))
    }

    /// The limit that decided what becomes of one of the descriptors.
    pub fn descriptor_decider(&self, number: usize) -> Option<LimitAnswer<'_>> {
        self.decider_among(|limit| limit.descriptor == number)
    }

    /// The limit that would have decided if there were no others than these.
    pub fn decider_among(&self, is_wanted: impl Fn(&LimitAnswer<'_>) -> bool) -> Option<LimitAnswer<'_>> {
        let wanted = self.limits.iter().filter(|limit| is_wanted(&self.limit_answer(limit)));
        wanted.rev().max_by_key(|limit| limit.precedence()).map(|limit| self.limit_answer(limit))
    }

    /// Marks an answer that was given without the shared store, and denies the request where a limit says so. Limits that were
    /// not asked at all stay as they are.
    pub fn degrade(&mut self, retry_after: Wait) {
        self.degraded = !self.limits.is_empty();
        let denies = |limit: &LimitOutcome| {
            let policy = self.rules.resolve(&limit.limit).limit.policy;
            limit.key_status == KeyStatus::Present
                && policy.on_store_failure == OnStoreFailure::Deny
                && policy.mode != Mode::Local
        };
        let denying: SmallVec<[usize; 4]> =
            (0..self.limits.len()).filter(|index| denies(&self.limits[*index])).collect();
        for index in &denying {
            self.limits[*index].kind = AnswerKind::Unavailable;
            self.limits[*index].outcome = Outcome {
                kind: OutcomeKind::Denied,
                remaining: 0,
                retry_after,
                reset_after: Nanos::ZERO,
                delay: Nanos::ZERO,
            };
        }
        if !denying.is_empty() {
            self.merge_limits();
        }
    }

    pub(super) fn add_candidate(&mut self, candidate: &MatchedLimit, outcome: Option<Outcome>) {
        let resolved = self.rules.resolve(&candidate.limit);
        self.candidates.push(match outcome {
            Some(outcome) => LimitOutcome::new(candidate, resolved, outcome, KeyStatus::Present),
            None => LimitOutcome::new(candidate, resolved, missing_key_outcome(), KeyStatus::Missing),
        });
    }

    #[inline]
    fn limit_answer<'a>(&'a self, limit: &'a LimitOutcome) -> LimitAnswer<'a> {
        let ResolvedLimit { rule, limit: compiled } = self.rules.resolve(&limit.limit);
        LimitAnswer {
            rule,
            limit: &compiled.limit,
            id: &compiled.id,
            descriptor: limit.descriptor as usize,
            kind: limit.kind,
            cost: limit.cost,
            outcome: &limit.outcome,
            key_status: limit.key_status,
            resized_to: limit.resized_to,
            compiled,
        }
    }
}

impl<R> Answer<R> {
    /// Denies the request by the limit at `index` whatever its counter says, for at least `retry_after`: too many requests wait
    /// for it.
    pub fn deny(&mut self, index: usize, retry_after: Wait) {
        if let Some(limit) = self.limits.get_mut(index) {
            let retry_after = limit.outcome.retry_after.max(retry_after);
            limit.kind = AnswerKind::Denied;
            limit.outcome = Outcome { kind: OutcomeKind::Denied, retry_after, ..limit.outcome };
        }
        self.merge_limits();
    }

    /// What all limits say together.
    fn merge_limits(&mut self) {
        let limits = self.limits.as_slice();
        self.decided_by = match limits {
            [] => None,
            [_] => Some(0),
            _ => (0..limits.len()).rev().max_by_key(|index| limits[*index].precedence()),
        };
        self.kind = self.decided_by.map_or(AnswerKind::Allowed, |index| limits[index].kind);
        let none_is_shown = !limits.iter().any(|limit| limit.is_visible);
        let (mut remaining, mut retry_after) = (u64::MAX, Wait::NONE);
        let (mut reset_after, mut delay) = (Nanos::ZERO, Nanos::ZERO);
        for LimitOutcome { kind: fate, outcome, is_visible: is_shown, .. } in limits {
            if !fate.passes() {
                retry_after = retry_after.max(outcome.retry_after);
            }
            if *is_shown || none_is_shown {
                remaining = remaining.min(outcome.remaining);
                reset_after = reset_after.max(outcome.reset_after);
                delay = delay.max(outcome.delay);
            }
        }
        (self.remaining, self.retry_after, self.reset_after) = (remaining, retry_after, reset_after);
        self.delay = if self.kind.passes() { delay } else { Nanos::ZERO };
    }
}

impl<'a> LimitAnswer<'a> {
    /// L for this request: the written one, unless a signal resizes it or the request brought its own.
    pub fn current_limit(&self) -> u64 {
        self.resized_to.unwrap_or_else(|| self.limit.limit.rate().limit())
    }

    /// The limit as it is written in rules. Answers repeat it, so the text is made once.
    pub fn spec(&self) -> &'a str {
        &self.compiled.spec
    }

    /// What becomes of its requests while the shared store does not answer.
    pub fn on_store_failure(&self) -> OnStoreFailure {
        self.compiled.policy.on_store_failure
    }
}

impl LimitOutcome {
    fn new(matched: &MatchedLimit, resolved: ResolvedLimit<'_>, outcome: Outcome, asked: KeyStatus) -> Self {
        let action = &resolved.limit.limit.action;
        let fate = match (outcome.kind, action) {
            (OutcomeKind::Denied, Action::Shadow) => AnswerKind::ShadowDenied,
            (OutcomeKind::Denied, Action::Quota) => AnswerKind::OverQuota,
            (OutcomeKind::Denied, Action::Soft(Margin::Unlimited)) => AnswerKind::Soft,
            (OutcomeKind::Denied, Action::ShadowBan) => AnswerKind::ShadowBanned,
            (OutcomeKind::Denied, _) => AnswerKind::Denied,
            (OutcomeKind::Allowed, Action::Shadow | Action::Quota) => AnswerKind::Allowed,
            (OutcomeKind::Allowed, _) if outcome.delay > Nanos::ZERO => AnswerKind::Delayed,
            (OutcomeKind::Allowed, _) => AnswerKind::Allowed,
        };
        Self {
            limit: matched.limit.clone(),
            descriptor: matched.descriptor,
            kind: fate,
            cost: matched.cost,
            outcome,
            key_status: asked,
            resized_to: matched.resized.map(|resized| resized.units),
            is_visible: !matches!(action, Action::Shadow | Action::Quota),
        }
    }

    fn from_parts(matched: &MatchedLimit, resolved: ResolvedLimit<'_>, parts: &PartOutcomes<'_>) -> Self {
        let Some(main) = parts.merged(PartCounter::Main).filter(|_| matched.has_key()) else {
            return Self::new(matched, resolved, missing_key_outcome(), KeyStatus::Missing);
        };
        match (&resolved.limit.limit.action, matched.granted_outcome.as_deref()) {
            (Action::Soft(Margin::Percent(_)), _) => {
                let soft = parts.merged(PartCounter::Secondary).unwrap_or(main);
                let outcome = Outcome { remaining: soft.remaining.min(main.remaining), ..main };
                let is_over = soft.kind == OutcomeKind::Denied;
                let limit = Self::new(matched, resolved, outcome, KeyStatus::Present);
                if is_over { limit.mark_at_least(AnswerKind::Soft) } else { limit }
            }
            (Action::Elastic(elastic), Some(granted)) if matches!(elastic.source, ElasticSource::Pool(_)) => {
                let pool = parts.merged(PartCounter::Pool).unwrap_or(main);
                let outcome = Outcome {
                    kind: main.kind.max(pool.kind),
                    remaining: granted.remaining.min(main.remaining),
                    // Either the pool has room again, or what is always granted has.
                    retry_after: main.retry_after.max(pool.retry_after.min(granted.retry_after)),
                    reset_after: main.reset_after.max(granted.reset_after),
                    delay: main.delay,
                };
                Self::new(matched, resolved, outcome, KeyStatus::Present).mark_at_least(AnswerKind::Soft)
            }
            _ => {
                let second = resolved.limit.secondary.as_ref().and_then(|_| parts.merged(PartCounter::Secondary));
                let remaining = second.map_or(main.remaining, |second| second.remaining.min(main.remaining));
                Self::new(matched, resolved, Outcome { remaining, ..main }, KeyStatus::Present)
            }
        }
    }

    /// The same, marked at least as this if the request passes.
    fn mark_at_least(self, mark: AnswerKind) -> Self {
        let fate = if self.kind.passes() { self.kind.max(mark) } else { self.kind };
        Self { kind: fate, ..self }
    }

    /// Which of two limits decides: one that denies the request, and of those first one that is unavailable, then the one with
    /// the longest wait; then one that leaves a mark; then, of those that are shown, the one with the least left.
    fn precedence(&self) -> impl Ord + use<> {
        let (wait, mark, remaining) = match self.kind.passes() {
            true => (None, self.kind, self.outcome.remaining),
            false => {
                let is_unavailable = self.kind == AnswerKind::Unavailable;
                (Some((is_unavailable, self.outcome.retry_after)), AnswerKind::Allowed, 0)
            }
        };
        (wait, mark, self.is_visible, Reverse(remaining))
    }
}

/// The outcomes of one limit's counters.
pub(super) struct PartOutcomes<'a> {
    /// The parts of the plan, of all limits.
    pub parts: &'a [PlanPart],
    /// Which limit.
    pub limit: u32,
    pub outcomes: &'a [Outcome],
    pub now: Timestamp,
}

impl PartOutcomes<'_> {
    /// The outcome of one of its counters and of those that it superseded, together.
    pub fn merged(&self, counter: PartCounter) -> Option<Outcome> {
        let own = self.parts.iter().filter(|part| part.limit == self.limit && part.counter == counter);
        own.map(|part| self.outcome(part)).reduce(|one, other| Outcome {
            kind: one.kind.max(other.kind),
            remaining: one.remaining.min(other.remaining),
            retry_after: one.retry_after.max(other.retry_after),
            reset_after: one.reset_after.max(other.reset_after),
            delay: one.delay.max(other.delay),
        })
    }

    /// The outcome of a counter. A superseded one delays no request for longer than it is enforced.
    fn outcome(&self, part: &PlanPart) -> Outcome {
        let outcome = self.outcomes[part.charge as usize];
        match part.until {
            Some(until) => {
                let left = u128::from(until.as_nanos().saturating_sub(self.now.as_nanos()));
                Outcome { retry_after: outcome.retry_after.min(Wait::of(Nanos::new(left))), ..outcome }
            }
            None => outcome,
        }
    }
}

/// Denied for good: waiting does not bring the attribute.
fn missing_key_outcome() -> Outcome {
    Outcome {
        kind: OutcomeKind::Denied,
        remaining: 0,
        retry_after: Wait::NEVER,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
    }
}
