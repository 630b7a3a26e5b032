//! The values that settings take.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use clap::ValueEnum;
use tidegate::WAITERS_MAX;
use tidegate::snapshot::SNAPSHOT_EVERY_MIN;
use tidegate_core::text::parse_duration;

/// What is worth a line in the log: this, and what is worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What keeps the server from doing its work
    Error,
    /// What somebody should look at
    Warn,
    /// What happens to the server: starts, stops, reloads
    #[default]
    Info,
    /// What happens to connections
    Debug,
    /// Everything
    Trace,
}

/// Whom the log is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// People
    #[default]
    Text,
    /// Programs: a JSON object on each line
    Json,
}

/// How the log names the keys of limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogKeys {
    /// By a hash, so that the log names nobody
    #[default]
    Hashed,
    /// As they are
    Plain,
}

/// How the addresses that were bound are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PrintAddresses {
    /// A line for each: http 127.0.0.1:8080
    #[default]
    Text,
    /// One JSON object: {"http": "127.0.0.1:8080", ..}
    Json,
}

/// Which answers of the rate limit service say which rule decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RlsDetails {
    /// None
    Off,
    /// Those that are not plainly allowed
    #[default]
    Marked,
    /// All of them
    All,
}

/// The longest that any of the times may be: nobody means a longer one.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Rules and certificates are not looked at more often.
const RELOAD_EVERY_MIN: Duration = Duration::from_millis(10);
/// A shorter timeout would cut off clients that do nothing wrong.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// A store is not asked at all by who waits for less.
const STORE_TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Who asks has gone by then.
const STORE_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// The longest namespace, in bytes: every key begins with it.
const NAMESPACE_BYTES_MAX: usize = 32;
const WAIT_REPLICAS_MAX: u32 = 100;
const CONNECTIONS_MAX: usize = 1_000_000;
const WORKERS_MAX: usize = 1_024;

/// How often rules are looked at.
pub fn reload_every(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, RELOAD_EVERY_MIN)
}

/// How often a snapshot is written.
pub fn snapshot_every(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, SNAPSHOT_EVERY_MIN)
}

/// How long a client may take.
pub fn timeout(text: &str) -> Result<Duration, String> {
    parse_duration_from(text, TIMEOUT_MIN)
}

/// How long the end may take; not at all is fine.
pub fn drain_timeout(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { parse_duration_from(text, Duration::ZERO) }
}

/// How long a decision may wait for the store.
pub fn store_timeout(text: &str) -> Result<Duration, String> {
    parse_duration_between(text, STORE_TIMEOUT_MIN, STORE_TIMEOUT_MAX)
}

/// What the names of all keys begin with. Braces would make it a part of where in a cluster they are.
pub fn store_namespace(text: &str) -> Result<Box<str>, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    match text.len() {
        1..=NAMESPACE_BYTES_MAX if text.bytes().all(is_plain) => Ok(text.into()),
        _ => Err(format!(
            "`{text}` cannot be what names of keys begin with (hint: up to {NAMESPACE_BYTES_MAX} letters and digits of \
             ASCII, with . _ : - between them)"
        )),
    }
}

/// How many replicas have to have what was written.
pub fn store_wait_replicas(text: &str) -> Result<NonZeroU32, String> {
    match text.parse::<u32>().ok().and_then(NonZeroU32::new) {
        Some(number) if number.get() <= WAIT_REPLICAS_MAX => Ok(number),
        _ => Err(format!(
            "`{text}` is no number from 1 to {WAIT_REPLICAS_MAX} (hint: leave it out to wait for none)"
        )),
    }
}

/// How many connections a listener may have.
pub fn connections_max(text: &str) -> Result<NonZeroUsize, String> {
    parse_count(text, CONNECTIONS_MAX)
}

/// How many requests may be held for a key: no more than may be held in all.
pub fn queue_max(text: &str) -> Result<NonZeroUsize, String> {
    parse_count(text, usize::try_from(WAITERS_MAX).unwrap_or(usize::MAX))
}

/// How many threads there are to be.
pub fn workers(text: &str) -> Result<NonZeroUsize, String> {
    parse_count(text, WORKERS_MAX)
}

fn parse_duration_from(text: &str, least: Duration) -> Result<Duration, String> {
    parse_duration_between(text, least, TIME_MAX)
}

fn parse_duration_between(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let nanos =
        parse_duration(text).map_err(|error| format!("{} (hint: {})", error.problem(), error.hint()))?;
    let duration = Duration::from_nanos(nanos);
    if duration < least {
        return Err(format!("`{text}` is too short (hint: the least is {least:?})"));
    }
    if duration > most {
        let most = if most == TIME_MAX { "24h".to_owned() } else { format!("{most:?}") };
        return Err(format!("`{text}` is too long (hint: the most is {most})"));
    }
    Ok(duration)
}

fn parse_count(text: &str, most: usize) -> Result<NonZeroUsize, String> {
    match text.replace('_', "").parse::<usize>().ok().and_then(NonZeroUsize::new) {
        Some(number) if number.get() <= most => Ok(number),
        _ => Err(format!("`{text}` is no number from 1 to {most} (hint: write it in digits)")),
    }
}
