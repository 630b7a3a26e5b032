//! Logs connections that speak another protocol, now and then.

use tidegate_core::Timestamp;

use super::protocol_error::WrongProtocol;
use crate::serve::line_limiter::{LineBudget, LineLimiter};
use crate::serve::rounding::SECOND_NS;

/// The length of a window with one log line, so that a port scan cannot fill the log.
const LOG_WINDOW_NS: u64 = 10 * SECOND_NS;

/// Connections that speak another protocol.
#[derive(Debug)]
pub(crate) struct WrongProtocolLog(LineLimiter);

impl WrongProtocolLog {
    /// Adds a connection, and logs if a line is due.
    pub fn add(&self, protocol: WrongProtocol, now: Timestamp) {
        if let LineBudget::Write { suppressed } = self.0.take_line(now) {
            tracing::warn!(
                connections = suppressed + 1,
                spoken = protocol.as_str(),
                "closed connections to the Redis port that speak another protocol; HTTP may be an attack through a \
                 user's browser (hint: allow only your applications to reach the port)"
            );
        }
    }
}

impl Default for WrongProtocolLog {
    fn default() -> Self {
        Self(LineLimiter::new(1, LOG_WINDOW_NS))
    }
}
