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

/// The largest whole number of a structured field. No limit is larger; a time may be.
const INTEGER_MAX: u64 = 999_999_999_999_999;
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

/// Whether clients are told of a limit: not of a dry run, nor of one that is to look as if it were not there.
pub fn is_shown(limit: &LimitAnswer<'_>) -> bool {
    !matches!(limit.limit.action, Action::Shadow | Action::Quota | Action::ShadowBan)
}

/// Hands each header that an answer has to `add`, by its name in lower case. None if no limit was touched that clients
/// are told of.
pub fn each(answer: &Answer<'_>, mut add: impl FnMut(&'static str, &str)) {
    let shown = || answer.limits.iter().filter(|limit| is_shown(limit));
    let least = || shown().min_by_key(|limit| limit.outcome.remaining);
    // What decided may be a limit that looks on; then the one with the least left.
    let Some(first) = answer.decider().filter(|limit| is_shown(limit)).or_else(least) else { return };
    let mut text = String::with_capacity(TEXT_BYTES);
    let mut number = itoa::Buffer::new();
    if let (Fate::Denied, Some(wait)) = (answer.fate, answer.retry_after.span()) {
        let wait = number.format(rounded::seconds(wait));
        add(RETRY_AFTER, wait);
        add(X_RETRY_AFTER, wait);
    }
    add(LIMIT, number.format(first.limit_now()));
    let remaining = shown().map(|limit| limit.outcome.remaining).min();
    add(REMAINING, number.format(remaining.unwrap_or_default()));
    let reset_after = shown().map(|limit| limit.outcome.reset_after).max();
    add(RESET, number.format(rounded::seconds(reset_after.unwrap_or_default())));
    let listed = listed(answer, first);
    list(&mut text, &listed, write_policy);
    add(POLICY, &text);
    text.clear();
    list(&mut text, &listed, write_state);
    add(STATE, &text);
}

/// What a header that lists limits takes, in bytes, about.
const TEXT_BYTES: usize = 128;

type Listed<'a, 'r> = SmallVec<[&'a LimitAnswer<'r>; LISTED_MAX]>;

/// The limits that clients are told of: `first`, then the others in their order. Of one that several descriptors touch,
/// the counter with the least left.
fn listed<'a, 'r>(answer: &'a Answer<'r>, first: &'a LimitAnswer<'r>) -> Listed<'a, 'r> {
    let mut listed = Listed::from_slice(&[first]);
    for limit in answer.limits.iter().filter(|limit| is_shown(limit)) {
        let same = |known: &&LimitAnswer<'r>| known.id == limit.id && std::ptr::eq(known.rule, limit.rule);
        match listed.iter().position(same) {
            // What decided stays, whatever else has less.
            Some(0) => {}
            Some(place) if limit.outcome.remaining < listed[place].outcome.remaining => listed[place] = limit,
            Some(_) => {}
            None if listed.len() < LISTED_MAX => listed.push(limit),
            None => {}
        }
    }
    listed
}

fn list(text: &mut String, listed: &[&LimitAnswer<'_>], write: impl Fn(&mut String, &LimitAnswer<'_>)) {
    for (place, limit) in listed.iter().enumerate() {
        if place > 0 {
            text.push_str(", ");
        }
        write(text, limit);
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
        text.push_str(number.format(rounded::seconds(until).min(INTEGER_MAX)));
    }
}

/// The name as a structured field's string, which has no other characters than those of ASCII that can be seen.
fn write_name(text: &mut String, limit: &LimitAnswer<'_>) {
    text.push('"');
    push_quoted(text, &limit.rule.name);
    text.push('/');
    match limit.id {
        LimitId::Name(name) => push_quoted(text, name),
        LimitId::Place(place) => text.push_str(itoa::Buffer::new().format(place + 1)),
    }
    text.push('"');
}

fn push_quoted(text: &mut String, name: &str) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if name.bytes().all(is_plain) {
        return text.push_str(name);
    }
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            ' '..='~' => text.push(c),
            _ => text.push('?'),
        }
    }
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
---
domain: hidden
rules:
  - { name: dry, key: [user], limit: 1 per hour, action: shadow }
  - { name: banned, match: { bot: { exists: true } }, key: [user], limit: 1 per hour, action: shadow_ban }
  - { name: shown, match: { ip: { exists: true } }, key: [ip], limit: 9 per minute }
  - { name: jobs, match: { job: { exists: true } }, limit: { limit: 3, algorithm: concurrency, ttl: 90s } }
"#;

    fn headers_of(engine: &Engine<ManualClock>, entries: &[Entry<'_>]) -> Vec<String> {
        headers(engine, Request { domain: "api", descriptors: &[Descriptor::new(entries, 1)] })
    }

    fn headers(engine: &Engine<ManualClock>, request: Request<'_>) -> Vec<String> {
        let rules = engine.in_force();
        let answer = rules.check(&request).unwrap();
        let mut headers = Vec::new();
        each(&answer, |name, value| headers.push(format!("{name}: {value}")));
        headers
    }

    fn engine() -> Engine<ManualClock> {
        let clock = ManualClock::at(Timestamp::from_nanos(120_000_000_000 + 29_500_000_000));
        let files = RULES.split("---\n").map(|file| rules::parse("rules.yaml", file).unwrap().domains);
        let domains = files.flatten().collect();
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
        // The dry run is over: its mark decides, and the client is told of the others.
        assert_eq!(headers_of(&engine, &entries)[3], policies);
        let denied = headers_of(&engine, &entries);
        assert_eq!(denied[..2], ["retry-after: 31", "x-ratelimit-retry-after: 31"]);
        assert_eq!(denied[3..6], ["x-ratelimit-remaining: 0", "x-ratelimit-reset: 31", policies]);
    }

    #[test]
    fn nobody_is_told_of_a_dry_run_or_a_ban() {
        let engine = engine();
        let (user, bot) = (Entry { key: "user", value: "1" }, Entry { key: "bot", value: "" });
        let ip = Entry { key: "ip", value: "::1" };
        let asked = |entries: &[Entry<'_>]| {
            headers(&engine, Request { domain: "hidden", descriptors: &[Descriptor::new(entries, 1)] })
        };
        for _ in 0..3 {
            assert!(asked(&[user]).is_empty(), "only those");
        }
        let shown = r#"ratelimit-policy: "shown/1";q=9;w=60"#;
        assert_eq!(asked(&[user, bot, ip])[..2], ["x-ratelimit-limit: 9", "x-ratelimit-remaining: 8"]);
        let banned = asked(&[user, bot, ip]);
        assert_eq!(banned[..2], ["x-ratelimit-limit: 9", "x-ratelimit-remaining: 8"]);
        assert_eq!(banned[3], shown, "{banned:?}");
    }

    #[test]
    fn a_limit_that_several_descriptors_touch_is_listed_once() {
        let engine = engine();
        let (first, second) = ([Entry { key: "ip", value: "::1" }], [Entry { key: "ip", value: "10.0.0.1" }]);
        let job = [Entry { key: "job", value: "" }];
        let descriptors = [Descriptor::new(&job, 1), Descriptor::new(&first, 1), Descriptor::new(&second, 4)];
        let all = headers(&engine, Request { domain: "hidden", descriptors: &descriptors });
        assert_eq!(
            all,
            [
                "x-ratelimit-limit: 3",
                "x-ratelimit-remaining: 2",
                "x-ratelimit-reset: 90",
                r#"ratelimit-policy: "jobs/1";q=3, "shown/1";q=9;w=60"#,
                r#"ratelimit: "jobs/1";r=2;t=90, "shown/1";r=5;t=27"#,
            ]
        );
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
