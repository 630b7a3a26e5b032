//! Counts connections that speak another protocol, and logs them now and then.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Timestamp;

use super::protocol_error::WrongProtocol;

/// Minimum time between log lines, in nanoseconds, so that a port scan cannot fill the log.
const LOGGED_EVERY_NS: u64 = 10_000_000_000;

/// Connections since the last log line.
#[derive(Debug, Default)]
pub(crate) struct WrongProtocolLog {
    unlogged: AtomicU64,
    logged_at_ns: AtomicU64,
}

impl WrongProtocolLog {
    /// Adds a connection, and logs if a line is due.
    pub fn add(&self, protocol: WrongProtocol, now: Timestamp) {
        let connections = self.unlogged.fetch_add(1, Ordering::Relaxed) + 1;
        let (last, now) = (self.logged_at_ns.load(Ordering::Relaxed), now.as_nanos());
        let is_due = last == 0 || now.saturating_sub(last) >= LOGGED_EVERY_NS;
        // Of several threads, only one logs.
        let claim =
            || self.logged_at_ns.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due && claim() {
            self.unlogged.fetch_sub(connections, Ordering::Relaxed);
            tracing::warn!(
                connections,
                spoken = protocol.as_str(),
                "closed connections to the Redis port that speak another protocol; HTTP may be an attack through a \
                 user's browser (hint: allow only your applications to reach the port)"
            );
        }
    }
}
