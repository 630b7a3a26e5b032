//! How long a call may take.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::serve::grpc::head;

/// The longest that a client waits for anything here; what is longer is as good as for ever.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

/// When a call has taken too long, if it can.
pub struct Deadline(Option<Pin<Box<Sleep>>>);

/// Until when the client waits for an answer to a call that has just arrived, if it says so.
pub fn from_headers(headers: &HeaderMap) -> Option<Instant> {
    head::timeout(headers).map(|time| Instant::now() + time.min(TIMEOUT_MAX))
}

impl Deadline {
    /// After so much time.
    pub fn after(time: Duration) -> Self {
        Self::at(Some(Instant::now() + time))
    }

    /// At this instant, if at all.
    pub fn at(instant: Option<Instant>) -> Self {
        Self(instant.map(|instant| Box::pin(sleep_until(instant))))
    }

    /// Ready when it is over.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(timer) => timer.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}
