//! The headers that tell a client of its limits, for whoever answers over HTTP and for Envoy to add.
//!
//! ```text
//! retry-after: 12                                  only if it is denied, and not for ever
//! x-ratelimit-limit: 100                           of the limit that decided
//! x-ratelimit-remaining: 0                         of all of them, the least
//! x-ratelimit-reset: 31                            seconds until all of them are as if never used
//! x-ratelimit-retry-after: 12                      as `retry-after`
//! ratelimit-policy: "login/per-ip";q=100;w=60      draft-ietf-httpapi-ratelimit-headers
//! ratelimit: "login/per-ip";r=0;t=12
//! ```
//!
//! Limits that only look on, as those of a dry run do, are not the client's business and are left out; and so are those
//! that shadow-ban, for whoever is banned is not to notice.

use std::fmt;

use smallvec::SmallVec;
use tidegate::Wait;
use tidegate::headers::{self, Policy, PolicyState};
pub use tidegate::headers::{LISTED_LIMITS_MAX, LimitHeader};
use tidegate::rules::{Action, Answer, AnswerKind, LimitAnswer, LimitId};

use super::rounded;

/// After how many seconds a store that does not answer may be there again, about.
const UNAVAILABLE_SECONDS: u64 = 1;

/// What a limit is called where clients and operators read of it: `login/per-ip`, or `login/1` if it has no name.
#[derive(Clone, Copy, Debug)]
pub struct PolicyName<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// The limit's name or place.
    pub limit: &'a LimitId,
}

impl<'a> PolicyName<'a> {
    /// Of the limit that gave this answer.
    pub fn from_answer(answer: &LimitAnswer<'a>) -> Self {
        Self { rule: &answer.rule.name, limit: answer.id }
    }
}

impl fmt::Display for PolicyName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rule, self.limit)
    }
}

/// Whether clients are told of a limit: not of a dry run, nor of one that is to look as if it were not there.
pub fn is_shown(limit: &LimitAnswer<'_>) -> bool {
    !matches!(limit.limit.action, Action::Shadow | Action::Quota | Action::ShadowBan)
}

/// Seconds after which to come again: of what is denied, unless that is for ever, and of all that nobody could be asked
/// about.
pub fn retry_after_seconds(answer: &Answer) -> Option<u64> {
    let seconds = answer.retry_after.span().map(rounded::ceil_seconds);
    match answer.kind {
        AnswerKind::Denied => seconds,
        // Whatever else is in its way may be gone when the store is back.
        AnswerKind::Unavailable => seconds.or(Some(UNAVAILABLE_SECONDS)),
        _ => None,
    }
}

/// Hands each header that an answer has to `add`. None if no limit was touched that clients are told of.
pub fn for_each_header(answer: &Answer, mut add: impl FnMut(LimitHeader, &str)) {
    let shown = || answer.limits().filter(is_shown);
    let least = || shown().min_by_key(|limit| limit.outcome.remaining);
    // What decided may be a limit that looks on; then the one with the least left.
    let Some(first) = answer.decider().filter(is_shown).or_else(least) else { return };
    let mut text = String::with_capacity(TEXT_BYTES);
    let mut number = itoa::Buffer::new();
    if let Some(seconds) = retry_after_seconds(answer) {
        let wait = number.format(seconds);
        add(LimitHeader::RetryAfter, wait);
        add(LimitHeader::XRetryAfter, wait);
    }
    add(LimitHeader::Limit, number.format(first.current_limit()));
    let remaining = shown().map(|limit| limit.outcome.remaining).min();
    add(LimitHeader::Remaining, number.format(remaining.unwrap_or_default()));
    let reset_after = shown().map(|limit| limit.outcome.reset_after).max();
    add(LimitHeader::Reset, number.format(rounded::ceil_seconds(reset_after.unwrap_or_default())));
    let listed = listed_limits(answer, first);
    write_list(&mut text, &listed, write_policy);
    add(LimitHeader::Policy, &text);
    text.clear();
    write_list(&mut text, &listed, write_state);
    add(LimitHeader::State, &text);
}

/// What a header that lists limits takes, in bytes, about.
const TEXT_BYTES: usize = 128;

type ListedLimits<'a> = SmallVec<[LimitAnswer<'a>; LISTED_LIMITS_MAX]>;

/// The limits that clients are told of: `first`, then the others in their order. Of one that several descriptors touch,
/// the counter with the least left.
fn listed_limits<'a>(answer: &'a Answer, first: LimitAnswer<'a>) -> ListedLimits<'a> {
    let mut listed = ListedLimits::from_iter([first]);
    for limit in answer.limits().filter(is_shown) {
        let same = |known: &LimitAnswer<'_>| known.id == limit.id && std::ptr::eq(known.rule, limit.rule);
        match listed.iter().position(same) {
            // What decided stays, whatever else has less.
            Some(0) => {}
            Some(place) if limit.outcome.remaining < listed[place].outcome.remaining => listed[place] = limit,
            Some(_) => {}
            None if listed.len() < LISTED_LIMITS_MAX => listed.push(limit),
            None => {}
        }
    }
    listed
}

fn write_list(text: &mut String, listed: &[LimitAnswer<'_>], write: impl Fn(&mut String, &LimitAnswer<'_>)) {
    for (place, limit) in listed.iter().enumerate() {
        if place > 0 {
            text.push_str(", ");
        }
        write(text, limit);
    }
}

fn write_policy(text: &mut String, limit: &LimitAnswer<'_>) {
    Policy { name: policy_name(limit), limit: &limit.limit.limit, quota: limit.current_limit() }.push_to(text);
}

fn write_state(text: &mut String, limit: &LimitAnswer<'_>) {
    let until = match limit.kind {
        AnswerKind::Denied | AnswerKind::Unavailable => limit.outcome.retry_after,
        _ => Wait::of(limit.outcome.reset_after),
    };
    PolicyState { name: policy_name(limit), remaining: limit.outcome.remaining, until }.push_to(text);
}

fn policy_name<'r>(limit: &LimitAnswer<'r>) -> headers::PolicyName<'r> {
    let (name, index) = match limit.id {
        LimitId::Name(name) => (Some(&**name), 0),
        LimitId::Position(place) => (None, *place),
    };
    headers::PolicyName { rule: Some(&limit.rule.name), name, index }
}

#[cfg(test)]
mod tests;
