//! What a response says about when to send again.
//!
//! ```text
//! retry-after: 12                              seconds, or an HTTP date
//! ratelimit: "login";r=0;t=12                  draft-ietf-httpapi-ratelimit-headers, from draft 08 on
//! ratelimit: remaining=0, reset=12             draft 07
//! ratelimit-remaining, ratelimit-reset         drafts before; if there is no `ratelimit`
//! x-ratelimit-remaining, x-ratelimit-reset     if there is neither; seconds, or seconds since the epoch
//! grpc-retry-pushback-ms: 250                  gRPC; a negative number means: do not retry
//! ```

use std::time::{Duration, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderName, RETRY_AFTER};
use tidegate_core::Timestamp;
use tidegate_core::headers::LimitHeader;

const RATELIMIT: HeaderName = HeaderName::from_static(LimitHeader::State.name());
/// The fields of what is left, and of when the limit has all its units again.
const FIELDS: [(HeaderName, HeaderName); 2] = [
    (HeaderName::from_static("ratelimit-remaining"), HeaderName::from_static("ratelimit-reset")),
    (
        HeaderName::from_static(LimitHeader::Remaining.name()),
        HeaderName::from_static(LimitHeader::Reset.name()),
    ),
];
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// A larger reset is an instant, in seconds since the epoch, and not a time span.
const RESET_SECONDS_MAX: u64 = 1_000_000_000;
/// The most limits that are read of one response.
const LIMITS_MAX: usize = 32;

/// When the server wants a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryHint {
    /// It does not say.
    None,
    /// After this time.
    After(Duration),
    /// Never.
    Never,
}

/// When to retry a request that got these headers.
pub(super) fn retry_hint(headers: &HeaderMap, now: Timestamp) -> RetryHint {
    if let Some(pushback) = text(headers, &GRPC_PUSHBACK) {
        // gRPC: a value that is negative or cannot be read means that the client must not retry.
        return pushback
            .parse()
            .map_or(RetryHint::Never, |millis| RetryHint::After(Duration::from_millis(millis)));
    }
    match text(headers, &RETRY_AFTER).and_then(|value| retry_after(value, now)) {
        Some(wait) => RetryHint::After(wait),
        None => RetryHint::None,
    }
}

/// How long the limits of the response have nothing left, as far as its headers say so.
pub(super) fn used_up_for(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let items = || {
        let lines = headers.get_all(RATELIMIT).iter().filter_map(|value| value.to_str().ok());
        lines.flat_map(list_items).take(LIMITS_MAX)
    };
    let of_items = items().filter_map(LimitState::of_item).map(|state| state.used_up_for(now)).max();
    of_items.unwrap_or_else(|| {
        let members =
            LimitState::read(|name| items().find_map(|item| member(item, name)), "remaining", "reset");
        let fields = FIELDS
            .into_iter()
            .map(|(remaining, reset)| LimitState::read(|name| text(headers, name), &remaining, &reset));
        members.or_else(|| fields.flatten().next())?.used_up_for(now)
    })
}

/// What a response says about a limit.
struct LimitState {
    remaining: u64,
    /// Seconds, or seconds since the epoch.
    reset: Option<u64>,
}

impl LimitState {
    /// Reads `"login";r=0;t=12`.
    fn of_item(item: &str) -> Option<Self> {
        Self::read(|name| parameters(item).find_map(|parameter| member(parameter, name)), "r", "t")
    }

    /// Reads the values of two names.
    fn read<'h, N: Copy>(value: impl Fn(N) -> Option<&'h str>, remaining: N, reset: N) -> Option<Self> {
        let number = |name: N| value(name).and_then(|value| value.parse().ok());
        Some(Self { remaining: number(remaining)?, reset: number(reset) })
    }

    /// The time until the reset if nothing is left.
    fn used_up_for(&self, now: Timestamp) -> Option<Duration> {
        match self.reset.filter(|_| self.remaining == 0)? {
            seconds @ 0..RESET_SECONDS_MAX => Some(Duration::from_secs(seconds)),
            epoch_seconds => Duration::from_secs(epoch_seconds).checked_sub(since_epoch(now)),
        }
    }
}

/// Seconds, or an HTTP date. A date in the past is no wait.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(date.saturating_sub(since_epoch(now)))
}

/// The value in `name=value`, without parameters of its own.
fn member<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (key, value) = text.trim().split_once('=')?;
    (key == name).then(|| value.split(';').next().unwrap_or(value))
}

/// The items of a list, split at commas that are not in a quoted string.
fn list_items(list: &str) -> impl Iterator<Item = &str> {
    split_outside_quotes(list, ',')
}

/// The parts of an item after its value.
fn parameters(item: &str) -> impl Iterator<Item = &str> {
    split_outside_quotes(item, ';').skip(1)
}

