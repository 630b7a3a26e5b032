//! Background work of guards over a shared store: renewing a lease, releasing it, refunding a charge.
//!
//! One thread per process runs all of it. It needs no async runtime, so a lease that cannot be renewed is noticed even
//! while the runtime of its store is stopped. The thread starts when it is first needed, and sleeps while it has no
//! work.

#[cfg(not(loom))]
pub(crate) use executor::spawn;

/// Loom has no background thread: run the task here.
#[cfg(loom)]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    crate::blocking::block_on(task);
}

#[cfg(not(loom))]
mod executor {
    use std::collections::VecDeque;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread;

    /// Linux shows at most 15 bytes of it.
    const THREAD_NAME: &str = "tidegate-guards";

    static EXECUTOR: OnceLock<Option<Arc<Executor>>> = OnceLock::new();

    type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Runs a task in the background. Drops the task if no thread can be started.
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        if let Some(executor) = EXECUTOR.get_or_init(Executor::start) {
            let future = Mutex::new(Some(Box::pin(task) as BoxedTask));
            let executor = executor.clone();
            BackgroundTask { future, is_queued: AtomicBool::new(false), executor }.enqueue();
        }
    }

    /// Queue of tasks to poll.
    #[derive(Default)]
    struct Executor {
        runnable: Mutex<VecDeque<Arc<BackgroundTask>>>,
        added: Condvar,
    }

    struct BackgroundTask {
        /// None once the task is done. Only the executor thread polls, so this lock is never contended.
        future: Mutex<Option<BoxedTask>>,
        is_queued: AtomicBool,
        executor: Arc<Executor>,
    }

    impl Executor {
        fn start() -> Option<Arc<Self>> {
            let executor = Arc::<Self>::default();
            let background = executor.clone();
            let thread = thread::Builder::new().name(THREAD_NAME.to_owned());
            thread.spawn(move || background.run()).ok().map(|_| executor)
        }

        fn run(&self) {
            loop {
                let mut runnable = lock_ignoring_poison(&self.runnable);
                let task = loop {
                    match runnable.pop_front() {
                        Some(task) => break task,
                        None => {
                            runnable = self.added.wait(runnable).unwrap_or_else(PoisonError::into_inner);
                        }
                    }
                };
                drop(runnable);
                task.poll();
            }
        }
    }

    impl BackgroundTask {
        fn enqueue(self) {
            Arc::new(self).wake();
        }

        fn poll(self: Arc<Self>) {
            // Clear the flag before the poll: a task that is woken during the poll must be polled again.
            self.is_queued.store(false, Ordering::Release);
            let waker = Waker::from(self.clone());
            let mut future = lock_ignoring_poison(&self.future);
            let Some(running) = future.as_mut() else { return };
            let mut context = Context::from_waker(&waker);
            // A panic ends this task only.
            let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(&mut context)));
            if !matches!(polled, Ok(Poll::Pending)) {
                let done = future.take();
                drop(future);
                drop(done);
            }
        }
    }

    impl Wake for BackgroundTask {
        fn wake(self: Arc<Self>) {
            if !self.is_queued.swap(true, Ordering::AcqRel) {
                let executor = self.executor.clone();
                lock_ignoring_poison(&executor.runnable).push_back(self);
                executor.added.notify_one();
            }
        }
    }

    fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    mod tests {
        use std::future::poll_fn;
        use std::sync::mpsc::channel;
        use std::task::Poll;

        use super::spawn;

        #[test]
        fn polls_a_woken_task_again() {
            let (sender, polls) = channel();
            let mut left = 3;
            spawn(poll_fn(move |context| {
                sender.send(left).unwrap();
                left -= 1;
                context.waker().wake_by_ref();
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            }));
            assert_eq!(polls.into_iter().collect::<Vec<_>>(), [3, 2, 1]);
        }

        #[test]
        fn a_panicking_task_does_not_stop_the_thread() {
            let (sender, done) = channel();
            spawn(async { panic!("on purpose") });
            spawn(async move { sender.send(()).unwrap() });
            done.recv().unwrap();
        }
    }
}
