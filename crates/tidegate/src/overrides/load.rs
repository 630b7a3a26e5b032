//! Loads from the config store that several requests wait for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_timer::Delay;
use smallvec::SmallVec;

/// A load in progress.
#[derive(Debug, Default)]
pub(super) struct Load {
    state: Mutex<LoadState>,
}

#[derive(Debug, Default)]
struct LoadState {
    is_done: bool,
    /// The key has changed since the load began, so what it read may be old.
    is_stale: bool,
    wakers: Vec<Waker>,
}

/// Waits for loads, but not longer than the deadline.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct LoadWait {
    loads: SmallVec<[Arc<Load>; 2]>,
    timeout: Duration,
    deadline: Delay,
}

impl Load {
    fn state(&self) -> MutexGuard<'_, LoadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks what was read as old. The load then reads again.
    pub fn mark_stale(&self) {
        self.state().is_stale = true;
    }

    /// Whether what was read is old. Resets the mark.
    pub fn take_stale(&self) -> bool {
        std::mem::take(&mut self.state().is_stale)
    }

    /// Wakes all requests that wait.
    pub fn finish(&self) {
        let wakers = {
            let mut state = self.state();
            state.is_done = true;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.is_done {
            return Poll::Ready(());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl LoadWait {
    pub(super) fn new(loads: SmallVec<[Arc<Load>; 2]>, timeout: Duration) -> Self {
        Self { loads, timeout, deadline: Delay::new(timeout) }
    }

    /// Waits no longer than this.
    pub fn at_most(mut self, timeout: Duration) -> Self {
        if timeout < self.timeout {
            self.timeout = timeout;
            self.deadline.reset(timeout);
        }
        self
    }
}

impl Future for LoadWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.loads.retain(|load| load.poll(context).is_pending());
        if self.loads.is_empty() {
            return Poll::Ready(());
        }
        Pin::new(&mut self.deadline).poll(context)
    }
}
