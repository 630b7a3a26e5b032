//! An attempt of a request that may wait: asks the store, and says what the answer means for the request.

use smallvec::SmallVec;
use tidegate_core::rules::{Action, AnswerKind, DelayLimit, KeyStatus, LimitAnswer, MatchedLimits, Ruleset};
use tidegate_core::{Op, Timestamp, Wait};

use super::decide::DecideTask;
use super::{ActiveRules, Answer, EngineError, EngineInner};
use crate::Timer;
use crate::store::Store;

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

impl<C: Timer, S: Store> EngineInner<C, S> {
    /// Asks about all limits of the request.
    pub(super) async fn ask(
        &self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        op: Op,
        at: Timestamp,
    ) -> Result<Answer, EngineError> {
        task.evaluation.restart(op, at);
        let step = task.run(self, rules)?;
        task.run_async(self, rules, step).await?;
        let mut answer = Answer::undecided(rules.clone());
        task.write_answer(&mut answer);
        Ok(answer)
    }

    /// Asks about all limits of the request. Classifies the answer for a request in the queue of one of them.
    pub(super) async fn attempt(
        &self,
        task: &mut DecideTask,
        rules: &ActiveRules,
        index: usize,
        at: Timestamp,
    ) -> Result<(Answer, RequestAttempt), EngineError> {
        // Where denied attempts count, a waiting request only peeks until it can leave, so that it counts as one
        // attempt.
        if counts_denied(task.evaluation.matched(), rules, at) {
            let answer = self.ask(task, rules, Op::Peek, at).await?;
            let attempt = classify_attempt(&answer, task, rules, index);
            if let RequestAttempt::Wait(_) | RequestAttempt::WaitForLimit(_) = attempt {
                return Ok((answer, attempt));
            }
        }
        let answer = self.ask(task, rules, task.op, at).await?;
        let attempt = classify_attempt(&answer, task, rules, index);
        Ok((answer, attempt))
    }
}

/// Classifies the answer for a request in the queue of the limit at `index`.
fn classify_attempt(answer: &Answer, task: &DecideTask, rules: &Ruleset, index: usize) -> RequestAttempt {
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
fn counts_denied(matched: &MatchedLimits, rules: &Ruleset, at: Timestamp) -> bool {
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
