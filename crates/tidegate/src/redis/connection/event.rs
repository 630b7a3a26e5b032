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
            Self::MasterChanged { from, to } => write!(f, "the store's master changed from {from} to {to}"),
        }
    }
}
