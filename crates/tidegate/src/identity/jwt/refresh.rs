//! When to fetch keys from a URL again. Pure: the caller has the clock and fetches.

use std::time::Duration;

use tidegate_core::Timestamp;

/// The least time between two fetches. Clients can send tokens with unknown keys at will, and must not make a node flood
/// the issuer.
pub const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(30);

/// When to fetch a JWKS: at once, then periodically, and sooner if a token has an unknown key or the last fetch failed.
///
/// A failed fetch changes nothing about the keys: they are kept while the URL is away.
#[derive(Clone, Debug)]
pub struct KeyRefresh {
    every: Duration,
    last_start: Option<Timestamp>,
    /// The last fetch failed, or a token had an unknown key after it began.
    is_urgent: bool,
}

impl KeyRefresh {
    /// Fetches keys this often, at most every [`REFRESH_INTERVAL_MIN`].
    pub fn every(interval: Duration) -> Self {
        Self { every: interval.max(REFRESH_INTERVAL_MIN), last_start: None, is_urgent: false }
    }

    /// When the next fetch is due. `None` if it is due at once, for the first time.
    pub fn next_fetch(&self) -> Option<Timestamp> {
        let wait = if self.is_urgent { REFRESH_INTERVAL_MIN } else { self.every };
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.last_start.map(|start| Timestamp::from_nanos(start.as_nanos().saturating_add(wait_ns)))
    }

    /// Whether a fetch is due.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.next_fetch().is_none_or(|next| next <= now)
    }

    /// A token had an unknown key.
    pub fn unknown_key(&mut self) {
        self.is_urgent = true;
    }

    /// A fetch begins.
    pub fn started(&mut self, now: Timestamp) {
        self.last_start = Some(now);
        self.is_urgent = false;
    }

    /// The fetch failed.
    pub fn failed(&mut self) {
        self.is_urgent = true;
    }
}
