//! Counters of the servers of a store.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::connect_error::ConnectError;

/// Counters of the servers of a store, since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServersStats {
    /// The servers known now, in no particular order. Before a cluster is found, the first server of the URL.
    pub servers: Vec<ServerStats>,
    /// The sums for all servers, including those that are gone.
    pub total: ServerCounts,
    /// Keys that went to another member of a ring than the first in hash order, because the first was down.
    pub ring_moved: u64,
    /// Pipelines that reached fewer replicas in time than required.
    pub replicas_short: u64,
}

/// The state of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Its host and port.
    pub address: Box<str>,
    /// Whether it is used.
    pub breaker: BreakerState,
    /// Whether it accepts writes. While it refuses them, it can deny requests but not admit them.
    pub writes: WriteState,
    /// Why the last attempt to connect failed. None once it is connected, and before the first attempt ends.
    pub connect_error: Option<ConnectError>,
    /// Its counters.
    pub counts: ServerCounts,
}

/// Whether a server is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// It is used.
    Closed,
    /// It is not used, until a probe succeeds.
    Open,
}

/// Whether a server accepts writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteState {
    /// It accepts writes, as far as is known.
    Accepted,
    /// It refuses writes: it is out of memory, cannot save to disk, or has too few replicas.
    Refused,
}

/// The counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounts {
    /// Pipelines that were sent.
    pub pipelines: u64,
    /// Commands in these pipelines.
    pub commands: u64,
    /// Pipelines without a reply or with an error of the whole server, and failed attempts to connect.
    pub failures: u64,
    /// Commands that the server refused, for any reason.
    pub refused: u64,
    /// Commands that were redirected to another server, or sent again because a slot was migrating.
    pub redirects: u64,
    /// Connections after the first.
    pub reconnects: u64,
    /// How often scripts were loaded again because the server had lost them.
    pub scripts_reloaded: u64,
}

/// The counters behind [`ServerCounts`].
#[derive(Debug, Default)]
pub(crate) struct ServerCounters {
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
