//! The merged answer of all rules and limits that a request touches.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::gate::Gate;
use super::touches::{Drawn, Line, Part, TouchKey};
use super::{Action, ElasticBy, LimitId, Margin, Rule, RuleLimit, Touch, Touches};
use crate::{Nanos, Outcome, Timestamp, Verdict, Wait};

/// What becomes of a request, mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fate {
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

/// So many limits need no allocation. Few, for an answer is moved about, and each takes some 200 bytes.
const LIMITS_INLINE: usize = 2;

/// The answer to a request.
#[derive(Clone, Debug)]
#[must_use = "an answer that is not looked at limits nothing"]
#[non_exhaustive]
pub struct Answer<'r> {
    /// What becomes of it.
    pub fate: Fate,
    /// What all limits together still admit: the least. Limits that only look on do not count, if others do.
    pub remaining: u64,
    /// When all of them would admit it; none if it passes.
    pub retry_after: Wait,
    /// When all of its keys are as if never seen.
    pub reset_after: Nanos,
    /// How long it is to be held.
    pub delay: Nanos,
    /// The place in `limits` of the one that decided: of denials the first that asks for the longest wait, else the
    /// first with the least left. None if no limit was touched.
    pub decided_by: Option<usize>,
    /// What each limit says.
    pub limits: SmallVec<[LimitAnswer<'r>; LIMITS_INLINE]>,
    /// What limits say that are only tried out.
    pub candidates: SmallVec<[LimitAnswer<'r>; 0]>,
    /// Whether some limit was decided without the store that a fleet shares, because that did not answer.
    pub degraded: bool,
}

/// The answer of one limit.
#[derive(Clone, Debug)]
#[must_use]
pub struct LimitAnswer<'r> {
    /// Which descriptor touched it, from 0.
    pub descriptor: usize,
    /// The rule it is of.
    pub rule: &'r Rule,
    /// The limit and how the rule applies it.
    pub limit: &'r RuleLimit,
    /// What it is called within its rule: its name, or its place.
    pub id: &'r LimitId,
    /// What became of the request, were there no other limit.
    pub fate: Fate,
    /// The units it was asked for.
    pub cost: u64,
    /// The numbers.
    pub outcome: Outcome,
    /// Whether it was asked at all: a request that lacks a part of the key may be denied for that alone.
    pub asked: Asked,
    /// Where L is, if not where it was written.
    moved_to: Option<u64>,
    gate: &'r Gate,
}

/// Whether a limit's counter was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It was.
    Yes,
    /// It was not: the descriptor lacks a part of the key.
    KeyMissing,
}

impl Fate {
    /// Whether the request goes on to where it wants to go, now or when its delay is over.
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

impl<'r> Answer<'r> {
    /// Merges what the store said of the plan that was drawn.
    // An answer is large: part of its caller, it is made where it is wanted and not moved there.
    #[inline(always)]
    pub fn merge(touches: &Touches<'r>, drawn: &Drawn<'_>, outcomes: &[Outcome], now: Timestamp) -> Self {
        let answer =
            |(number, touch)| answer_of(touch, &Said { lines: &drawn.lines, touch: number, outcomes, now });
        Self::of(touches.all().iter().enumerate().map(answer).collect())
    }

    /// As [`merge`](Self::merge), and never part of its caller: so that there is one place of which that is.
    #[inline(never)]
    pub fn merge_apart(
        touches: &Touches<'r>,
        drawn: &Drawn<'_>,
        outcomes: &[Outcome],
        now: Timestamp,
    ) -> Self {
        Self::merge(touches, drawn, outcomes, now)
    }

    /// The limit that decided.
    pub fn decider(&self) -> Option<&LimitAnswer<'r>> {
        self.decided_by.map(|place| &self.limits[place])
    }

