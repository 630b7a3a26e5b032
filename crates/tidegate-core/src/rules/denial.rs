//! Why a request does not pass, for people.

use std::fmt;
use std::ops::Deref;

use super::{Access, Answer, AnswerKind, BlockStatus, KeyStatus, LimitAnswer, Ruleset};

/// Whether an override blocks the key, with status 403.
pub fn is_forbidden<R: Deref<Target = Ruleset>>(answer: &Answer<R>) -> bool {
    let applied = answer.decider().and_then(|decider| decider.applied_override);
    applied.map(|applied| applied.get().access) == Some(Access::Blocked(BlockStatus::Forbidden))
}

/// Why a request does not pass, and when to retry. Empty if no limit decided.
#[cold]
pub fn detail<R: Deref<Target = Ruleset>>(answer: &Answer<R>) -> String {
    let decider = answer.decider();
    if answer.kind == AnswerKind::Unavailable {
        return unavailable_detail(answer, decider.as_ref());
    }
    let Some(decider) = decider else { return String::new() };
    if !answer.is_domain_known {
        return "the domain has no rules".to_owned();
    }
    let policy = LimitLabel(&decider);
    let seconds = answer.retry_after.span().map(crate::Nanos::seconds_rounded_up);
    match (decider.key_status, seconds) {
        (KeyStatus::Missing, _) => format!("the request lacks a part of the key of {policy}"),
        (KeyStatus::Blocked, None) => format!("the key of {policy} is blocked"),
        (KeyStatus::Blocked, Some(seconds)) => {
            format!("the key of {policy} is blocked; try again in {seconds} s")
        }
        (KeyStatus::Present, None) => format!("{policy} never admits a request of this cost"),
        (KeyStatus::Present, Some(seconds)) => format!("{policy} is exceeded; try again in {seconds} s"),
    }
}

fn unavailable_detail<R>(answer: &Answer<R>, decider: Option<&LimitAnswer<'_>>) -> String {
    let policy = decider.map_or_else(|| "a rule".to_owned(), |decider| LimitLabel(decider).to_string());
    match (answer.degraded, answer.unreadable_key) {
        (true, false) => {
            format!("the shared store does not answer, and {policy} denies its requests in the meantime")
        }
        (true, true) => format!(
            "a key of this request in the shared store is not a counter, and {policy} denies its requests in the \
             meantime"
        ),
        (false, _) => format!("there is no memory for another lease of {policy} (hint: raise memory_max)"),
    }
}

/// The name of a limit for people: `login/per-ip`, or `login/1` if it has no name.
struct LimitLabel<'a, 'r>(&'a LimitAnswer<'r>);

impl fmt::Display for LimitLabel<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.rule.name, self.0.id)
    }
}
