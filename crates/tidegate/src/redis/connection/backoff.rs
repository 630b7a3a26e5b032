//! Pauses between attempts to connect to a server.

use std::time::Duration;

use super::connect_error::ConnectError;
use super::jitter::JitterRange;
use super::stats::BreakerState;

/// Before the first attempt after the breaker has opened. It doubles with each failure, up to [`PROBE_PAUSE`].
const FIRST_PROBE_PAUSE: JitterRange = JitterRange::from_millis(20..=50);
/// How often it doubles.
const PROBE_DOUBLINGS: u32 = 4;
/// Between later attempts while the breaker is open.
pub(crate) const PROBE_PAUSE: JitterRange = JitterRange::from_millis(300..=900);
/// Between attempts before it opens.
pub(crate) const RETRY_PAUSE: JitterRange = JitterRange::from_millis(20..=60);
/// How often the pause doubles after lasting errors: up to 2.4 to 7.2 seconds.
const DOUBLINGS_MAX: u32 = 3;

/// The pause before an attempt while the breaker is open, after this many failures in a row. Most stalls of a
/// server are short, so the first pauses are too.
pub(crate) fn probe_pause(failures: u32) -> JitterRange {
    match failures {
        0..PROBE_DOUBLINGS => FIRST_PROBE_PAUSE * (1 << failures),
        _ => PROBE_PAUSE,
    }
}

/// Chooses the pause between attempts. A server that is down may be back at any moment, so the pause stays
/// short, and is shortest right after the server went down. A lasting error, such as a wrong password, needs
/// a person to fix it, so the pause grows. Otherwise the server's log would fill.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Attempts that failed while the breaker was open.
    probes: u32,
    /// Lasting errors in a row.
    lasting_errors: u32,
}

impl Backoff {
    /// The pause after a failed attempt.
    pub fn pause(&mut self, breaker: BreakerState, error: &ConnectError) -> Duration {
        self.pause_range(breaker, error).pick()
    }

    fn pause_range(&mut self, breaker: BreakerState, error: &ConnectError) -> JitterRange {
        if breaker == BreakerState::Closed {
            return RETRY_PAUSE;
        }
        if error.is_transient() {
            self.lasting_errors = 0;
            let failures = self.probes;
            self.probes = failures.saturating_add(1);
            return probe_pause(failures);
        }
        let factor = 1 << self.lasting_errors.min(DOUBLINGS_MAX);
        self.lasting_errors = self.lasting_errors.saturating_add(1);
        PROBE_PAUSE * factor
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, ConnectError};
    use crate::redis::{BreakerState, ConnectErrorKind as Kind};

    #[test]
    fn the_pause_grows_only_after_lasting_errors() {
        let error = |kind| ConnectError::new(kind, "10.0.0.7:6379", "what", "hint");
        let (away, denied) = (error(Kind::Unreachable), error(Kind::AccessDenied));
        let mut backoff = Backoff::default();
        let mut least = |breaker, error: &ConnectError| backoff.pause_range(breaker, error).min;
        let ms = Duration::from_millis;
        assert_eq!(least(BreakerState::Closed, &denied), ms(20));
        // Soon after it went down, then slower.
        let grown: Vec<_> = (0..6).map(|_| least(BreakerState::Open, &away)).collect();
        assert_eq!(grown, [20, 40, 80, 160, 300, 300].map(ms));
        let grown: Vec<_> = (0..6).map(|_| least(BreakerState::Open, &denied)).collect();
        assert_eq!(grown, [300, 600, 1_200, 2_400, 2_400, 2_400].map(ms));
        assert_eq!(least(BreakerState::Open, &away), ms(300));
        assert_eq!(least(BreakerState::Open, &denied), ms(300));
    }
}
