//! The answer to a request: what the rules make of the outcomes.

use std::cmp::Reverse;
use std::ops::Deref;

use smallvec::SmallVec;

use super::compiled_limit::{CompiledLimit, HeaderTexts};
use super::matched::{LimitRef, MatchedKey, MatchedLimit, MatchedLimits, ResolvedLimit};
use super::plan_draft::{PartCounter, PlanPart, PlanParts};
use super::{Action, AppliedOverride, ElasticSource, LiftedLimit, Margin, Rule, RuleLimit, Ruleset};
use crate::algorithm::{CountDenied, PackedAlgorithm};
use crate::{
    Algorithm, AnswerKind, LimitId, Mode, Nanos, OnStoreFailure, Outcome, OutcomeKind, Timestamp, Wait,
};

/// An answer with up to this many limits needs no allocation. The number is small because an answer is moved, and each
/// limit takes 112 bytes.
const LIMITS_INLINE: usize = 2;

/// The answer to a request.
///
/// It keeps the rules `R` that it was made by, because its limits refer to them.
#[derive(Clone, Debug)]
#[must_use = "an unused answer limits nothing"]
pub struct Answer<R> {
    rules: R,
    /// What happens to the request.
    pub kind: AnswerKind,
    /// The least that any limit still admits. Limits that are only observed count if there are no others.
    pub remaining: u64,
    /// The wait after which all limits would admit the request. [`Wait::NONE`] if it passes.
    pub retry_after: Wait,
    /// The wait after which all keys of the request are as if they were never seen.
    pub reset_after: Nanos,
    /// How long the request must be held.
    pub delay: Nanos,
    /// The position of the limit that decided. If limits deny the request, it is the first with the longest wait,
    /// otherwise the first with the least remaining. `None` if the request falls under no limit.
    pub decided_by: Option<usize>,
    /// Whether a limit was decided without the shared store, because the store did not answer.
    pub degraded: bool,
    /// Whether it is degraded because a key of the request holds something else than a counter. Other requests are not
    /// affected.
    pub unreadable_key: bool,
    /// Whether the shared store was charged, but fewer of its replicas have the charge than it should wait for.
    pub unreplicated: bool,
    /// Whether the request's domain has rules.
    pub is_domain_known: bool,
    limits: SmallVec<[LimitOutcome; LIMITS_INLINE]>,
    candidates: Vec<LimitOutcome>,
    /// The indices of the descriptors that a rule without limits applies to, in ascending order.
    unlimited: Vec<u32>,
    /// The limits that do not apply because of overrides.
    lifted: Vec<LiftedLimit>,
    /// The override of the one limit that is a [`LimitRef::Values`].
    pub(super) plain: Option<AppliedOverride>,
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
    /// The index of the descriptor that falls under the limit, from 0.
    pub descriptor: usize,
    /// What would happen to the request if there were no other limit.
    pub kind: AnswerKind,
    /// The units that the request takes of this limit.
    pub cost: u64,
    /// The numbers.
    pub outcome: &'a Outcome,
    /// Whether the request has all parts of the key. A limit may deny a request without them, without counting.
    pub key_status: KeyStatus,
    /// Whether the request brought the limit along. Such a limit is in no rules file.
    pub is_request_limit: bool,
    /// The override that the limit has its values from, or that blocks the key.
    pub applied_override: Option<&'a AppliedOverride>,
    resized_to: Option<u64>,
    compiled: &'a CompiledLimit,
}

/// Whether the descriptor has all parts of a limit's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    /// It has all parts, so the counter was asked.
    Present,
    /// It lacks a part, so the counter was not asked.
    Missing,
    /// The key is blocked by an override, so the counter was not asked.
    Blocked,
}

/// What one limit says, in the form that an answer keeps.
#[derive(Clone, Debug)]
struct LimitOutcome {
    limit: LimitRef,
    descriptor: u32,
    kind: AnswerKind,
    cost: u64,
    outcome: Outcome,
    key_status: KeyStatus,
    /// The current L, if it is not the written one.
    resized_to: Option<u64>,
    /// Whether clients see the limit's numbers. They do not see those of a dry run.
    is_visible: bool,
    /// Whether it is a quota that counts for the decision.
    is_quota: bool,
}

