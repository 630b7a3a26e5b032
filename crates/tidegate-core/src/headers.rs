//! HTTP headers that tell a client about its limits.
//!
//! ```text
//! retry-after: 12                          only if the request is denied and may pass later
//! x-ratelimit-limit: 100                   of the limit that decided
//! x-ratelimit-remaining: 0                 the least of all limits
//! x-ratelimit-reset: 31                    seconds until all limits are unused again
//! x-ratelimit-retry-after: 12              same as `retry-after`
//! ratelimit-policy: "login";q=100;w=60     draft-ietf-httpapi-ratelimit-headers
//! ratelimit: "login";r=0;t=12
//! ```
//!
//! Times are whole seconds, rounded up, so that no client comes back too early.
//!
//! ```
//! # use tidegate_core::{Decision, Limit, LimitError, Nanos, Outcome, OutcomeKind, Wait};
//! use tidegate_core::headers::LimitHeader;
//!
//! let limit: Limit = "{algorithm: sliding_log, limit: 100, per: 60s, name: burst}".parse()?;
//! # let outcome = Outcome {
//! #     kind: OutcomeKind::Denied,
//! #     remaining: 0,
//! #     retry_after: Wait::of(Nanos::new(11_200_000_000)),
//! #     reset_after: Nanos::new(31_000_000_000),
//! #     delay: Nanos::ZERO,
//! #     over: 0,
//! # };
//! # let decision = Decision::of_one(outcome);
//! // For a limiter, `limiter.limits()` returns its limits.
//! let headers = decision.headers([&limit]);
//! for (name, value) in &headers {
//!     println!("{name}: {value}");
//! }
//! assert_eq!(headers.get(LimitHeader::RetryAfter), Some("12"));
//! assert_eq!(headers.get(LimitHeader::Policy), Some(r#""burst";q=100;w=60"#));
//! assert_eq!(headers.get(LimitHeader::State), Some(r#""burst";r=0;t=12"#));
//! # Ok::<(), LimitError>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::iter::Map;
use std::ops::Range;
use std::slice;

use smallvec::SmallVec;

use crate::decimal::Decimal;
use crate::{AlgorithmName, Decision, Limit, LimitId, OutcomeKind, Wait};

/// A header about limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitHeader {
    /// Seconds after which to try again.
    RetryAfter,
    /// Same as [`RetryAfter`](Self::RetryAfter).
    XRetryAfter,
    /// The units per window.
    Limit,
    /// The units left.
    Remaining,
    /// Seconds until the limit is unused again.
    Reset,
    /// The quota and window of each limit.
    Policy,
    /// The units that limits have left.
    State,
}

impl LimitHeader {
    /// The name of the header, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetryAfter => "retry-after",
            Self::XRetryAfter => "x-ratelimit-retry-after",
            Self::Limit => "x-ratelimit-limit",
            Self::Remaining => "x-ratelimit-remaining",
            Self::Reset => "x-ratelimit-reset",
            Self::Policy => "ratelimit-policy",
            Self::State => "ratelimit",
        }
    }
}

/// Which headers tell clients about their limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderDialect {
    /// `RateLimit` and `RateLimit-Policy` of the current IETF draft, and `X-RateLimit-*`.
    #[default]
    Draft,
    /// `X-RateLimit-Limit` with policies, `-Remaining` and `-Reset`, as Envoy and limitador send them.
    Draft03,
    /// `X-RateLimit-*` with plain numbers.
    XRateLimit,
    /// None of them; only `Retry-After`.
    None,
}

impl HeaderDialect {
    /// Whether `Retry-After` is repeated as `X-RateLimit-Retry-After`.
    pub(crate) fn repeats_retry_after(self) -> bool {
        matches!(self, Self::Draft | Self::XRateLimit)
    }
}

/// The most headers that any decision has: those of a denial in [`HeaderDialect::Draft`].
const HEADERS_MAX: usize = 7;

/// All headers of a decision, in order, and where each value ends. Small and without a destructor, because answers are moved several times.
#[derive(Clone, Copy, Debug)]
pub struct HeaderEnds {
    headers: [LimitHeader; HEADERS_MAX],
    ends: [u32; HEADERS_MAX],
    len: u8,
}

/// The most limits that one header lists. The limit that decided is always listed.
pub const LISTED_LIMITS_MAX: usize = 8;

