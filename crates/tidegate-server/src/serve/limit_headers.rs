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
//! Limits that only look on, as those of a dry run do, are not the client's business and are left out.

use std::fmt::{self, Write as _};

use smallvec::SmallVec;
use tidegate::rules::{Action, Answer, Fate, LimitAnswer, LimitId};
use tidegate::{AlgorithmName, Wait};

use super::rounded;

/// Seconds after which to come again.
pub const RETRY_AFTER: &str = "retry-after";
/// What the limit admits per window.
pub const LIMIT: &str = "x-ratelimit-limit";
/// What is left.
pub const REMAINING: &str = "x-ratelimit-remaining";
/// Seconds until it is as if never used.
pub const RESET: &str = "x-ratelimit-reset";
/// As [`RETRY_AFTER`].
pub const X_RETRY_AFTER: &str = "x-ratelimit-retry-after";
/// What each limit is.
pub const POLICY: &str = "ratelimit-policy";
/// What each limit has left.
pub const STATE: &str = "ratelimit";

/// The most limits that one header lists. The one that decided is always among them.
pub const LISTED_MAX: usize = 8;

const SECOND_NS: u64 = 1_000_000_000;

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
    pub fn of(answer: &LimitAnswer<'a>) -> Self {
        Self { rule: &answer.rule.name, limit: answer.id }
    }
}

impl fmt::Display for PolicyName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rule, self.limit)
    }
}

/// Hands each header that an answer has to `add`, by its name in lower case. None if no limit was touched.
pub fn each(answer: &Answer<'_>, mut add: impl FnMut(&'static str, &str)) {
    let Some(main) = main_of(answer) else { return };
    let mut text = String::with_capacity(128);
    let mut number = itoa::Buffer::new();
    if let (Fate::Denied, Some(wait)) = (answer.fate, answer.retry_after.span()) {
        let wait = number.format(rounded::seconds(wait));
        add(RETRY_AFTER, wait);
        add(X_RETRY_AFTER, wait);
    }
    add(LIMIT, number.format(main.limit_now()));
    add(REMAINING, number.format(answer.remaining));
    add(RESET, number.format(rounded::seconds(answer.reset_after)));
    list(&mut text, main, answer, write_policy);
    add(POLICY, &text);
    text.clear();
    list(&mut text, main, answer, write_state);
    add(STATE, &text);
}

/// The limit that decided. If that one only looks on, the one with the least left of those that do not.
fn main_of<'s, 'r>(answer: &'s Answer<'r>) -> Option<&'s LimitAnswer<'r>> {
    let decider = answer.decider()?;
    if is_shown(decider) {
        return Some(decider);
    }
    let shown = answer.limits.iter().filter(|limit| is_shown(limit));
    Some(shown.min_by_key(|limit| limit.outcome.remaining).unwrap_or(decider))
}

/// Whether a limit is the client's business.
fn is_shown(limit: &LimitAnswer<'_>) -> bool {
    !matches!(limit.limit.action, Action::Shadow | Action::Quota)
}