/// The outcomes of one limit's counters.
pub(super) struct PartOutcomes<'a> {
    /// The parts of the plan, for all limits.
    pub parts: &'a [PlanPart],
    /// The index of the limit.
    pub limit: u32,
    pub outcomes: &'a [Outcome],
    pub now: Timestamp,
}

impl<R: Deref<Target = Ruleset>> Answer<R> {
    /// The answer to a request that is not decided yet: it passes and falls under no limit.
    ///
    /// An answer is large. Create it in its final location, and let
    /// [`Evaluation::write_answer`](super::Evaluation::write_answer) write to it there.
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
            unreadable_key: false,
            unreplicated: false,
            is_domain_known: true,
            limits: SmallVec::new(),
            candidates: Vec::new(),
            unlimited: Vec::new(),
            lifted: Vec::new(),
            plain: None,
        }
    }

    /// Merges the outcomes of a plan for the matched limits.
    #[inline]
    pub(super) fn decide(
        &mut self,
        matched: &MatchedLimits,
        parts: &PlanParts,
        outcomes: &[Outcome],
        now: Timestamp,
    ) {
        self.is_domain_known = matched.is_domain_known();
        self.limits.clear();
        for (index, matched) in (0..).zip(matched.all()) {
            let parts = PartOutcomes { parts: &parts.parts, limit: index, outcomes, now };
            self.limits.push(LimitOutcome::from_parts(matched, self.rules.resolve(&matched.limit), &parts));
        }
        if parts.has_shared {
            self.separate_shared_windows(matched, &parts.parts, outcomes);
        }
        self.unlimited.clone_from(&matched.unlimited);
        if !matched.lifted.is_empty() {
            self.lifted.clone_from(&matched.lifted);
        }
        self.merge_limits();
    }

    /// The rules that the answer was made by.
    #[inline]
    pub fn rules(&self) -> &Ruleset {
        &self.rules
    }

    /// The handle by which the answer keeps its rules.
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

    /// Whether a rule without limits applies to the descriptor: it is unlimited on purpose.
    pub fn is_unlimited(&self, descriptor: usize) -> bool {
        self.unlimited.iter().any(|index| *index as usize == descriptor)
    }

    /// The limits that do not apply because of overrides, with their rules.
    pub fn lifted(&self) -> impl ExactSizeIterator<Item = (&Rule, &LiftedLimit)> {
        self.lifted.iter().map(|lifted| (self.rules.resolve_position(lifted.position).rule, lifted))
    }

    /// What the candidate limits say, which are only tried out.
    pub fn candidates(&self) -> impl ExactSizeIterator<Item = LimitAnswer<'_>> + Clone {
        self.candidates.iter().map(|limit| self.limit_answer(limit))
    }

    /// The limit that decided.
    #[inline]
    pub fn decider(&self) -> Option<LimitAnswer<'_>> {
        self.decided_by.map(|index| self.limit_answer(&self.limits[index]))
    }

    /// The limit that decided for one of the descriptors.
    pub fn descriptor_decider(&self, index: usize) -> Option<LimitAnswer<'_>> {
        self.decider_among(|limit| limit.descriptor == index)
    }

    /// The limit that would have decided if there were only the limits for which `filter` returns true.
    pub fn decider_among(&self, filter: impl Fn(&LimitAnswer<'_>) -> bool) -> Option<LimitAnswer<'_>> {
        let limits = self.limits.iter().filter(|limit| filter(&self.limit_answer(limit)));
        limits.rev().max_by_key(|limit| limit.precedence()).map(|limit| self.limit_answer(limit))
    }

    /// Marks an answer that was made without the shared store, and denies the request if a limit's policy says so.
    /// Limits whose counters were not asked stay unchanged.
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
            self.limits[*index].refuse(retry_after);
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

    // Most callers need one or two of the fields. If this is inlined, the others cost nothing.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured")]
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
            is_request_limit: matches!(limit.limit, LimitRef::Request(_)),
            applied_override: match &limit.limit {
                LimitRef::Override(replacement) => replacement.applied.as_ref(),
                LimitRef::Values(_) => self.plain.as_ref(),
                _ => None,
            },
            resized_to: limit.resized_to,
            compiled,
        }
    }
}

