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

use std::fmt;

use tidegate::headers::HeaderDialect;
use tidegate::rules::{Answer, LimitAnswer, LimitId};

pub use tidegate::headers::{HeaderEnds, LimitHeader};
pub use tidegate::rules::headers::{is_shown, policy_name, retry_after_seconds, write_headers};

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

/// Calls `add` for each header of an answer. There are none if clients may see none of its limits.
pub fn for_each_header(answer: &Answer, dialect: HeaderDialect, mut add: impl FnMut(LimitHeader, &str)) {
    let mut values = String::with_capacity(TEXT_BYTES);
    for (header, range) in write_headers(&mut values, answer, dialect).ranges(0) {
        add(header, &values[range]);
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
