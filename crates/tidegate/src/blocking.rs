//! Waiting for a future on the current thread.

/// Runs a future to completion. Parks the thread while the future is pending.
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
            // A wake before the park makes the park return immediately. A spurious wake costs one poll.
            Poll::Pending => thread::park(),
        }
    }
}

/// Loom has its own `block_on`.
#[cfg(loom)]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    loom::future::block_on(future)
}