    /// The limit that decided what becomes of one of the descriptors.
    pub fn descriptor(&self, number: usize) -> Option<&LimitAnswer<'r>> {
        self.decider_of(|limit| limit.descriptor == number)
    }

    /// The limit that would have decided, were there none but those that are wanted.
    pub fn decider_of(&self, wanted: impl Fn(&LimitAnswer<'r>) -> bool) -> Option<&LimitAnswer<'r>> {
        self.limits.iter().filter(|limit| wanted(limit)).rev().max_by_key(|limit| limit.weight())
    }

    /// Denied by the limit at `place` whatever its counter says, for no less than `retry_after`: so many wait for it.
    pub fn deny(&mut self, place: usize, retry_after: Wait) {
        if let Some(limit) = self.limits.get_mut(place) {
            let retry_after = limit.outcome.retry_after.max(retry_after);
            limit.fate = Fate::Denied;
            limit.outcome = Outcome { verdict: Verdict::Denied, retry_after, ..limit.outcome };
        }
        self.merge_again();
    }

    /// Turned away by those of the limits that `is_unavailable` says so of, for `retry_after`: the store does not answer
    /// that they are counted in. Not those that were not asked at all.
    pub fn turn_away(&mut self, retry_after: Wait, is_unavailable: impl Fn(&LimitAnswer<'r>) -> bool) {
        let turned_away = self.limits.iter_mut().filter(|limit| limit.asked == Asked::Yes);
        for limit in turned_away.filter(|limit| is_unavailable(limit)) {
            limit.fate = Fate::Unavailable;
            limit.outcome = Outcome {
                verdict: Verdict::Denied,
                remaining: 0,
                retry_after,
                reset_after: Nanos::ZERO,
                delay: Nanos::ZERO,
            };
        }
        self.merge_again();
    }

    /// What all limits together say, after one of them has said something else.
    #[cold]
    fn merge_again(&mut self) {
        let (candidates, degraded) = (std::mem::take(&mut self.candidates), self.degraded);
        *self = Self { candidates, degraded, ..Self::of(std::mem::take(&mut self.limits)) };
    }

    #[inline(always)]
    fn of(limits: SmallVec<[LimitAnswer<'r>; LIMITS_INLINE]>) -> Self {
        let decided_by = (0..limits.len()).rev().max_by_key(|place| limits[*place].weight());
        let fate = decided_by.map_or(Fate::Allowed, |place| limits[place].fate);
        let only_lookers = !limits.iter().any(LimitAnswer::counts);
        let counting =
            || limits.iter().filter(|limit| only_lookers || limit.counts()).map(|limit| &limit.outcome);
        Self {
            fate,
            remaining: counting().map(|outcome| outcome.remaining).min().unwrap_or(u64::MAX),
            retry_after: {
                let blocking = limits.iter().filter(|limit| !limit.fate.passes());
                blocking.map(|limit| limit.outcome.retry_after).max().unwrap_or(Wait::NONE)
            },
            reset_after: counting().map(|outcome| outcome.reset_after).max().unwrap_or_default(),
            delay: match fate.passes() {
                true => counting().map(|outcome| outcome.delay).max().unwrap_or_default(),
                false => Nanos::ZERO,
            },
            decided_by,
            limits,
            candidates: SmallVec::new(),
            degraded: false,
        }
    }
}

impl<'r> LimitAnswer<'r> {
    /// The answer of a candidate.
    pub fn of_candidate(touch: &Touch<'r>, outcome: Option<Outcome>) -> Self {
        match outcome {
            Some(outcome) => Self::new(touch, outcome, Asked::Yes),
            None => Self::new(touch, of_missing_key(), Asked::KeyMissing),
        }
    }

    fn new(touch: &Touch<'r>, outcome: Outcome, asked: Asked) -> Self {
        let (limit, id, cost) = (touch.limit(), touch.id(), touch.cost);
        let fate = match (outcome.verdict, &limit.action) {
            (Verdict::Denied, Action::Shadow) => Fate::ShadowDenied,
            (Verdict::Denied, Action::Quota) => Fate::OverQuota,
            (Verdict::Denied, Action::Soft(Margin::Unlimited)) => Fate::Soft,
            (Verdict::Denied, Action::ShadowBan) => Fate::ShadowBanned,
            (Verdict::Denied, _) => Fate::Denied,
            (Verdict::Allowed, Action::Shadow | Action::Quota) => Fate::Allowed,
            (Verdict::Allowed, _) if outcome.delay > Nanos::ZERO => Fate::Delayed,
            (Verdict::Allowed, _) => Fate::Allowed,
        };
        let moved_to = touch.moved.map(|moved| moved.units);
        Self {
            descriptor: touch.descriptor,
            rule: touch.rule,
            limit,
            id,
            fate,
            cost,
            outcome,
            asked,
            moved_to,
            gate: touch.gate,
        }
    }

    /// L as it is in force: as it was written, unless a signal moves it or the request brought it along.
    pub fn limit_now(&self) -> u64 {
        self.moved_to.unwrap_or_else(|| self.limit.limit.rate().limit())
    }

    /// The limit as it is written in rules. Said in every answer, so it is not made anew for each.
    pub fn spec(&self) -> &'r str {
        &self.gate.spec
    }

    /// Whether its numbers are the client's business: not those of a dry run.
    fn counts(&self) -> bool {
        !matches!(self.limit.action, Action::Shadow | Action::Quota)
    }

    /// Which of two limits decides: one that keeps the request from passing, and of those one that nobody could be asked
    /// about, then the one that asks for the longest wait; then the one that leaves a mark; then the one with the least
    /// left, of those that count.
    fn weight(&self) -> impl Ord + use<> {
        let (wait, mark, remaining) = match self.fate.passes() {
            true => (None, self.fate, self.outcome.remaining),
            false => {
                let is_unavailable = self.fate == Fate::Unavailable;
                (Some((is_unavailable, self.outcome.retry_after)), Fate::Allowed, 0)
            }
        };
        (wait, mark, self.counts(), Reverse(remaining))
    }
}

/// What the store said of one limit's counters.
pub(super) struct Said<'a> {
    /// Those of all limits.
    pub lines: &'a [Line],
    /// Which limit.
    pub touch: usize,
    pub outcomes: &'a [Outcome],
    pub now: Timestamp,
}

impl Said<'_> {
    /// What the counters of a part say together.
    pub fn of(&self, part: Part) -> Option<Outcome> {
        let mine = self.lines.iter().filter(|line| line.touch == self.touch && line.part == part);
        let said = mine.map(|line| self.line(line));
        said.reduce(|one, other| Outcome {
            verdict: one.verdict.max(other.verdict),
            remaining: one.remaining.min(other.remaining),
            retry_after: one.retry_after.max(other.retry_after),
            reset_after: one.reset_after.max(other.reset_after),
            delay: one.delay.max(other.delay),
        })
    }

    /// What a counter says; one that goes out of force holds nobody up for longer than that.
    fn line(&self, line: &Line) -> Outcome {
        let outcome = self.outcomes[line.charge];
        match line.until {
            Some(until) => {
                let left = u128::from(until.as_nanos().saturating_sub(self.now.as_nanos()));
                Outcome { retry_after: outcome.retry_after.min(Wait::of(Nanos::new(left))), ..outcome }
            }
            None => outcome,
        }
    }
}

