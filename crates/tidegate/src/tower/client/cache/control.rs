//! `Cache-Control`, as far as a private cache that serves nothing stale needs it.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{AGE, CACHE_CONTROL, DATE, EXPIRES, HeaderName};
use tidegate_core::Timestamp;

/// A longer time counts as this, about 68 years: RFC 9111, section 1.2.2.
const SECONDS_MAX: u64 = 1 << 31;

/// The directives of a request or a response. Unknown ones are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CacheControl {
    pub no_store: bool,
    pub no_cache: bool,
    pub only_if_cached: bool,
    pub max_age: Option<Duration>,
    pub min_fresh: Option<Duration>,
}

impl CacheControl {
    pub fn read(headers: &HeaderMap) -> Self {
        let mut control = Self::default();
        let values = headers.get_all(CACHE_CONTROL);
        // A value that is not text could say anything, so nothing is stored.
        control.no_store = values.iter().any(|value| value.to_str().is_err());
        let directives =
            values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        for directive in directives {
            let (name, argument) = match directive.split_once('=') {
                Some((name, argument)) => (name.trim(), argument.trim().trim_matches('"')),
                None => (directive.trim(), ""),
            };
            match name.to_ascii_lowercase().as_str() {
                "no-store" => control.no_store = true,
                // With a list of fields, it would be enough to leave those out. Revalidating is always right.
                "no-cache" => control.no_cache = true,
                "only-if-cached" => control.only_if_cached = true,
                // Of several, the shortest. One that cannot be read makes the response stale.
                "max-age" => {
                    let age = seconds(argument).unwrap_or(Duration::ZERO);
                    control.max_age = Some(control.max_age.map_or(age, |other| other.min(age)));
                }
                "min-fresh" => control.min_fresh = seconds(argument),
                _ => {}
            }
        }
        control
    }
}

/// How old a response is when it is received, and how long it is fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    pub age: Duration,
    pub lifetime: Duration,
}

impl Freshness {
    /// Only what the server says counts. Nothing is guessed from `Last-Modified`.
    pub fn read(headers: &HeaderMap, control: CacheControl, now: Timestamp) -> Self {
        let now = Duration::from_nanos(now.as_nanos());
        let date = date(headers, &DATE).unwrap_or(now);
        let stated_age = headers.get(AGE).and_then(|age| seconds(age.to_str().ok()?)).unwrap_or_default();
        let expires_after = || date_lifetime(headers, date);
        let lifetime = control.max_age.or_else(expires_after).unwrap_or_default();
        Self { age: stated_age.max(now.saturating_sub(date)), lifetime }
    }
}

fn date_lifetime(headers: &HeaderMap, date_of_response: Duration) -> Option<Duration> {
    headers.contains_key(EXPIRES).then(|| {
        // A date that cannot be read, such as `0`, is in the past.
        date(headers, &EXPIRES).unwrap_or_default().saturating_sub(date_of_response)
    })
}

/// A date, as the time since the epoch.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Duration> {
    let date = httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?;
    date.duration_since(UNIX_EPOCH).ok()
}

fn seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(text.parse().unwrap_or(SECONDS_MAX).min(SECONDS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn directives_are_read() {
        let read = |value: &str| CacheControl::read(&headers(&[("cache-control", value)]));
        let none = CacheControl::default();
        assert_eq!(read("No-Store"), CacheControl { no_store: true, ..none });
        assert_eq!(read("public, x=1, no-cache=\"set-cookie\""), CacheControl { no_cache: true, ..none });
        let max_age = |seconds| CacheControl { max_age: Some(Duration::from_secs(seconds)), ..none };
        assert_eq!(read("max-age=60"), max_age(60));
        assert_eq!(read("max-age=\"60\", max-age=5"), max_age(5));
        assert_eq!(read("max-age=x"), max_age(0));
        assert_eq!(read("max-age=-5"), max_age(0));
        assert_eq!(read("max-age=99999999999999999999"), max_age(SECONDS_MAX));
        assert_eq!(read(""), none);
    }

    #[test]
    fn a_lifetime_is_only_what_the_server_says() {
        // 08:49:37 is 784111777.
        let now = Timestamp::from_nanos(784_111_787 * 1_000_000_000);
        let read = |lines: &[(&'static str, &str)]| {
            let headers = headers(lines);
            let Freshness { age, lifetime } = Freshness::read(&headers, CacheControl::read(&headers), now);
            (age.as_secs(), lifetime.as_secs())
        };
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(read(&[("cache-control", "max-age=60")]), (0, 60));
        assert_eq!(read(&[("cache-control", "max-age=60"), date]), (10, 60));
        assert_eq!(read(&[("cache-control", "max-age=60"), date, ("age", "25")]), (25, 60));
        assert_eq!(read(&[date, ("expires", "Sun, 06 Nov 1994 08:50:37 GMT")]), (10, 60));
        assert_eq!(read(&[date, ("expires", "0")]), (10, 0));
        assert_eq!(read(&[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]), (0, 0));
    }
}