impl<R> Answer<R> {
    /// Marks an answer to a request that its limits admit, and that was refused because the memory for leases is full.
    #[cold]
    pub fn refuse_leases(&mut self, retry_after: Wait) {
        let is_refused =
            |limit: &&mut LimitOutcome| !limit.kind.passes() && limit.key_status == KeyStatus::Present;
        self.limits.iter_mut().filter(is_refused).for_each(|limit| limit.refuse(retry_after));
        self.merge_limits();
    }

    /// Denies the request if every descriptor with a quota is over it. Returns the wait until one of them has room.
    #[cold]
    fn deny_over_quotas(&mut self) -> Option<Wait> {
        let is_over = |limit: &LimitOutcome| limit.is_quota && limit.outcome.kind == OutcomeKind::Denied;
        let over_at = |descriptor: u32| {
            self.limits.iter().any(|limit| limit.descriptor == descriptor && is_over(limit))
        };
        let mut quotas = self.limits.iter().filter(|limit| limit.is_quota);
        if !quotas.all(|limit| over_at(limit.descriptor)) {
            return None;
        }
        let over = self.limits.iter().filter(|limit| is_over(limit));
        let wait = over.map(|limit| limit.outcome.retry_after).min();
        for limit in self.limits.iter_mut().filter(|limit| is_over(limit)) {
            (limit.kind, limit.is_visible) = (AnswerKind::Denied, true);
        }
        wait
    }

    /// Denies the request by the limit at `index`, whatever its counter says, for at least `retry_after`. Used when too
    /// many requests wait for the limit.
    pub fn deny(&mut self, index: usize, retry_after: Wait) {
        if let Some(limit) = self.limits.get_mut(index) {
            let retry_after = limit.outcome.retry_after.max(retry_after);
            limit.kind = AnswerKind::Denied;
            limit.outcome = Outcome { kind: OutcomeKind::Denied, retry_after, ..limit.outcome };
        }
        self.merge_limits();
    }

    /// Merges the answers of all limits.
    fn merge_limits(&mut self) {
        // Most requests fall under one limit. Its answer is the answer, unless it is a quota.
        if let [LimitOutcome { kind, outcome, is_quota: false, .. }] = self.limits.as_slice() {
            let passes = kind.passes();
            (self.decided_by, self.kind, self.remaining) = (Some(0), *kind, outcome.remaining);
            self.retry_after = if passes { Wait::NONE } else { outcome.retry_after };
            self.reset_after = outcome.reset_after;
            self.delay = if passes { outcome.delay } else { Nanos::ZERO };
            return;
        }
        let quota_wait =
            if self.limits.iter().any(|limit| limit.is_quota) { self.deny_over_quotas() } else { None };
        let limits = self.limits.as_slice();
        self.decided_by = match limits {
            [] => None,
            _ => (0..limits.len()).rev().max_by_key(|index| limits[*index].precedence()),
        };
        self.kind = self.decided_by.map_or(AnswerKind::Allowed, |index| limits[index].kind);
        let none_is_visible = !limits.iter().any(|limit| limit.is_visible);
        let (mut remaining, mut retry_after) = (u64::MAX, Wait::NONE);
        let (mut reset_after, mut delay) = (Nanos::ZERO, Nanos::ZERO);
        for LimitOutcome { kind, outcome, is_visible, is_quota, .. } in limits {
            if !kind.passes() && !is_quota {
                retry_after = retry_after.max(outcome.retry_after);
            }
            if *is_visible || none_is_visible {
                remaining = remaining.min(outcome.remaining);
                reset_after = reset_after.max(outcome.reset_after);
                delay = delay.max(outcome.delay);
            }
        }
        retry_after = retry_after.max(quota_wait.unwrap_or(Wait::NONE));
        (self.remaining, self.retry_after, self.reset_after) = (remaining, retry_after, reset_after);
        self.delay = if self.kind.passes() { delay } else { Nanos::ZERO };
    }
}

