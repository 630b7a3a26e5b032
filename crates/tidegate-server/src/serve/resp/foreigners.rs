//! Connections that speak something else: counted each, and logged now and then.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Timestamp;

use super::protocol_error::WrongProtocol;

/// A line in the log at most so often, in nanoseconds: whoever scans ports is not to fill it.
const LOGGED_EVERY_NS: u64 = 10_000_000_000;

/// How many there were since the log last said so.
#[derive(Debug, Default)]
pub(super) struct WrongProtocolLog {
    unlogged: AtomicU64,
    logged_at_ns: AtomicU64,
}

impl WrongProtocolLog {
    /// There was one more.
    pub fn add(&self, foreign: WrongProtocol, now: Timestamp) {
        let unsaid = self.unlogged.fetch_add(1, Ordering::Relaxed) + 1;
        let (last, now) = (self.logged_at_ns.load(Ordering::Relaxed), now.as_nanos());
        let is_due = last == 0 || now.saturating_sub(last) >= LOGGED_EVERY_NS;
        let mine =
            || self.logged_at_ns.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due && mine() {
            self.unlogged.fetch_sub(unsaid, Ordering::Relaxed);
            let spoken = foreign.as_str();
            tracing::warn!(
                connections = unsaid,
                spoken,
                "closed connections to the Redis port that speak another protocol; if this is HTTP, somebody's \
                 browser may have been made to attack it (hint: let only those reach the port who are to use it)"
            );
        }
    }
}
