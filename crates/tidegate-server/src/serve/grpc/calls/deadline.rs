//! How long a call may take.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::serve::grpc::method;

/// Longer client timeouts are reduced to this.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

/// When a call has to end, if ever.
pub struct Deadline(Option<Pin<Box<Sleep>>>);

/// When the client stops waiting for a call that has just arrived, if its headers say so.
pub fn from_headers(headers: &HeaderMap) -> Option<Instant> {
    method::timeout(headers).map(|time| Instant::now() + time.min(TIMEOUT_MAX))
}

impl Deadline {
    /// The deadline is `time` from now.
    pub fn after(time: Duration) -> Self {
        Self::at(Some(Instant::now() + time))
    }

    /// The deadline is `instant`, or never.
    pub fn at(instant: Option<Instant>) -> Self {
        Self(instant.map(|instant| Box::pin(sleep_until(instant))))
    }

    /// Ready when the deadline has passed.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(timer) => timer.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}