/// Requests with several descriptors.
impl<R: Deref<Target = Ruleset>> Answer<R> {
    /// Separates the outcomes of descriptors that have one fixed window in common. A plan charges their sum. Each of
    /// them is answered as if they were counted one after the other, as in envoyproxy/ratelimit.
    #[cold]
    fn separate_shared_windows(&mut self, matched: &MatchedLimits, parts: &[PlanPart], outcomes: &[Outcome]) {
        for (at, part) in parts.iter().enumerate() {
            let shares = |other: &&PlanPart| other.charge == part.charge;
            if !part.is_current_main() || parts.iter().filter(shares).count() < 2 {
                continue;
            }
            let charge = |part: &PlanPart| matched.main_charge(&self.rules, part.limit as usize);
            let (own, _) = charge(part);
            // Where a denied request counts nothing, the sum is decided as a whole. A window that counts `if_over`
            // counts always after the peek: see `repeated_counters.rs`.
            let Algorithm::Packed(PackedAlgorithm::FixedWindow(window)) = own.algorithm() else { continue };
            if window.count_denied != CountDenied::Always {
                continue;
            }
            let outcome = outcomes[part.charge as usize];
            // The plan has the tightest of the limits.
            let tightest = parts.iter().filter(shares).map(|part| charge(part).0.rate().limit()).min();
            let used = (tightest.unwrap_or_default() + outcome.over).saturating_sub(outcome.remaining);
            let later = parts[at + 1..].iter().filter(shares).map(|part| charge(part).1);
            let used = used.saturating_sub(later.fold(0, u64::saturating_add));
            let (limit, cost) = (own.rate().limit(), matched.limits[part.limit as usize].cost);
            let is_over = used > limit;
            let outcome = Outcome {
                kind: if is_over { OutcomeKind::Denied } else { OutcomeKind::Allowed },
                remaining: limit.saturating_sub(used),
                retry_after: match is_over {
                    false => Wait::NONE,
                    true if cost > limit => Wait::NEVER,
                    true => Wait::of(outcome.reset_after),
                },
                over: used.saturating_sub(limit),
                ..outcome
            };
            let matched = &matched.limits[part.limit as usize];
            self.limits[part.limit as usize] =
                LimitOutcome::new(matched, self.rules.resolve(&matched.limit), outcome, KeyStatus::Present);
        }
    }
}

impl<'a> LimitAnswer<'a> {
    /// Whether the limit is only reported because of a dry run of all rules.
    pub fn is_global_shadow(&self) -> bool {
        self.compiled.is_global_shadow
    }

    /// L for this request: the written one, unless a signal resizes it or the request has its own limit.
    pub fn current_limit(&self) -> u64 {
        self.resized_to.unwrap_or_else(|| self.limit.limit.rate().limit())
    }

    /// The limit as it is written in rules. Many answers repeat it, so the text is made once.
    pub fn spec(&self) -> &'a str {
        &self.compiled.spec
    }

    /// Its name in the answers of Envoy's rate limit service: its own name, else that of a native rule. Empty if it has
    /// none. It can stand between quotes in a header.
    pub fn public_name(&self) -> &'a str {
        &self.compiled.public_name
    }

    /// Its parts of headers that are the same in all answers. `None` if L is not the written one, or if the limit is not
    /// one of a rule.
    pub fn header_texts(&self) -> Option<&'a HeaderTexts> {
        self.compiled.header_texts.as_ref().filter(|_| self.resized_to.is_none())
    }

    /// Where it is counted, if nodes share a store.
    pub fn mode(&self) -> Mode {
        self.compiled.policy.mode
    }

    /// What happens to its requests while the shared store does not answer.
    pub fn on_store_failure(&self) -> OnStoreFailure {
        self.compiled.policy.on_store_failure
    }
}

impl LimitOutcome {
    // Otherwise the common caller copies it once more.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "measured")]
    fn new(
        matched: &MatchedLimit,
        resolved: ResolvedLimit<'_>,
        outcome: Outcome,
        key_status: KeyStatus,
    ) -> Self {
        let action = &resolved.limit.limit.action;
        let kind = match (outcome.kind, action) {
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
            kind,
            cost: matched.cost,
            outcome,
            key_status,
            resized_to: matched.resized.map(|resized| resized.units),
            is_visible: !matches!(action, Action::Shadow | Action::Quota),
            is_quota: resolved.rule.is_denying_quota(&resolved.limit.limit)
                && !resolved.limit.is_global_shadow,
        }
    }

