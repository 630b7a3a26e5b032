//! What an answer means for a request that may wait, and the limits that it may have to wait for.

use smallvec::SmallVec;
use tidegate_core::rules::{Action, AnswerKind, DelayLimit, KeyStatus, LimitAnswer, MatchedLimits, Ruleset};
use tidegate_core::{Timestamp, Wait};

use super::Answer;
use super::decide::DecideTask;

/// What an answer means for a request that may wait.
pub(super) enum RequestAttempt {
    /// The request passes.
    Admitted,
    /// The request is denied, and waiting does not help.
    Denied,
    /// The request has to wait for another limit: its index among the limits with the action `delay` that apply.
    WaitForLimit(usize),
    /// The request has to wait in the queue where it is.
    Wait(Wait),
}

/// Classifies the answer for a request in the queue of the limit at `index`.
pub(super) fn classify_attempt(
    answer: &Answer,
    task: &DecideTask,
    rules: &Ruleset,
    index: usize,
) -> RequestAttempt {
    if answer.kind.passes() {
        return RequestAttempt::Admitted;
    }
    if answer.limits().any(|limit| !limit.kind.passes() && !delays_request(&limit)) {
        return RequestAttempt::Denied;
    }
    // Wait for the longest first, so that a wait that is too long is known early.
    let limits = delay_limits(task, rules);
    let longest = (0..limits.len()).rev().max_by_key(|index| retry_after(answer, &limits[*index]));
    let here = retry_after(answer, &limits[index]);
    match longest {
        Some(other) if retry_after(answer, &limits[other]) > here => RequestAttempt::WaitForLimit(other),
        _ => RequestAttempt::Wait(here),
    }
}

/// Whether a request that this limit denies waits for it.
fn delays_request(limit: &LimitAnswer<'_>) -> bool {
    let may_delay = matches!(limit.limit.action, Action::Delay { .. }) && limit.cost > 0;
    may_delay && limit.key_status == KeyStatus::Present && limit.kind != AnswerKind::Unavailable
}

/// Whether a denied request is counted.
pub(super) fn counts_denied(matched: &MatchedLimits, rules: &Ruleset, at: Timestamp) -> bool {
    matched.plan(rules, at).is_ok_and(|draft| {
        draft.plan.charges().iter().any(|charge| charge.counter.algorithm().counts_denied())
    })
}

/// The limits with the action `delay` that apply.
pub(super) fn delay_limits<'a>(task: &'a DecideTask, rules: &'a Ruleset) -> SmallVec<[DelayLimit<'a>; 2]> {
    task.evaluation.matched().delay_limits(rules).collect()
}

/// One of [`delay_limits`], by its index.
pub(super) fn delay_limit<'a>(task: &'a DecideTask, rules: &'a Ruleset, index: usize) -> DelayLimit<'a> {
    delay_limits(task, rules)[index]
}

pub(super) fn retry_after(answer: &Answer, delay: &DelayLimit<'_>) -> Wait {
    answer.limit(delay.index).map_or(Wait::NONE, |limit| limit.outcome.retry_after)
}

pub(super) fn remaining(answer: &Answer, delay: &DelayLimit<'_>) -> u64 {
    answer.limit(delay.index).map_or(0, |limit| limit.outcome.remaining)
}
