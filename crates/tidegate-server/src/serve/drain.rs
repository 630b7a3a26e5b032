//! The end of the server, as everybody learns of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// Says when it is time to finish. Cheap to clone; all clones know the same.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    token: CancellationToken,
    /// The same, for those who look at it with every request: the token takes a lock.
    is_draining: Arc<AtomicBool>,
}

impl Drain {
    /// One that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins: who waits for it learns of it, and whoever asks from now on.
    pub fn begin(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// Comes to an end when it begins. A connection then closes if it is idle, or answers what it has begun and closes.
    pub async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// Whether it has begun.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }
}