    fn from_parts(matched: &MatchedLimit, resolved: ResolvedLimit<'_>, parts: &PartOutcomes<'_>) -> Self {
        let (outcome, key_status) = match parts.merged(PartCounter::Main).filter(|_| matched.has_key()) {
            None => match blocked_outcome(matched, parts.now) {
                Some(outcome) => (outcome, KeyStatus::Blocked),
                None => (missing_key_outcome(), KeyStatus::Missing),
            },
            // Without a second counter, the main counter's outcome is the limit's.
            Some(main) if resolved.limit.secondary.is_none() => (main, KeyStatus::Present),
            Some(main) => return Self::from_two_counters(matched, resolved, main, parts),
        };
        Self::new(matched, resolved, outcome, key_status)
    }

    /// As [`from_parts`](Self::from_parts), for a limit with a second counter.
    #[inline(never)]
    fn from_two_counters(
        matched: &MatchedLimit,
        resolved: ResolvedLimit<'_>,
        main: Outcome,
        parts: &PartOutcomes<'_>,
    ) -> Self {
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
                    // The request passes when the pool has room again, or the units that are always granted.
                    retry_after: main.retry_after.max(pool.retry_after.min(granted.retry_after)),
                    reset_after: main.reset_after.max(granted.reset_after),
                    delay: main.delay,
                    over: main.over,
                };
                Self::new(matched, resolved, outcome, KeyStatus::Present).mark_at_least(AnswerKind::Soft)
            }
            _ => {
                let secondary = parts.merged(PartCounter::Secondary);
                let remaining =
                    secondary.map_or(main.remaining, |secondary| secondary.remaining.min(main.remaining));
                Self::new(matched, resolved, Outcome { remaining, ..main }, KeyStatus::Present)
            }
        }
    }

    /// Denies the request, whatever the limit says.
    fn refuse(&mut self, retry_after: Wait) {
        self.kind = AnswerKind::Unavailable;
        self.outcome = Outcome {
            kind: OutcomeKind::Denied,
            remaining: 0,
            retry_after,
            reset_after: Nanos::ZERO,
            delay: Nanos::ZERO,
            over: 0,
        };
    }

    /// The same limit, marked at least as `mark` if the request passes.
    fn mark_at_least(self, mark: AnswerKind) -> Self {
        let kind = if self.kind.passes() { self.kind.max(mark) } else { self.kind };
        Self { kind, ..self }
    }

    /// Orders limits by which one decides. First comes a limit that denies the request: one that is unavailable before
    /// one with a longer wait. Then comes a limit that marks the request. Then, among visible limits, comes the one
    /// with the least remaining.
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

impl PartOutcomes<'_> {
    /// The merged outcome of one of the limit's counters and of the counters that it superseded.
    #[inline]
    pub fn merged(&self, counter: PartCounter) -> Option<Outcome> {
        let is_own = |part: &&PlanPart| part.limit == self.limit && part.counter == counter;
        // Most plans have one part.
        if let [only] = self.parts {
            return Some(only).filter(is_own).map(|part| self.outcome(part));
        }
        let own = self.parts.iter().filter(is_own);
        own.map(|part| self.outcome(part)).reduce(|one, other| Outcome {
            kind: one.kind.max(other.kind),
            remaining: one.remaining.min(other.remaining),
            retry_after: one.retry_after.max(other.retry_after),
            reset_after: one.reset_after.max(other.reset_after),
            delay: one.delay.max(other.delay),
            over: one.over.max(other.over),
        })
    }

    /// The outcome of a counter. A superseded counter delays no request for longer than it is enforced.
    #[inline]
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

/// Denied until the block ends. `None` if the key is not blocked.
#[cold]
fn blocked_outcome(matched: &MatchedLimit, now: Timestamp) -> Option<Outcome> {
    let (LimitRef::Override(replacement), MatchedKey::Blocked) = (&matched.limit, &matched.key) else {
        return None;
    };
    let left = |until: Timestamp| u128::from(until.as_nanos().saturating_sub(now.as_nanos()));
    let retry_after =
        replacement.blocked_until.map_or(Wait::NEVER, |until| Wait::of(Nanos::new(left(until))));
    Some(Outcome { retry_after, ..missing_key_outcome() })
}

/// Denied forever: waiting does not add the missing attribute.
fn missing_key_outcome() -> Outcome {
    Outcome {
        kind: OutcomeKind::Denied,
        remaining: 0,
        retry_after: Wait::NEVER,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
        over: 0,
    }
}
