//! Changes of a server, for logs.

use std::fmt;
use std::sync::Arc;

/// A change of a server of the store. Each change is reported once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEvent {
    /// The server failed several times in a row. It is not used until a probe succeeds.
    BreakerOpened {
        /// Its host and port.
        address: Box<str>,
        /// The last failure.
        reason: Box<str>,
    },
    /// The server is down, and connecting fails for a reason that is new and does not go away by itself: a
    /// wrong password, a certificate, or a server that is too old or of another kind.
    ConnectFailed {
        /// Its host and port.
        address: Box<str>,
        /// What is wrong, and what to do about it.
        reason: Box<str>,
    },
    /// The server is back and is used again.
    BreakerClosed {
        /// Its host and port.
        address: Box<str>,
    },
    /// The server has no slots any more or left the cluster, and is not used again.
    LeftCluster {
        /// Its host and port.
        address: Box<str>,
    },
    /// A write reached fewer replicas in time than
    /// [`wait_replicas`](crate::redis::RedisSettings::wait_replicas) requires. Replies do not wait for replicas
    /// until a check succeeds.
    ReplicasShort {
        /// The host and port of the master.
        address: Box<str>,
    },
    /// Enough replicas acknowledge writes in time again.
    ReplicasBack {
        /// The host and port of the master.
        address: Box<str>,
    },
    /// The server refuses writes: it is out of memory, cannot save to disk, or has too few replicas. It can still
    /// deny requests.
    WritesRefused {
        /// Its host and port.
        address: Box<str>,
        /// The error of the server.
        reason: Box<str>,
    },
    /// The server accepts writes again.
    WritesAccepted {
        /// Its host and port.
        address: Box<str>,
    },
    /// A key of the store holds something that Tidegate did not write. Requests with this key are decided without the
    /// store. Each key is reported once, up to 64 keys.
    UnreadableKey {
        /// The name of the key.
        key: Box<str>,
    },
    /// Sentinel reports another master.
    MasterChanged {
        /// The host and port of the old master.
        from: Box<str>,
        /// The host and port of the new master.
        to: Box<str>,
    },
}

/// Receives events.
#[derive(Clone)]
pub struct EventHook(Arc<dyn Fn(StoreEvent) + Send + Sync>);

impl EventHook {
    /// The hook is called from a task of the store, so it must not block.
    pub fn new(hook: impl Fn(StoreEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(crate) fn call(&self, event: StoreEvent) {
        (self.0)(event);
    }
}

impl fmt::Debug for EventHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHook")
    }
}

impl fmt::Display for StoreEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BreakerOpened { address, reason } => {
                write!(f, "the store at {address} is down: {reason}")
            }
            Self::ConnectFailed { address, reason } => {
                write!(f, "cannot connect to the store at {address}: {reason}")
            }
            Self::BreakerClosed { address } => write!(f, "the store at {address} is back"),
            Self::LeftCluster { address } => write!(f, "the store at {address} left the cluster"),
            Self::ReplicasShort { address } => write!(
                f,
                "too few replicas of the store at {address} acknowledge writes in time: answers do not wait for them \
                 until they do"
            ),
            Self::ReplicasBack { address } => {
                write!(f, "enough replicas of the store at {address} acknowledge writes again")
            }
            Self::WritesRefused { address, reason } => {
                write!(f, "the store at {address} refuses writes, and can only deny: {reason}")
            }
            Self::WritesAccepted { address } => write!(f, "the store at {address} accepts writes again"),
            Self::UnreadableKey { key } => write!(
                f,
                "the key `{key}` in the store is not a counter: its requests are decided without the store (hint: \
                 delete the key, or give Tidegate its own namespace)"
            ),
            Self::MasterChanged { from, to } => write!(f, "the store's master changed from {from} to {to}"),
        }
    }
}
