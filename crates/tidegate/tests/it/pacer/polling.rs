//! A minimal executor: futures are polled when the test says so.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::{Clock, ManualClock, Pacer, Timestamp};

use super::PacerTestExt as _;

/// A future, its output, and how often it was woken.
pub struct Task<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    begun: Option<Poll<T>>,
    wakes: Arc<WakeCounter>,
}

#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<'a, T> Task<'a, T> {
    /// Not polled yet. The bound tests that futures are `Send`.
    pub fn new(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self { future: Box::pin(future), begun: None, wakes: Arc::default() }
    }

    pub fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls once, and keeps the result for [`finish`](Self::finish).
    pub fn polled_once(mut self) -> Self {
        self.begun = Some(self.poll());
        self
    }

    pub fn is_pending(&mut self) -> bool {
        self.poll().is_pending()
    }

    pub fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }

    /// Moves the clock from one sleeper's instant to the next until this one is done.
    pub fn finish(mut self, clock: &ManualClock) -> T {
        if let Some(Poll::Ready(output)) = self.begun.take() {
            return output;
        }
        loop {
            if let Poll::Ready(output) = self.poll() {
                return output;
            }
            clock.set(clock.next_wake().expect("a future that waits is a sleeper"));
        }
    }
}

/// Takes permits that come without a wait. A blocking call that has to wait would hang a test with one thread.
pub fn take_now(pacer: &Pacer<ManualClock>, permits: u64) {
    assert_eq!(Task::new(pacer.wait_for(permits)).poll(), Poll::Ready(Duration::ZERO), "{permits} permits");
}

pub fn nanos(clock: &ManualClock) -> u64 {
    clock.now().as_nanos()
}

pub fn micros(at_us: u64) -> Timestamp {
    Timestamp::from_nanos(at_us * 1_000)
}