/// The largest integer of a structured field. No limit is larger, but a time may be.
const INTEGER_MAX: u64 = 999_999_999_999_999;

const SECOND_NS: u64 = 1_000_000_000;

/// The typical length of a header that lists limits.
const LIST_BYTES_TYPICAL: usize = 128;

/// The name of a limit in headers: `"login/per-ip"`, or `"login/1"` if the limit has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyName<'a> {
    /// The name of the rule. `None` for the limits of a limiter.
    pub rule: Option<&'a str>,
    /// The name of the limit.
    pub name: Option<&'a str>,
    /// The index of the limit in its rule, from 0. It replaces a missing name, counted from 1.
    pub index: usize,
}

/// One limit in `ratelimit-policy`: `"login/per-ip";q=100;w=60`.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// The name of the limit.
    pub name: PolicyName<'a>,
    /// The limit.
    pub limit: &'a Limit,
    /// The current L.
    pub quota: u64,
}

/// One limit in `ratelimit`: `"login/per-ip";r=0;t=12`.
#[derive(Clone, Copy, Debug)]
pub struct PolicyState<'a> {
    /// The name of the limit.
    pub name: PolicyName<'a>,
    /// The units left.
    pub remaining: u64,
    /// When to try again, or when all units are back.
    pub until: Wait,
}

impl HeaderEnds {
    /// No headers.
    pub const fn new() -> Self {
        Self { headers: [LimitHeader::RetryAfter; HEADERS_MAX], ends: [0; HEADERS_MAX], len: 0 }
    }

    /// Adds a header whose value ends where `text` ends. No text of an answer has 4 GiB.
    #[inline]
    pub fn push(&mut self, header: LimitHeader, text: &str) {
        let index = usize::from(self.len);
        self.headers[index] = header;
        self.ends[index] = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.len += 1;
    }

    /// Writes when to try again.
    pub(crate) fn write_retry_after(&mut self, out: &mut String, seconds: u64, dialect: HeaderDialect) {
        push_number(out, seconds);
        self.push(LimitHeader::RetryAfter, out);
        if dialect.repeats_retry_after() {
            push_number(out, seconds);
            self.push(LimitHeader::XRetryAfter, out);
        }
    }

    /// How many headers there are.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The headers, in order, and where their values are in the text that they were written to. The first starts at
    /// `start`.
    #[inline]
    pub fn ranges(&self, start: usize) -> impl ExactSizeIterator<Item = (LimitHeader, Range<usize>)> + Clone {
        (0..self.len()).map(move |index| {
            let start = if index == 0 { start } else { self.ends[index - 1] as usize };
            (self.headers[index], start..self.ends[index] as usize)
        })
    }
}

impl Default for HeaderEnds {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> PolicyName<'a> {
    /// The name of a limit of a rule.
    pub fn new(rule: &'a str, limit: &'a LimitId) -> Self {
        let (name, index) = match limit {
            LimitId::Name(name) => (Some(&**name), 0),
            LimitId::Position(index) => (None, *index),
        };
        Self { rule: Some(rule), name, index }
    }

    /// Appends the name as a string of a structured field.
    pub fn push_quoted_to(&self, text: &mut String) {
        push_name(text, self);
    }
}

impl Policy<'_> {
    /// Appends the policy to a list. Omits the window if it is not a whole number of seconds, or if the limit has none.
    pub fn push_to(&self, list: &mut String) {
        push_name(list, &self.name);
        self.push_values_to(list);
    }

    /// As [`push_to`](Self::push_to), without the name.
    pub(crate) fn push_values_to(&self, list: &mut String) {
        list.push_str(";q=");
        push_number(list, self.quota);
        self.push_window(list);
    }

    /// Appends the policy as draft-polli-ratelimit-headers-03 has it in `x-ratelimit-limit`: `100;w=60;name="login"`.
    pub fn push_draft_03_to(&self, list: &mut String) {
        push_number(list, self.quota);
        self.push_window(list);
        list.push_str(";name=");
        push_name(list, &self.name);
    }

    fn push_window(&self, list: &mut String) {
        let window_ns = self.limit.rate().window_ns();
        let is_window = self.limit.algorithm_name() != AlgorithmName::Concurrency;
        if is_window && window_ns.is_multiple_of(SECOND_NS) {
            list.push_str(";w=");
            push_number(list, window_ns / SECOND_NS);
        }
    }
}

