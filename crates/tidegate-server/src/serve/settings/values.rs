//! Types and parsers of setting values.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use clap::ValueEnum;
use tidegate::WAITERS_MAX;
use tidegate::headers::HeaderDialect;
use tidegate::identity::jwt::LEEWAY_MAX;
use tidegate::rules::Counting;
use tidegate::snapshot::SNAPSHOT_EVERY_MIN;
use tidegate_core::PLAN_CHARGES_MAX;
use tidegate_core::text::parse_duration;

use crate::serve::connections_memory::CONNECTIONS_MEMORY_MIN;
use crate::size::{ByteSize, ByteSizeError};

/// The least severe level to log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Failures of the server
    Error,
    /// Problems that need attention
    Warn,
    /// Events of the server: start, stop, reload
    #[default]
    Info,
    /// Events of connections
    Debug,
    /// Everything
    Trace,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// How keys appear in the denial log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogKeys {
    /// As a hash, so that the log identifies no person, except those in --log-plain
    #[default]
    Hashed,
    /// As sent by the client
    Plain,
}

/// How to print the bound addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PrintAddresses {
    /// One line each: http 127.0.0.1:8080
    #[default]
    Text,
    /// One JSON object: {"http": "127.0.0.1:8080", ..}
    Json,
}

/// Which answers of the rate limit service name the deciding rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RlsDetails {
    /// None
    Off,
    /// Answers other than a plain `allowed`
    #[default]
    Marked,
    /// All answers
    All,
}

/// What a descriptor with negative hits does. Clients of the data plane are not operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NegativeHits {
    /// It is an error, and the request changes nothing
    #[default]
    Reject,
    /// It refunds hits
    Refund,
}

/// Whether `/metrics` needs the admin token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MetricsAccess {
    /// If there is an admin token
    #[default]
    Token,
    /// No
    Open,
}

/// Whether RESP on an address that other machines can reach needs a password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProtectedMode {
    /// The server does not start without one
    #[default]
    On,
    /// The server starts, with a warning
    Off,
}

/// What happens to requests of a domain without rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnknownDomain {
    /// They pass
    #[default]
    Allow,
    /// They are denied, as if they were over a limit
    Deny,
}

/// Which headers tell clients about their limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RateLimitHeaders {
    /// RateLimit and RateLimit-Policy of the current IETF draft, and X-RateLimit-*
    #[default]
    Draft,
    /// X-RateLimit-Limit with policies, -Remaining and -Reset, as Envoy and limitador send them
    #[value(name = "draft-03")]
    Draft03,
    /// X-RateLimit-* with plain numbers
    #[value(name = "x-ratelimit")]
    XRateLimit,
    /// None of them; only Retry-After
    None,
}

impl From<RateLimitHeaders> for HeaderDialect {
    fn from(headers: RateLimitHeaders) -> Self {
        match headers {
            RateLimitHeaders::Draft => Self::Draft,
            RateLimitHeaders::Draft03 => Self::Draft03,
            RateLimitHeaders::XRateLimit => Self::XRateLimit,
            RateLimitHeaders::None => Self::None,
        }
    }
}

/// What the limits of files for envoyproxy/ratelimit count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum CountingMode {
    /// Every hit, also beyond the limit, for each descriptor separately
    #[default]
    Upstream,
    /// Every hit, but if a descriptor is over its limit, only those that are: STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT
    UpstreamStop,
    /// All hits of a request that passes, none of a request that is denied
    None,
}

impl From<CountingMode> for Counting {
    fn from(mode: CountingMode) -> Self {
        match mode {
            CountingMode::Upstream => Self::Upstream,
            CountingMode::UpstreamStop => Self::UpstreamStop,
            CountingMode::None => Self::None,
        }
    }
}

/// The maximum of all durations. A longer one is probably a mistake.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Rules and certificates are not checked more often.
const RELOAD_EVERY_MIN: Duration = Duration::from_millis(10);
/// A shorter timeout would cut off well-behaved clients.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// With a shorter timeout, every call to the store would time out.
const STORE_TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Callers do not wait longer than this.
const STORE_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// The longest namespace. Every key starts with it.
const NAMESPACE_BYTES_MAX: usize = 32;
const WAIT_REPLICAS_MAX: u32 = 100;
const CONNECTIONS_MAX: usize = 1_000_000;
const WORKERS_MAX: usize = 1_024;
/// The longest name of DNS.
const HOST_NAME_BYTES_MAX: usize = 253;

/// Parses `--reload-every`.
pub fn reload_every(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, RELOAD_EVERY_MIN)
}

/// Parses `--snapshot-every`.
pub fn snapshot_every(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, SNAPSHOT_EVERY_MIN)
}

/// Parses `--request-bytes-max`.
pub fn request_bytes_max(text: &str) -> Result<ByteSize, String> {
    const MIN: u64 = 16 << 10;
    const MAX: u64 = 64 << 20;
    let size: ByteSize = text.parse().map_err(|error: ByteSizeError| error.to_string())?;
    match size.bytes() {
        MIN..=MAX => Ok(size),
        _ => Err(format!("`{text}` is not a size from 16KiB to 64MiB (hint: 4MiB is the default)")),
    }
}

/// Parses `--descriptors-max` and `--entries-max`.
pub fn items_max(text: &str) -> Result<NonZeroUsize, String> {
    number_up_to(text, 100_000)
}