/// Writes the limits that are the client's business, this one first, then the others in their order.
fn list(
    text: &mut String,
    first: &LimitAnswer<'_>,
    answer: &Answer<'_>,
    write: impl Fn(&mut String, &LimitAnswer<'_>),
) {
    let all = std::iter::once(first).chain(answer.limits.iter().filter(|limit| is_shown(limit)));
    // Two descriptors may have touched one limit, which is listed once.
    let mut listed: SmallVec<[&LimitAnswer<'_>; LISTED_MAX]> = SmallVec::new();
    for limit in all {
        let is_new = !listed.iter().any(|known| std::ptr::eq(known.id, limit.id));
        if is_new && listed.len() < LISTED_MAX {
            if !listed.is_empty() {
                text.push_str(", ");
            }
            write(text, limit);
            listed.push(limit);
        }
    }
}

/// `"login/per-ip";q=100;w=60`; a window that is not whole seconds, or is none, is not said.
fn write_policy(text: &mut String, limit: &LimitAnswer<'_>) {
    write_name(text, limit);
    let rate = limit.limit.limit.rate();
    let mut number = itoa::Buffer::new();
    text.push_str(";q=");
    text.push_str(number.format(limit.limit_now()));
    let is_window = limit.limit.limit.algorithm_name() != AlgorithmName::Concurrency;
    if is_window && rate.window_ns().is_multiple_of(SECOND_NS) {
        text.push_str(";w=");
        text.push_str(number.format(rate.window_ns() / SECOND_NS));
    }
}

/// `"login/per-ip";r=0;t=12`; a wait that never ends is not said.
fn write_state(text: &mut String, limit: &LimitAnswer<'_>) {
    write_name(text, limit);
    let mut number = itoa::Buffer::new();
    text.push_str(";r=");
    text.push_str(number.format(limit.outcome.remaining));
    let until = match limit.fate {
        Fate::Denied => limit.outcome.retry_after,
        _ => Wait::of(limit.outcome.reset_after),
    };
    if let Some(until) = until.span() {
        text.push_str(";t=");
        text.push_str(number.format(rounded::seconds(until)));
    }
}

/// The name as a structured field's string, which has no other characters than those of ASCII that can be seen.
fn write_name(text: &mut String, limit: &LimitAnswer<'_>) {
    struct Quoted<'t>(&'t mut String);
    impl fmt::Write for Quoted<'_> {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            for c in part.chars() {
                match c {
                    '"' | '\\' => self.0.extend(['\\', c]),
                    ' '..='~' => self.0.push(c),
                    _ => self.0.push('?'),
                }
            }
            Ok(())
        }
    }
    text.push('"');
    // Writing to a string does not fail.
    let _ = write!(Quoted(text), "{}", PolicyName::of(limit));
    text.push('"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::rules::{self, Descriptor, Entry, Request};
    use tidegate::{Engine, ManualClock, MemoryStore, Timestamp};

    use super::*;

    const RULES: &str = r#"
domain: api
rules:
  - { name: login, key: [ip], limits: [ { name: per-ip, limit: 2, per: 60s, algorithm: fixed_window } ] }
  - { name: 'say "é"', key: [ip], limit: 5 per 100ms }
  - { name: dry, key: [ip], limit: 1 per hour, action: shadow }
  - { name: none, match: { user: mallory }, limit: { limit: 0, per: 1s, algorithm: fixed_window } }
"#;

    fn headers_of(engine: &Engine<ManualClock>, entries: &[Entry<'_>]) -> Vec<String> {
        let request = Request { domain: "api", descriptors: &[Descriptor::new(entries, 1)] };
        let rules = engine.in_force();
        let answer = rules.check(&request).unwrap();
        let mut headers = Vec::new();
        each(&answer, |name, value| headers.push(format!("{name}: {value}")));
        headers
    }

    fn engine() -> Engine<ManualClock> {
        let clock = ManualClock::at(Timestamp::from_nanos(120_000_000_000 + 29_500_000_000));
        let domains = rules::parse("rules.yaml", RULES).unwrap().domains;
        Engine::over(domains, Arc::new(MemoryStore::bounded(1 << 24)), clock).unwrap()
    }

    #[test]
    fn what_passes_and_what_is_denied() {
        let engine = engine();
        let entries = [Entry { key: "ip", value: "192.0.2.1" }];
        let policies = r#"ratelimit-policy: "login/per-ip";q=2;w=60, "say \"?\"/1";q=5"#;
        assert_eq!(
            headers_of(&engine, &entries),
            [
                "x-ratelimit-limit: 2",
                "x-ratelimit-remaining: 1",
                "x-ratelimit-reset: 31",
                policies,
                r#"ratelimit: "login/per-ip";r=1;t=31, "say \"?\"/1";r=4;t=1"#,
            ]
        );
        // The dry run is over, of which the client hears nothing.
        let dry = headers_of(&engine, &entries);
        assert_eq!(dry[..2], ["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0"]);
        assert_eq!(dry[3], policies);
        let denied = headers_of(&engine, &entries);
        assert_eq!(denied[..2], ["retry-after: 31", "x-ratelimit-retry-after: 31"]);
        assert_eq!(denied[3..6], ["x-ratelimit-remaining: 0", "x-ratelimit-reset: 31", policies]);
    }

    #[test]
    fn never_is_not_said_and_nothing_touched_says_nothing() {
        let engine = engine();
        let mallory = headers_of(&engine, &[Entry { key: "user", value: "mallory" }]);
        assert_eq!(mallory[0], "x-ratelimit-limit: 0", "{mallory:?}");
        assert!(mallory[4].starts_with(r#"ratelimit: "none/1";r=0, "#), "{mallory:?}");

        let elsewhere = Request {
            domain: "none",
            descriptors: &[Descriptor::new(&[Entry { key: "ip", value: "x" }], 1)],
        };
        let rules = engine.in_force();
        each(&rules.check(&elsewhere).unwrap(), |name, _| panic!("{name}"));
    }
}
