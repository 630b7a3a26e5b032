//! Tells all connections that the server is shutting down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Whether the server drains. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    token: CancellationToken,
    /// The same as a flag, which is read for every request: the token takes a lock.
    is_draining: Arc<AtomicBool>,
}

impl Drain {
    /// A drain that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the drain.
    pub fn begin(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Returns when the drain starts. A connection then closes if it is idle, else after it has answered its started
    /// requests.
    pub async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// Whether the drain has started.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }
}
