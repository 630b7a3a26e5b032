//! Waiting for a future with the thread at hand.

/// Runs a future to its end; the thread is parked while there is nothing to do.
#[cfg(not(loom))]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};

    struct UnparkThread(Thread);

    impl Wake for UnparkThread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(UnparkThread(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake-up before the park makes the park return at once; one too many costs a poll.
            Poll::Pending => thread::park(),
        }
    }
}

/// The model checker's own.
#[cfg(loom)]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    loom::future::block_on(future)
}
