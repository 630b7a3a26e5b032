//! A watch: announces that units of a plan's keys may have come back.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Watches the keys of a plan: see [`Store::watch`](super::Store::watch). Dropping it ends the watch.
#[must_use = "a watch ends when it is dropped"]
pub struct Watch(Box<dyn PollChanged>);

/// What a store implements to provide a [`Watch`].
pub trait PollChanged: Send + Sync {
    /// Ready when units of one of the keys may have come back since it was last ready.
    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

impl Watch {
    /// A watch that gets its changes from `changes`.
    pub fn new(changes: impl PollChanged + 'static) -> Self {
        Self(Box::new(changes))
    }

    /// Ready when units of one of the keys may have come back since it was last ready, or since the watch was created.
    /// It may be ready without reason, and it may miss a change while the store has lost its connection. So poll the
    /// store as well.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_changed(context)
    }

    /// Waits until [`poll_changed`](Self::poll_changed) is ready. Dropping the future loses no change.
    pub async fn changed(&mut self) {
        poll_fn(|context| self.poll_changed(context)).await;
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
