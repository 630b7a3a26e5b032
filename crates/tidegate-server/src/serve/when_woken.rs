//! A future that is polled only when it was woken.
//!
//! A connection is polled several times for each request. To ask each time whether the server is about to stop would take
//! a lock that all connections share, and to ask a timer whether it is over is not free either.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled only when it was woken, and once at first.
pub(super) struct PollOnWake<F> {
    future: F,
    waker: Option<(Waker, Arc<FutureWaker>)>,
}

/// What the future is woken by.
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

    /// The future, for who changes it. It is polled again.
    pub fn future_mut(&mut self) -> &mut F {
        self.waker = None;
        &mut self.future
    }

    /// As the future's own, but for the polls that would come to nothing. Not to be polled after it is ready.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let alarm = match &mut self.waker {
            Some((_, alarm)) if alarm.task.will_wake(context.waker()) => alarm,
            // The first time, or the task is another.
            place => {
                let alarm = Arc::new(FutureWaker { is_woken: AtomicBool::new(true), task: context.waker().clone() });
                &mut place.insert((Waker::from(Arc::clone(&alarm)), alarm)).1
            }
        };
        // Nearly always it has not, and a look is cheaper than a swap.
        if !alarm.is_woken.load(Ordering::Acquire) || !alarm.is_woken.swap(false, Ordering::AcqRel) {
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
    use crate::serve::wakes::CountingWaker;

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

    /// A timer is not set by a task that has done enough for its turn; the task is woken at once instead, to ask again.
    #[tokio::test]
    async fn a_timer_first_polled_by_a_task_without_budget() {
        let mut timer = PollOnWake::new(Box::pin(sleep(Duration::from_millis(1))));
        let mut had_its_turn = false;
        let rung = poll_fn(|context| {
            while !had_its_turn {
                had_its_turn = pin!(consume_budget()).poll(context).is_pending();
            }
            timer.poll(context)
        });
        timeout(Duration::from_secs(30), rung).await.expect("the timer was set");
    }
}
