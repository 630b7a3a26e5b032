//! The headers of an answer.
//!
//! They leave out observed limits, such as those of a dry run, and limits that shadow-ban: a banned client must not notice
//! the ban.

use std::ops::Deref;
use std::slice;

use smallvec::SmallVec;

use super::{Action, Answer, AnswerKind, LimitAnswer, Ruleset};
use crate::Wait;
use crate::headers::{
    HeaderDialect, HeaderEnds, LISTED_LIMITS_MAX, LimitHeader, Policy, PolicyName, PolicyState, push_list,
    push_number,
};

/// Suggested wait if the store does not answer, in seconds.
const UNAVAILABLE_SECONDS: u64 = 1;

/// Whether clients may see a limit: not those of a dry run, not those that shadow-ban, and a quota only if it denies.
pub fn is_shown(limit: &LimitAnswer<'_>) -> bool {
    match limit.limit.action {
        Action::Shadow | Action::ShadowBan => false,
        Action::Quota => limit.kind == AnswerKind::Denied,
        _ => true,
    }
}

/// Seconds after which to retry: for a denied request, unless it is denied forever, and for a request that the store
/// did not decide.
pub fn retry_after_seconds<R>(answer: &Answer<R>) -> Option<u64> {
    let seconds = answer.retry_after.span().map(crate::Nanos::seconds_rounded_up);
    match answer.kind {
        AnswerKind::Denied => seconds,
        // Another limit that denies it may allow it when the store is back.
        AnswerKind::Unavailable => seconds.or(Some(UNAVAILABLE_SECONDS)),
        _ => None,
    }
}

/// Appends the values of the headers of an answer to `out`.
pub fn write_headers<R: Deref<Target = Ruleset>>(
    out: &mut String,
    answer: &Answer<R>,
    dialect: HeaderDialect,
) -> HeaderEnds {
    let mut ends = HeaderEnds::new();
    let shown = || answer.limits().filter(is_shown);
    let least_remaining = || shown().min_by_key(|limit| limit.outcome.remaining);
    // The deciding limit may be hidden. Then use the visible one with the least remaining.
    let Some(first) = answer.decider().filter(is_shown).or_else(least_remaining) else { return ends };
    if let Some(seconds) = retry_after_seconds(answer) {
        ends.write_retry_after(out, seconds, dialect);
    }
    if dialect == HeaderDialect::None {
        return ends;
    }
    let (mut remaining, mut reset_after) = (first.outcome.remaining, first.outcome.reset_after);
    let is_one = answer.limits().len() == 1;
    if !is_one {
        for limit in shown() {
            remaining = remaining.min(limit.outcome.remaining);
            reset_after = reset_after.max(limit.outcome.reset_after);
        }
    }
    push_number(out, first.current_limit());
    if dialect == HeaderDialect::Draft03 {
        for limit in &listed_limits(answer, first) {
            out.push_str(", ");
            policy(limit).push_draft_03_to(out);
        }
        reset_after = first.outcome.reset_after;
    }
    ends.push(LimitHeader::Limit, out);
    push_number(out, remaining);
    ends.push(LimitHeader::Remaining, out);
    push_number(out, reset_after.seconds_rounded_up());
    ends.push(LimitHeader::Reset, out);
    if dialect == HeaderDialect::Draft {
        let several;
        let listed = match is_one {
            true => slice::from_ref(&first),
            false => {
                several = listed_limits(answer, first);
                &several[..]
            }
        };
        push_list(out, listed, |limit, out| write_policy(out, limit));
        ends.push(LimitHeader::Policy, out);
        push_list(out, listed, |limit, out| write_state(out, limit));
        ends.push(LimitHeader::State, out);
    }
    ends
}

type ListedLimits<'a> = SmallVec<[LimitAnswer<'a>; LISTED_LIMITS_MAX]>;

/// The limits that clients may see: `first`, then the others in order. If several descriptors match a limit, the
/// counter with the least remaining.
fn listed_limits<'a, R: Deref<Target = Ruleset>>(
    answer: &'a Answer<R>,
    first: LimitAnswer<'a>,
) -> ListedLimits<'a> {
    let mut listed = ListedLimits::from_iter([first]);
    for limit in answer.limits().filter(is_shown) {
        let is_same = |other: &LimitAnswer<'_>| other.id == limit.id && std::ptr::eq(other.rule, limit.rule);
        match listed.iter().position(is_same) {
            // The deciding limit stays, even if another counter has less remaining.
            Some(0) => {}
            Some(index) if limit.outcome.remaining < listed[index].outcome.remaining => listed[index] = limit,
            Some(_) => {}
            None if listed.len() < LISTED_LIMITS_MAX => listed.push(limit),
            None => {}
        }
    }
    listed
}

fn write_policy(text: &mut String, limit: &LimitAnswer<'_>) {
    match limit.header_texts() {
        Some(texts) => text.push_str(&texts.policy),
        None => policy(limit).push_to(text),
    }
}

fn policy<'r>(limit: &LimitAnswer<'r>) -> Policy<'r> {
    Policy { name: policy_name(limit), limit: &limit.limit.limit, quota: limit.current_limit() }
}

fn write_state(text: &mut String, limit: &LimitAnswer<'_>) {
    let until = match limit.kind {
        AnswerKind::Denied | AnswerKind::Unavailable => limit.outcome.retry_after,
        _ => Wait::of(limit.outcome.reset_after),
    };
    let state = PolicyState { name: policy_name(limit), remaining: limit.outcome.remaining, until };
    match limit.header_texts() {
        Some(texts) => {
            text.push_str(&texts.quoted_name);
            state.push_values_to(text);
        }
        None => state.push_to(text),
    }
}

/// The name of a limit as headers have it.
pub fn policy_name<'r>(limit: &LimitAnswer<'r>) -> PolicyName<'r> {
    PolicyName::new(&limit.rule.name, limit.id)
}
