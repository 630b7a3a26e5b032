//! The headers that tell a client about its limits, for HTTP responses and for Envoy to add.
//!
//! ```text
//! retry-after: 12                                  only if denied, and not forever
//! x-ratelimit-limit: 100                           of the limit that decided
//! x-ratelimit-remaining: 0                         the smallest of all limits
//! x-ratelimit-reset: 31                            seconds until all limits are as if never used
//! x-ratelimit-retry-after: 12                      same as `retry-after`
//! ratelimit-policy: "login/per-ip";q=100;w=60      draft-ietf-httpapi-ratelimit-headers
//! ratelimit: "login/per-ip";r=0;t=12
//! ```
//!
//! The headers leave out observed limits, such as those of a dry run, and limits that shadow-ban: a banned client must
//! not notice the ban. `--ratelimit-headers` selects among them.

use std::{fmt, slice};

use smallvec::SmallVec;
use tidegate::Wait;
use tidegate::headers::{self, Policy, PolicyState};
use tidegate::rules::{Action, Answer, AnswerKind, LimitAnswer, LimitId};

use super::rounding;
use super::settings::RateLimitHeaders;

pub use tidegate::headers::{LISTED_LIMITS_MAX, LimitHeader};

/// Suggested wait if the store does not answer, in seconds.
const UNAVAILABLE_SECONDS: u64 = 1;
/// Typical length of a header that lists limits, in bytes.
const TEXT_BYTES: usize = 128;

/// The name of a limit for clients and operators: `login/per-ip`, or `login/1` if it has no name.
#[derive(Clone, Copy, Debug)]
pub struct PolicyName<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// The limit's name or position.
    pub limit: &'a LimitId,
}

impl<'a> PolicyName<'a> {
    /// The name of the limit that gave this answer.
    pub fn from_answer(answer: &LimitAnswer<'a>) -> Self {
        Self { rule: &answer.rule.name, limit: answer.id }
    }
}

impl fmt::Display for PolicyName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rule, self.limit)
    }
}

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
pub fn retry_after_seconds(answer: &Answer) -> Option<u64> {
    let seconds = answer.retry_after.span().map(rounding::ceil_seconds);
    match answer.kind {
        AnswerKind::Denied => seconds,
        // Another limit that denies it may allow it when the store is back.
        AnswerKind::Unavailable => seconds.or(Some(UNAVAILABLE_SECONDS)),
        _ => None,
    }
}

/// A header, and where its value ends in the text that it was written to. It starts where the value before it ends.
pub type HeaderEnd = (LimitHeader, usize);

/// All headers of an answer, in order.
pub type HeaderEnds = SmallVec<[HeaderEnd; 8]>;

/// Calls `add` for each header of an answer. There are none if clients may see none of its limits.
pub fn for_each_header(answer: &Answer, which: RateLimitHeaders, mut add: impl FnMut(LimitHeader, &str)) {
    let mut values = String::with_capacity(TEXT_BYTES);
    let mut start = 0;
    for (header, end) in write_headers(&mut values, answer, which) {
        add(header, &values[start..end]);
        start = end;
    }
}

/// Appends the values of the headers of an answer to `out`.
pub fn write_headers(out: &mut String, answer: &Answer, which: RateLimitHeaders) -> HeaderEnds {
    let mut ends = HeaderEnds::new();
    let shown = || answer.limits().filter(is_shown);
    let least_remaining = || shown().min_by_key(|limit| limit.outcome.remaining);
    // The deciding limit may be hidden. Then use the visible one with the least remaining.
    let Some(first) = answer.decider().filter(is_shown).or_else(least_remaining) else { return ends };
    let mut end = |out: &mut String, header| ends.push((header, out.len()));
    if let Some(seconds) = retry_after_seconds(answer) {
        write_number(out, seconds);
        end(out, LimitHeader::RetryAfter);
        if matches!(which, RateLimitHeaders::Draft | RateLimitHeaders::XRateLimit) {
            write_number(out, seconds);
            end(out, LimitHeader::XRetryAfter);
        }
    }
    if which == RateLimitHeaders::None {
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
    write_number(out, first.current_limit());
    if which == RateLimitHeaders::Draft03 {
        for limit in &listed_limits(answer, first) {
            out.push_str(", ");
            policy(limit).push_draft_03_to(out);
        }
        reset_after = first.outcome.reset_after;
    }
    end(out, LimitHeader::Limit);
    write_number(out, remaining);
    end(out, LimitHeader::Remaining);
    write_number(out, rounding::ceil_seconds(reset_after));
    end(out, LimitHeader::Reset);
    if which == RateLimitHeaders::Draft {
        let several;
        let listed = match is_one {
            true => slice::from_ref(&first),
            false => {
                several = listed_limits(answer, first);
                &several[..]
            }
        };
        write_list(out, listed, write_policy);
        end(out, LimitHeader::Policy);
        write_list(out, listed, write_state);
        end(out, LimitHeader::State);
    }
    ends
}

fn write_number(out: &mut String, number: u64) {
    out.push_str(itoa::Buffer::new().format(number));
}

type ListedLimits<'a> = SmallVec<[LimitAnswer<'a>; LISTED_LIMITS_MAX]>;

/// The limits that clients may see: `first`, then the others in order. If several descriptors match a limit, the
/// counter with the least remaining.
fn listed_limits<'a>(answer: &'a Answer, first: LimitAnswer<'a>) -> ListedLimits<'a> {
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

fn write_list(text: &mut String, listed: &[LimitAnswer<'_>], write: impl Fn(&mut String, &LimitAnswer<'_>)) {
    for (index, limit) in listed.iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        write(text, limit);
    }
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
pub fn policy_name<'r>(limit: &LimitAnswer<'r>) -> headers::PolicyName<'r> {
    headers::PolicyName::new(&limit.rule.name, limit.id)
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
