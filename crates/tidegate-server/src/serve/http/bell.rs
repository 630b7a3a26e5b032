//! A future that is polled only when it rings.
//!
//! A connection is polled several times for each request. To ask each time whether the server is about to stop would take
//! a lock that all connections share, and to ask a timer whether it is over is not free either.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled only when it rings, and once at first.
pub(super) struct Bell<F> {
    future: F,
    rope: Option<(Waker, Arc<Rope>)>,
}

/// What the future rings by.
struct Rope {
    rang: AtomicBool,
    task: Waker,
}

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<F: Future + Unpin> Bell<F> {
    pub fn new(future: F) -> Self {
        Self { future, rope: None }
    }

    /// The future, for who changes it. It is polled again.
    pub fn change(&mut self) -> &mut F {
        self.rope = None;
        &mut self.future
    }

    /// As the future's own, but for the polls that would come to nothing. Not to be polled after it is ready.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let rope = match &mut self.rope {
            Some((_, rope)) if rope.task.will_wake(context.waker()) => rope,
            // The first time, or the task is another.
            place => {
                let rope = Arc::new(Rope { rang: AtomicBool::new(true), task: context.waker().clone() });
                &mut place.insert((Waker::from(Arc::clone(&rope)), rope)).1
            }
        };
        // Nearly always it has not, and a look is cheaper than a swap.
        if !rope.rang.load(Ordering::Acquire) || !rope.rang.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let Some((waker, _)) = &self.rope else { return Poll::Pending };
        Pin::new(&mut self.future).poll(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn polled_once_at_first_and_once_for_each_ring() {
        let polls = AtomicUsize::new(0);
        let ring: Mutex<Option<Waker>> = Mutex::new(None);
        let mut bell = Bell::new(poll_fn(|context| {
            *ring.lock().unwrap() = Some(context.waker().clone());
            match polls.fetch_add(1, Ordering::Relaxed) {
                2 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            assert!(bell.poll(&mut context).is_pending());
        }
        assert_eq!(polls.load(Ordering::Relaxed), 1);
        ring.lock().unwrap().take().unwrap().wake();
        for _ in 0..10 {
            assert!(bell.poll(&mut context).is_pending());
        }
        assert_eq!(polls.load(Ordering::Relaxed), 2);
        ring.lock().unwrap().take().unwrap().wake();
        assert!(bell.poll(&mut context).is_ready());
    }
}
