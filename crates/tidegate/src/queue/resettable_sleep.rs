//! The sleep of the head of a queue.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_core::Timestamp;

use crate::Timer;

/// A sleep that can be reset to an earlier or a later instant.
pub(crate) struct ResettableSleep<S> {
    sleep: Option<(Timestamp, S)>,
}

impl<S> ResettableSleep<S> {
    /// Not sleeping.
    pub(crate) fn idle() -> Self {
        Self { sleep: None }
    }

    /// Sleeps until `at`. Replaces an earlier sleep until another instant.
    pub(crate) fn poll_until<C>(&mut self, at: Timestamp, clock: &C, context: &mut Context<'_>) -> Poll<()>
    where
        C: Timer<Sleep = S>,
        S: Future<Output = ()> + Unpin,
    {
        let (_, sleep) = match self.sleep.take() {
            Some(same) if same.0 == at => self.sleep.insert(same),
            _ => self.sleep.insert((at, clock.sleep_until(at))),
        };
        ready!(Pin::new(sleep).poll(context));
        // A finished sleep must not be polled again.
        self.sleep = None;
        if clock.now() < at {
            // The timer fired early by this clock: yield, and sleep again at the next poll.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
