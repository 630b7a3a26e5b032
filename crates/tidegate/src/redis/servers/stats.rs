//! What was counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::connect_error::ConnectError;

/// What was counted while talking to the servers of the store, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServersStats {
    /// Those that are known now, in no particular order. Of a cluster that is not found yet, the first that the URL names.
    pub servers: Vec<ServerStats>,
    /// What was counted for all servers, those that are gone included.
    pub total: ServerCounts,
    /// How many keys were placed at another member of a ring than the first in hash order, because that one is away.
    pub ring_moved: u64,
    /// How many rounds fewer replicas than wanted had received in time.
    pub replicas_short: u64,
}

/// What is known of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Its host and port.
    pub address: Box<str>,
    /// Whether it is asked.
    pub breaker: BreakerState,
    /// Why the last attempt to connect failed. None once it is connected, and before the first attempt is over.
    pub connect_error: Option<ConnectError>,
    /// What was counted for it.
    pub counts: ServerCounts,
}

/// Whether a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// It is.
    Closed,
    /// It is not, until a probe says that it is back.
    Open,
}

/// What was counted for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounts {
    /// Rounds that were sent: pipelines of commands.
    pub pipelines: u64,
    /// Commands that were sent in them.
    pub commands: u64,
    /// Rounds that brought no reply or the answer that the server as a whole cannot, and connections that were not made.
    pub failures: u64,
    /// Commands that were refused, whatever for.
    pub refused: u64,
    /// Commands that were sent on to another server, or again to the same one, because the cluster is being changed.
    pub redirects: u64,
    /// Connections that were made after the first.
    pub reconnects: u64,
    /// How often scripts were loaded again because the server had lost them.
    pub scripts_reloaded: u64,
}

/// The counters behind [`ServerCounts`].
#[derive(Debug, Default)]
pub(super) struct ServerCounters {
    pub pipelines: AtomicU64,
    pub commands: AtomicU64,
    pub failures: AtomicU64,
    pub refused: AtomicU64,
    pub redirects: AtomicU64,
    pub reconnects: AtomicU64,
    pub scripts_reloaded: AtomicU64,
}

impl ServerCounters {
    pub fn snapshot(&self) -> ServerCounts {
        ServerCounts {
            pipelines: self.pipelines.load(Relaxed),
            commands: self.commands.load(Relaxed),
            failures: self.failures.load(Relaxed),
            refused: self.refused.load(Relaxed),
            redirects: self.redirects.load(Relaxed),
            reconnects: self.reconnects.load(Relaxed),
            scripts_reloaded: self.scripts_reloaded.load(Relaxed),
        }
    }
}
