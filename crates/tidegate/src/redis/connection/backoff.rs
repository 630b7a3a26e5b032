//! Pauses between attempts to connect to a server.

use std::time::Duration;

use super::connect_error::ConnectError;
use super::jitter::JitterRange;
use super::stats::BreakerState;

/// Between attempts while the breaker is open.
pub(crate) const PROBE_PAUSE: JitterRange = JitterRange::from_millis(300..=900);
/// Between attempts before it opens.
pub(crate) const RETRY_PAUSE: JitterRange = JitterRange::from_millis(20..=60);
/// How often the pause doubles after lasting errors: up to 2.4 to 7.2 seconds.
const DOUBLINGS_MAX: u32 = 3;

/// Chooses the pause between attempts. A server that is down may be back at any moment, so the pause stays
/// short. A lasting error, such as a wrong password, needs a person to fix it, so the pause grows. Otherwise
/// the server's log would fill.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
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
            return PROBE_PAUSE;
        }
        let factor = 1 << self.lasting_errors.min(DOUBLINGS_MAX);
        self.lasting_errors = self.lasting_errors.saturating_add(1);
        JitterRange { min: PROBE_PAUSE.min * factor, max: PROBE_PAUSE.max * factor }
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
        for _ in 0..5 {
            assert_eq!(least(BreakerState::Open, &away), ms(300));
        }
        let grown: Vec<_> = (0..6).map(|_| least(BreakerState::Open, &denied)).collect();
        assert_eq!(grown, [300, 600, 1_200, 2_400, 2_400, 2_400].map(ms));
        assert_eq!(least(BreakerState::Open, &away), ms(300));
        assert_eq!(least(BreakerState::Open, &denied), ms(300));
    }
}
