//! The sleep of the one in front of a line.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_core::Timestamp;

use crate::Timer;

/// A sleep until an instant, which may be put off or brought forward.
pub(crate) struct ResettableSleep<S> {
    sleep: Option<(Timestamp, S)>,
}

impl<S> ResettableSleep<S> {
    /// Not asleep.
    pub(crate) fn idle() -> Self {
        Self { sleep: None }
    }

    /// Sleeps until `at`, whatever it slept for before.
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
        // It is not asked again once it was ready.
        self.sleep = None;
        if clock.now() < at {
            // A timer that is early by another clock than its own: others go first.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
