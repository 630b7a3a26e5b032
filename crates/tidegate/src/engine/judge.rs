//! What an answer means for a request that may have to wait, and the limits that it may have to wait for.

use smallvec::SmallVec;
use tidegate_core::rules::{Action, Asked, Delay, Fate, LimitAnswer, MatchedLimits, Ruleset};
use tidegate_core::{Timestamp, Wait};

use super::Answer;
use super::decide::DecideTask;

/// What an answer means for a request that waits.
pub(super) enum Judged {
    /// It passes.
    Passes,
    /// It does not, and need not wait.
    Denied,
    /// It has to wait for the limit at this position among those that may hold it.
    WaitsFor(usize),
    /// It has to wait where it is.
    Waits(Wait),
}

/// What an answer means for a request in the queue of one of the limits that may hold it.
pub(super) fn judge(answer: &Answer, task: &DecideTask, rules: &Ruleset, index: usize) -> Judged {
    if answer.fate.passes() {
        return Judged::Passes;
    }
    if answer.limits().any(|limit| !limit.fate.passes() && !holds(&limit)) {
        return Judged::Denied;
    }
    // The longest wait comes first, so that it is known early if it is too long.
    let all = delays(task, rules);
    let longest = (0..all.len()).rev().max_by_key(|index| retry_after(answer, &all[*index]));
    let here = retry_after(answer, &all[index]);
    match longest {
        Some(other) if retry_after(answer, &all[other]) > here => Judged::WaitsFor(other),
        _ => Judged::Waits(here),
    }
}

/// Whether a request that this limit denies waits for it.
fn holds(limit: &LimitAnswer<'_>) -> bool {
    let may_hold = matches!(limit.limit.action, Action::Delay { .. }) && limit.cost > 0;
    may_hold && limit.asked == Asked::Yes && limit.fate != Fate::Unavailable
}

/// Whether a denied request leaves a trace.
pub(super) fn counts_denied(matched: &MatchedLimits, rules: &Ruleset, at: Timestamp) -> bool {
    matched.plan(rules, at).is_ok_and(|draft| {
        draft.plan.charges().iter().any(|charge| charge.counter.algorithm().counts_denied())
    })
}

pub(super) fn delays<'a>(task: &'a DecideTask, rules: &'a Ruleset) -> SmallVec<[Delay<'a>; 2]> {
    task.evaluation.matched().delays(rules).collect()
}

pub(super) fn delay<'a>(task: &'a DecideTask, rules: &'a Ruleset, index: usize) -> Delay<'a> {
    delays(task, rules)[index]
}

pub(super) fn retry_after(answer: &Answer, delay: &Delay<'_>) -> Wait {
    answer.limit(delay.place).map_or(Wait::NONE, |limit| limit.outcome.retry_after)
}

pub(super) fn remaining(answer: &Answer, delay: &Delay<'_>) -> u64 {
    answer.limit(delay.place).map_or(0, |limit| limit.outcome.remaining)
}