impl PolicyState<'_> {
    /// Appends the state to a list. Omits the time if it is never.
    pub fn push_to(&self, list: &mut String) {
        push_name(list, &self.name);
        self.push_values_to(list);
    }

    /// As [`push_to`](Self::push_to), without the name.
    pub fn push_values_to(&self, list: &mut String) {
        list.push_str(";r=");
        push_number(list, self.remaining);
        if let Some(until) = self.until.span() {
            list.push_str(";t=");
            push_number(list, until.seconds_rounded_up().min(INTEGER_MAX));
        }
    }
}

/// The headers of a decision. [`Decision::headers`] returns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitHeaders {
    headers: Vec<(LimitHeader, String)>,
}

impl Decision {
    /// The headers that tell a client about this decision. `limits` are the limits that made it, in the order of
    /// [`decided_by`](Self::decided_by). Returns no headers if there are no limits.
    ///
    /// `ratelimit-policy` lists all limits, the one that decided first. `ratelimit` has only the limit that decided,
    /// because a decision does not say what each of the others has left. Its `r` is the least that any limit has left.
    /// Its `t` is the time until the request would pass or, if it passes, until all limits are unused again.
    pub fn headers<'a>(&self, limits: impl IntoIterator<Item = &'a Limit>) -> LimitHeaders {
        let mut values = String::with_capacity(LIST_BYTES_TYPICAL);
        let ends = self.write_headers(&mut values, limits, HeaderDialect::Draft);
        let headers = ends.ranges(0).map(|(header, range)| (header, values[range].to_owned()));
        LimitHeaders { headers: headers.collect() }
    }

    /// As [`headers`](Self::headers), in any dialect. Appends the values to `out`, so that one allocation is enough.
    pub fn write_headers<'a>(
        &self,
        out: &mut String,
        limits: impl IntoIterator<Item = &'a Limit>,
        dialect: HeaderDialect,
    ) -> HeaderEnds {
        let limits: SmallVec<[&Limit; LISTED_LIMITS_MAX]> = limits.into_iter().collect();
        let decider = if self.decided_by < limits.len() { self.decided_by } else { 0 };
        let Some(limit) = limits.get(decider) else { return HeaderEnds::new() };
        let name = |index: usize| PolicyName { rule: None, name: limits[index].name(), index };
        let rest = (0..limits.len()).filter(|index| *index != decider);
        let listed = std::iter::once(decider).chain(rest).take(LISTED_LIMITS_MAX);
        let policy = |index: usize| Policy {
            name: name(index),
            limit: limits[index],
            quota: limits[index].rate().limit(),
        };
        let write_limit = |out: &mut String| {
            push_number(out, limit.rate().limit());
            if dialect == HeaderDialect::Draft03 {
                for index in listed.clone() {
                    out.push_str(", ");
                    policy(index).push_draft_03_to(out);
                }
            }
        };
        let write_policy =
            |out: &mut String| push_list(out, listed.clone(), |index, text| policy(index).push_to(text));
        self.write_each_header(out, dialect, name(decider), write_limit, write_policy)
    }

    /// As [`write_headers`](Self::write_headers), without the values of [`LimitHeader::Limit`] and
    /// [`LimitHeader::Policy`]: they are empty. All decisions by the same limit have the same ones. `name` is the name
    /// of the limit that decided.
    #[inline]
    pub fn write_changing_headers(
        &self,
        out: &mut String,
        name: PolicyName<'_>,
        dialect: HeaderDialect,
    ) -> HeaderEnds {
        self.write_each_header(out, dialect, name, |_| {}, |_| {})
    }

    #[inline]
    fn write_each_header(
        &self,
        out: &mut String,
        dialect: HeaderDialect,
        decider: PolicyName<'_>,
        write_limit: impl FnOnce(&mut String),
        write_policy: impl FnOnce(&mut String),
    ) -> HeaderEnds {
        let mut ends = HeaderEnds::new();
        if let Some(seconds) = self.retry_after_seconds() {
            ends.write_retry_after(out, seconds, dialect);
        }
        if dialect == HeaderDialect::None {
            return ends;
        }
        write_limit(out);
        ends.push(LimitHeader::Limit, out);
        push_number(out, self.remaining);
        ends.push(LimitHeader::Remaining, out);
        push_number(out, self.reset_after.seconds_rounded_up());
        ends.push(LimitHeader::Reset, out);
        if dialect == HeaderDialect::Draft {
            write_policy(out);
            ends.push(LimitHeader::Policy, out);
            let until = match self.kind {
                OutcomeKind::Denied => self.retry_after,
                OutcomeKind::Allowed => Wait::of(self.reset_after),
            };
            PolicyState { name: decider, remaining: self.remaining, until }.push_to(out);
            ends.push(LimitHeader::State, out);
        }
        ends
    }
}

