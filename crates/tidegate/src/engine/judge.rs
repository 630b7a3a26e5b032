//! What an answer means for a request that may have to wait, and the limits that it may have to wait for.

use smallvec::SmallVec;
use tidegate_core::rules::{Action, KeyStatus, DelayLimit, AnswerKind, LimitAnswer, MatchedLimits, Ruleset};
use tidegate_core::{Timestamp, Wait};

use super::Answer;
use super::decide::DecideTask;

/// What an answer means for a request that waits.
pub(super) enum RequestAttempt {
    /// It passes.
    Admitted,
    /// It does not, and need not wait.
    Denied,
    /// It has to wait for the limit at this position among those that may hold it.
    WaitForLimit(usize),
    /// It has to wait where it is.
    Wait(Wait),
}

/// What an answer means for a request in the queue of one of the limits that may hold it.
pub(super) fn classify_attempt(answer: &Answer, task: &DecideTask, rules: &Ruleset, index: usize) -> RequestAttempt {
    if answer.kind.passes() {
        return RequestAttempt::Admitted;
    }
    if answer.limits().any(|limit| !limit.kind.passes() && !delays_request(&limit)) {
        return RequestAttempt::Denied;
    }
    // The longest wait comes first, so that it is known early if it is too long.
    let all = delays(task, rules);
    let longest = (0..all.len()).rev().max_by_key(|index| retry_after(answer, &all[*index]));
    let here = retry_after(answer, &all[index]);
    match longest {
        Some(other) if retry_after(answer, &all[other]) > here => RequestAttempt::WaitForLimit(other),
        _ => RequestAttempt::Wait(here),
    }
}

/// Whether a request that this limit denies waits for it.
fn delays_request(limit: &LimitAnswer<'_>) -> bool {
    let may_hold = matches!(limit.limit.action, Action::Delay { .. }) && limit.cost > 0;
    may_hold && limit.key_status == KeyStatus::Present && limit.kind != AnswerKind::Unavailable
}

/// Whether a denied request leaves a trace.
pub(super) fn counts_denied(matched: &MatchedLimits, rules: &Ruleset, at: Timestamp) -> bool {
    matched.plan(rules, at).is_ok_and(|draft| {
        draft.plan.charges().iter().any(|charge| charge.counter.algorithm().counts_denied())
    })
}

pub(super) fn delays<'a>(task: &'a DecideTask, rules: &'a Ruleset) -> SmallVec<[DelayLimit<'a>; 2]> {
    task.evaluation.matched().delay_limits(rules).collect()
}

pub(super) fn delay<'a>(task: &'a DecideTask, rules: &'a Ruleset, index: usize) -> DelayLimit<'a> {
    delays(task, rules)[index]
}

pub(super) fn retry_after(answer: &Answer, delay: &DelayLimit<'_>) -> Wait {
    answer.limit(delay.index).map_or(Wait::NONE, |limit| limit.outcome.retry_after)
}

pub(super) fn remaining(answer: &Answer, delay: &DelayLimit<'_>) -> u64 {
    answer.limit(delay.index).map_or(0, |limit| limit.outcome.remaining)
}
