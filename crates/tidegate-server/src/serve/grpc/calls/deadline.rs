//! How long a call may take.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// The longest that a client waits for anything here; what is longer is as good as for ever.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

/// When a call has taken too long, if it can.
pub struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// After so much time, if any is said.
    pub fn after(time: Option<Duration>) -> Self {
        Self(time.map(|time| Box::pin(sleep(time.min(TIMEOUT_MAX)))))
    }

    /// Ready when it is over.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(timer) => timer.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}