impl LimitHeaders {
    /// The value of a header, if present.
    pub fn get(&self, header: LimitHeader) -> Option<&str> {
        self.headers.iter().find(|(other, _)| *other == header).map(|(_, value)| value.as_str())
    }

    /// The names, in lower case, and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &str)> {
        self.into_iter()
    }
}

impl<'a> IntoIterator for &'a LimitHeaders {
    type Item = (&'static str, &'a str);
    type IntoIter = Map<slice::Iter<'a, (LimitHeader, String)>, fn(&'a (LimitHeader, String)) -> Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.headers.iter().map(|(header, value)| (header.name(), value.as_str()))
    }
}

/// Appends items, separated by commas.
pub(crate) fn push_list<T>(
    text: &mut String,
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(T, &mut String),
) {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        push(item, text);
    }
}

#[inline]
pub(crate) fn push_number(text: &mut String, number: u64) {
    // Most numbers have one digit: times, and positions of limits.
    match u8::try_from(number) {
        Ok(digit @ 0..=9) => text.push(char::from(b'0' + digit)),
        _ => text.push_str(Decimal::of(number).as_str()),
    }
}

/// Writes the name as a string of a structured field, which allows only printable ASCII.
fn push_name(text: &mut String, name: &PolicyName<'_>) {
    text.push('"');
    if let Some(rule) = name.rule {
        push_encoded(text, rule, Place::Rule, Quotes::Escaped);
        text.push('/');
    }
    match name.name {
        Some(name) => push_encoded(text, name, Place::Limit, Quotes::Escaped),
        None => push_number(text, name.index as u64 + 1),
    }
    text.push('"');
}

/// The name as it is in headers, without the quotes. Different names are different here too.
impl fmt::Display for PolicyName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if let Some(rule) = self.rule {
            push_encoded(&mut text, rule, Place::Rule, Quotes::Plain);
            text.push('/');
        }
        match self.name {
            Some(name) => push_encoded(&mut text, name, Place::Limit, Quotes::Plain),
            None => push_number(&mut text, self.index as u64 + 1),
        }
        f.write_str(&text)
    }
}

/// A name of a rule for the value of a header: printable ASCII, all else percent-encoded.
pub fn header_name_text(name: &str) -> Cow<'_, str> {
    let mut text = String::new();
    push_encoded(&mut text, name, Place::Rule, Quotes::Plain);
    if text == name { name.into() } else { text.into() }
}

/// Where a name is. The last `/` separates the limit from its rule, so a limit's name has none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Rule,
    Limit,
}

/// Whether quotes are escaped, as inside a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    Escaped,
    Plain,
}

/// Writes a name with percent-encoding, so that different names stay different: of bytes that are not printable ASCII,
/// of `%`, and in the name of a limit of `/` and of a name that looks like a position.
fn push_encoded(text: &mut String, name: &str, place: Place, quotes: Quotes) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') & (byte != b'"') & (byte != b'\\') & (byte != b'%');
    // Look at every byte, without leaving early, so that the compiler can vectorize the loop.
    let is_all_plain = name.bytes().fold(true, |plain, byte| plain & is_plain(byte));
    let is_limit_plain = || !name.contains('/') && !is_position(name);
    if is_all_plain && (place == Place::Rule || is_limit_plain()) {
        return text.push_str(name);
    }
    push_percent_encoded(text, name, place, quotes);
}

fn is_position(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cold]
fn push_percent_encoded(text: &mut String, name: &str, place: Place, quotes: Quotes) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let looks_like_position = place == Place::Limit && is_position(name);
    for (index, byte) in name.bytes().enumerate() {
        match byte {
            b'/' if place == Place::Limit => text.push_str("%2F"),
            b'"' | b'\\' if quotes == Quotes::Escaped => text.extend(['\\', char::from(byte)]),
            b'%' => text.push_str("%25"),
            b' '..=b'~' if !(looks_like_position && index == 0) => text.push(char::from(byte)),
            _ => {
                let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
                text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
}
