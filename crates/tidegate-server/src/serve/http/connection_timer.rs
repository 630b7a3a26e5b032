//! The timer of a connection. It is set again when it fires, not for each request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::tracker::ConnectionTracker;
use crate::serve::poll_on_wake::PollOnWake;
use crate::serve::settings::Bounds;

/// Fires when a connection has taken too long.
pub(super) struct ConnectionTimer<'b> {
    bounds: &'b Bounds,
    /// The shorter of the two timeouts. Nothing that starts now can time out earlier.
    timeout_min: Duration,
    timer: PollOnWake<Pin<Box<Sleep>>>,
}

impl<'b> ConnectionTimer<'b> {
    pub fn new(bounds: &'b Bounds) -> Self {
        let timeout_min = bounds.header_timeout.min(bounds.idle_timeout);
        Self { bounds, timeout_min, timer: PollOnWake::new(Box::pin(sleep(timeout_min))) }
    }

    /// Ready when what the tracker says has timed out. It may be polled again afterwards.
    pub fn poll(&mut self, context: &mut Context<'_>, tracker: &ConnectionTracker<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.poll(context));
            let now = Instant::now();
            let latest = now + self.timeout_min;
            let deadline = tracker.deadline(self.bounds);
            let is_over = deadline.is_some_and(|deadline| deadline <= now);
            let next = if is_over { latest } else { deadline.unwrap_or(latest).min(latest) };
            self.timer.future_mut().as_mut().reset(next);
            if is_over {
                return Poll::Ready(());
            }
        }
    }
}