/// Parses `--limits-max`.
pub fn limits_max(text: &str) -> Result<NonZeroUsize, String> {
    number_up_to(text, PLAN_CHARGES_MAX)
}

fn number_up_to(text: &str, max: usize) -> Result<NonZeroUsize, String> {
    match text.parse::<NonZeroUsize>() {
        Ok(number) if number.get() <= max => Ok(number),
        _ => {
            Err(format!("`{text}` is not a number from 1 to {max} (hint: omit the setting for the default)"))
        }
    }
}

/// Parses `--descriptor-metrics-max`.
pub fn descriptor_metrics_max(text: &str) -> Result<usize, String> {
    const MAX: usize = 1_000_000;
    match text.parse() {
        Ok(number @ 0..=MAX) => Ok(number),
        _ => Err(format!("`{text}` is not a number from 0 to {MAX} (hint: each descriptor is five series)")),
    }
}

/// Parses `--near-limit-ratio`.
pub fn near_limit_ratio(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(format!("`{text}` is not a number from 0 to 1 (hint: 0.8 is four fifths of a limit)")),
    }
}

/// Parses a timeout of a client.
pub fn timeout(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, TIMEOUT_MIN)
}

/// Parses `--drain-timeout`. Zero is allowed.
pub fn drain_timeout(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration_from(text, Duration::ZERO) }
}

/// Parses `--store-timeout`, `--lease-store-timeout` and `--override-timeout`.
pub fn store_timeout(text: &str) -> Result<Duration, String> {
    parse_duration_between(text, STORE_TIMEOUT_MIN, STORE_TIMEOUT_MAX)
}

/// Parses `--jwt-leeway`.
pub fn jwt_leeway(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration_between(text, Duration::ZERO, LEEWAY_MAX) }
}

/// Parses `--store-namespace`. Braces are not allowed, because a cluster would use them to choose the slot.
pub fn store_namespace(text: &str) -> Result<Box<str>, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    match text.len() {
        1..=NAMESPACE_BYTES_MAX if text.bytes().all(is_plain) => Ok(text.into()),
        _ => Err(format!(
            "`{text}` is not a valid namespace (hint: use up to {NAMESPACE_BYTES_MAX} ASCII letters and digits, and \
             . _ : -)"
        )),
    }
}

/// Parses `--store-wait-replicas`.
pub fn store_wait_replicas(text: &str) -> Result<NonZeroU32, String> {
    match text.parse::<u32>().ok().and_then(NonZeroU32::new) {
        Some(number) if number.get() <= WAIT_REPLICAS_MAX => Ok(number),
        _ => Err(format!(
            "`{text}` is not a number from 1 to {WAIT_REPLICAS_MAX} (hint: omit the setting to wait for none)"
        )),
    }
}

/// Parses `--connections-max`.
pub fn connections_max(text: &str) -> Result<NonZeroUsize, String> {
    parse_count(text, CONNECTIONS_MAX)
}

/// Parses `--connections-per-ip-max`.
pub fn connections_per_ip_max(text: &str) -> Result<NonZeroUsize, String> {
    parse_count(text, CONNECTIONS_MAX)
}

/// Parses `--connections-memory-max`.
pub fn connections_memory_max(text: &str) -> Result<ByteSize, String> {
    crate::size::parse_at_least(text, CONNECTIONS_MEMORY_MIN)
}

/// Parses `--queue-max`. It cannot exceed the maximum of all waiting requests.
pub fn queue_max(text: &str) -> Result<NonZeroUsize, String> {
    parse_count(text, usize::try_from(WAITERS_MAX).unwrap_or(usize::MAX))
}

/// Parses a name of `--http-hosts`.
pub fn host_name(text: &str) -> Result<Box<str>, String> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match text.len() {
        1..=HOST_NAME_BYTES_MAX if text.bytes().all(is_valid) => Ok(text.into()),
        _ => Err(format!(
            "`{text}` is not a host name (hint: limits.internal, without a scheme, a port or a path)"
        )),
    }
}

/// Parses `--workers`.
pub fn workers(text: &str) -> Result<NonZeroUsize, String> {
    parse_count(text, WORKERS_MAX)
}

fn parse_duration_from(text: &str, min: Duration) -> Result<Duration, String> {
    parse_duration_between(text, min, TIME_MAX)
}

fn parse_duration_between(text: &str, min: Duration, max: Duration) -> Result<Duration, String> {
    let nanos =
        parse_duration(text).map_err(|error| format!("{} (hint: {})", error.problem(), error.hint()))?;
    let duration = Duration::from_nanos(nanos);
    if duration < min {
        return Err(format!("`{text}` is too short (hint: the minimum is {min:?})"));
    }
    if duration > max {
        let max = if max == TIME_MAX { "24h".to_owned() } else { format!("{max:?}") };
        return Err(format!("`{text}` is too long (hint: the maximum is {max})"));
    }
    Ok(duration)
}

fn parse_count(text: &str, max: usize) -> Result<NonZeroUsize, String> {
    match text.replace('_', "").parse::<usize>().ok().and_then(NonZeroUsize::new) {
        Some(number) if number.get() <= max => Ok(number),
        _ => Err(format!("`{text}` is not a number from 1 to {max} (hint: write it in digits)")),
    }
}