fn split_outside_quotes(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |character| {
        let is_literal = std::mem::take(&mut is_escaped);
        match character {
            '\\' if is_quoted && !is_literal => is_escaped = true,
            '"' if !is_literal => is_quoted = !is_quoted,
            _ => {}
        }
        character == separator && !is_quoted
    })
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

fn since_epoch(now: Timestamp) -> Duration {
    Duration::from_nanos(now.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_nanos(784_111_777 * 1_000_000_000);

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let seconds = |seconds| RetryHint::After(Duration::from_secs(seconds));
        for (value, expected) in [
            ("12", seconds(12)),
            (" 0 ", seconds(0)),
            // NOW is 08:49:37.
            ("Sun, 06 Nov 1994 08:49:47 GMT", seconds(10)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", seconds(60)),
            ("Sun Nov  6 08:49:30 1994", seconds(0)),
            ("-1", RetryHint::None),
            ("1.5", RetryHint::None),
            ("soon", RetryHint::None),
            ("", RetryHint::None),
        ] {
            assert_eq!(retry_hint(&headers(&[("retry-after", value)]), NOW), expected, "{value:?}");
        }
        assert_eq!(retry_hint(&HeaderMap::new(), NOW), RetryHint::None);
    }

    #[test]
    fn grpc_pushback_is_milliseconds_and_can_forbid_a_retry() {
        let hint =
            |value| retry_hint(&headers(&[("grpc-retry-pushback-ms", value), ("retry-after", "9")]), NOW);
        assert_eq!(hint("250"), RetryHint::After(Duration::from_millis(250)));
        assert_eq!(hint("-1"), RetryHint::Never);
        assert_eq!(hint("x"), RetryHint::Never);
    }

    #[test]
    fn the_longest_used_up_limit_counts() {
        for (value, expected) in [
            (r#""a";r=0;t=12"#, Some(12)),
            (r#""a";r=1;t=12"#, None),
            (r#""a";r=0;t=5, "b";r=0;t=60, "c";r=7;t=900"#, Some(60)),
            (r#""a,b;r=0;t=1";r=3;t=8"#, None),
            (r#""a\";r=0";t=12;r=0"#, Some(12)),
            (r#"a;r=0; t=12"#, Some(12)),
            (r#""a";r=0"#, None),
            (r#""a";r=0;t=x"#, None),
            ("", None),
            (",,;;==\"", None),
        ] {
            let found = used_up_for(&headers(&[("ratelimit", value)]), NOW);
            assert_eq!(found, expected.map(Duration::from_secs), "{value}");
        }
        let two_lines = headers(&[("ratelimit", r#""a";r=0;t=5"#), ("ratelimit", r#""b";r=0;t=9"#)]);
        assert_eq!(used_up_for(&two_lines, NOW), Some(Duration::from_secs(9)));
    }

    #[test]
    fn drafts_of_the_headers() {
        let found = |lines: &[(&'static str, &str)]| used_up_for(&headers(lines), NOW);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(found(&[("ratelimit", "limit=10, remaining=0, reset=5")]), seconds(5));
        assert_eq!(found(&[("ratelimit", "limit=10, remaining=4, reset=5")]), None);
        assert_eq!(
            found(&[("ratelimit", "limit=10;w=1"), ("ratelimit", "remaining=0;x=1,reset=5")]),
            seconds(5)
        );
        assert_eq!(found(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "7")]), seconds(7));
        let x_lines = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9")];
        assert_eq!(found(&x_lines), seconds(9));
        // The first of them that says what is left counts.
        for (line, expected) in [
            (("ratelimit", "remaining=1, reset=5"), None),
            (("ratelimit", r#""a";r=1;t=5"#), None),
            (("ratelimit", "limit=10"), seconds(9)),
            (("ratelimit", "?"), seconds(9)),
            (("ratelimit-remaining", "1"), None),
            (("ratelimit-remaining", "x"), seconds(9)),
        ] {
            assert_eq!(found(&[line, x_lines[0], x_lines[1]]), expected, "{line:?}");
        }
    }

    #[test]
    fn older_headers_count_if_there_is_no_ratelimit() {
        let found = |remaining, reset| {
            used_up_for(&headers(&[("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", reset)]), NOW)
        };
        assert_eq!(found("0", "30"), Some(Duration::from_secs(30)));
        assert_eq!(found("1", "30"), None);
        // NOW is before 2001, so use a later instant.
        let later = Timestamp::from_nanos(1_800_000_000 * 1_000_000_000);
        let epoch = headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000042")]);
        assert_eq!(used_up_for(&epoch, later), Some(Duration::from_secs(42)));
        assert_eq!(used_up_for(&HeaderMap::new(), NOW), None);
    }
}
