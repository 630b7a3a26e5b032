//! What changed with a server, for logs.

use std::fmt;
use std::sync::Arc;

/// What changed with a server of the store. Each change is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEvent {
    /// It did not answer, or said that it cannot, several times in a row, and is left alone until it is back.
    BreakerOpened {
        /// Its host and port.
        address: Box<str>,
        /// What the last failure was.
        reason: Box<str>,
    },
    /// It is away, and cannot be connected to for a reason that was not told yet and does not pass by itself: a wrong
    /// password, a certificate, a server that is too old or of another kind.
    ConnectFailed {
        /// Its host and port.
        address: Box<str>,
        /// What was wrong, and what to do about it.
        reason: Box<str>,
    },
    /// It is back, and is asked again.
    BreakerClosed {
        /// Its host and port.
        address: Box<str>,
    },
    /// It has no slots of the cluster any more, or has left it, and is not asked again.
    LeftCluster {
        /// Its host and port.
        address: Box<str>,
    },
    /// Another server is master now, according to Sentinel.
    MasterChanged {
        /// The host and port of the old one.
        from: Box<str>,
        /// The host and port of the new one.
        to: Box<str>,
    },
}

/// Who is told of events.
#[derive(Clone)]
pub struct EventHook(Arc<dyn Fn(StoreEvent) + Send + Sync>);

impl EventHook {
    /// It is called from a task of the store, so it must not wait for anything.
    pub fn new(hook: impl Fn(StoreEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(super) fn call(&self, event: StoreEvent) {
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
            Self::BreakerOpened { address, reason: why } => write!(f, "the store at {address} is away: {why}"),
            Self::ConnectFailed { address, reason: why } => {
                write!(f, "the store at {address} cannot be connected to: {why}")
            }
            Self::BreakerClosed { address } => write!(f, "the store at {address} is back"),
            Self::LeftCluster { address } => write!(f, "the store at {address} has no part of the cluster any more"),
            Self::MasterChanged { from, to } => write!(f, "the store's master is {to} now, not {from}"),
        }
    }
}
