//! A future that is polled only after it was woken.
//!
//! A connection is polled several times per request. Polling the drain each time would take a lock that all connections
//! share, and polling a timer has a cost too.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled once at first, and then only after it was woken.
pub(crate) struct PollOnWake<F> {
    future: F,
    waker: Option<(Waker, Arc<FutureWaker>)>,
}

/// The waker that the future gets.
struct FutureWaker {
    is_woken: AtomicBool,
    task: Waker,
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<F: Future + Unpin> PollOnWake<F> {
    pub fn new(future: F) -> Self {
        Self { future, waker: None }
    }

    /// The future, to change it. It is polled again afterwards.
    pub fn future_mut(&mut self) -> &mut F {
        self.waker = None;
        &mut self.future
    }

    /// Polls the future if it was woken. Must not be called again after it was ready.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let future_waker = match &mut self.waker {
            Some((_, future_waker)) if future_waker.task.will_wake(context.waker()) => future_waker,
            // The first poll, or another task.
            waker => {
                let task = context.waker().clone();
                let future_waker = Arc::new(FutureWaker { is_woken: AtomicBool::new(true), task });
                &mut waker.insert((Waker::from(Arc::clone(&future_waker)), future_waker)).1
            }
        };
        // Nearly always it was not woken, and a load is cheaper than a swap.
        let is_woken = &future_waker.is_woken;
        if !is_woken.load(Ordering::Acquire) || !is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let Some((waker, _)) = &self.waker else { return Poll::Pending };
        Pin::new(&mut self.future).poll(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::task::coop::consume_budget;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::serve::poll_on_wake::counting_waker::CountingWaker;

    #[test]
    fn polled_first_and_after_each_wake() {
        let polls = AtomicUsize::new(0);
        let waker: Mutex<Option<Waker>> = Mutex::new(None);
        let mut future = PollOnWake::new(poll_fn(|context| {
            *waker.lock().unwrap() = Some(context.waker().clone());
            match polls.fetch_add(1, Ordering::Relaxed) {
                2 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        let task = Waker::from(Arc::new(CountingWaker::default()));
        let mut context = Context::from_waker(&task);
        for _ in 0..10 {
            assert!(future.poll(&mut context).is_pending());
        }
        assert_eq!(polls.load(Ordering::Relaxed), 1);
        waker.lock().unwrap().take().unwrap().wake();
        for _ in 0..10 {
            assert!(future.poll(&mut context).is_pending());
        }
        assert_eq!(polls.load(Ordering::Relaxed), 2);
        waker.lock().unwrap().take().unwrap().wake();
        assert!(future.poll(&mut context).is_ready());
    }

    /// Tokio does not register a timer for a task without budget. It wakes the task instead, to poll again.
    #[tokio::test]
    async fn a_timer_first_polled_by_a_task_without_budget() {
        let mut timer = PollOnWake::new(Box::pin(sleep(Duration::from_millis(1))));
        let mut is_budget_used = false;
        let fired = poll_fn(|context| {
            while !is_budget_used {
                is_budget_used = pin!(consume_budget()).poll(context).is_pending();
            }
            timer.poll(context)
        });
        timeout(Duration::from_secs(30), fired).await.expect("the timer was not registered");
    }
}

/// A waker that counts its wakes.
#[cfg(test)]
pub(crate) mod counting_waker {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    pub(crate) struct CountingWaker(AtomicUsize);

    impl CountingWaker {
        pub fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