fn answer_of<'r>(touch: &Touch<'r>, said: &Said<'_>) -> LimitAnswer<'r> {
    let Some(main) = said.of(Part::Main).filter(|_| touch.key != TouchKey::Refused) else {
        return LimitAnswer::new(touch, of_missing_key(), Asked::KeyMissing);
    };
    match (&touch.limit().action, touch.turned_to_pool.as_deref()) {
        (Action::Soft(Margin::Percent(_)), _) => {
            let soft = said.of(Part::Beside).unwrap_or(main);
            let outcome = Outcome { remaining: soft.remaining.min(main.remaining), ..main };
            let answer = LimitAnswer::new(touch, outcome, Asked::Yes);
            let is_over = answer.fate.passes() && soft.verdict == Verdict::Denied;
            LimitAnswer { fate: if is_over { answer.fate.max(Fate::Soft) } else { answer.fate }, ..answer }
        }
        (Action::Elastic(elastic), Some(granted)) if matches!(elastic.by, ElasticBy::Pool(_)) => {
            let pool = said.of(Part::Pool).unwrap_or(main);
            let outcome = Outcome {
                verdict: main.verdict.max(pool.verdict),
                remaining: granted.remaining.min(main.remaining),
                // The pool has room again, or what is always granted has.
                retry_after: main.retry_after.max(pool.retry_after.min(granted.retry_after)),
                reset_after: main.reset_after.max(granted.reset_after),
                delay: main.delay,
            };
            let answer = LimitAnswer::new(touch, outcome, Asked::Yes);
            let fate = if answer.fate.passes() { answer.fate.max(Fate::Soft) } else { answer.fate };
            LimitAnswer { fate, ..answer }
        }
        _ => {
            let beside = said.of(Part::Beside);
            let remaining = beside.map_or(main.remaining, |beside| beside.remaining.min(main.remaining));
            LimitAnswer::new(touch, Outcome { remaining, ..main }, Asked::Yes)
        }
    }
}

/// Denied for good: waiting does not bring the attribute.
fn of_missing_key() -> Outcome {
    Outcome {
        verdict: Verdict::Denied,
        remaining: 0,
        retry_after: Wait::NEVER,
        reset_after: Nanos::ZERO,
        delay: Nanos::ZERO,
    }
}
