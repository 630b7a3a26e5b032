//! A waker for a connection's task that does nothing while the task is being polled.
//!
//! A call that queues a response wakes the task that writes it. Here that is the same task, which writes at the end of
//! its poll. Without this flag, each request would put the running task into the runtime's queue once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};

const IDLE: u8 = 0;
const POLLING: u8 = 1;
const WOKEN: u8 = 2;

/// Wakes a task, but only if it is idle.
pub struct WakeFlag {
    state: AtomicU8,
    task: Waker,
}

impl WakeFlag {
    /// A flag for this task, in the state `POLLING`.
    pub fn new(task: &Waker) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(POLLING), task: task.clone() })
    }

    /// Whether the flag wakes this task.
    pub fn is_for(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    /// The task starts to poll everything, so it will see all earlier wakes.
    pub fn start_polling(&self) {
        self.state.swap(POLLING, Ordering::AcqRel);
    }

    /// Wakes the task although it is running: it yields to other tasks and wants to continue later.
    pub fn wake_task(&self) {
        self.task.wake_by_ref();
    }

    /// The task found nothing to do. False if it was woken since `start_polling`, so it has to poll again.
    pub fn try_idle(&self) -> bool {
        self.state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == IDLE {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::poll_on_wake::counting_waker::CountingWaker;

    #[test]
    fn wakes_only_an_idle_task() {
        let wakes = Arc::new(CountingWaker::default());
        let woken = || wakes.count();
        let task = Waker::from(Arc::clone(&wakes));
        let flag = WakeFlag::new(&task);
        assert!(flag.is_for(&task) && !flag.is_for(Waker::noop()));

        // While polling: the task is not woken, and must poll again before it may idle.
        flag.wake_by_ref();
        assert!(!flag.try_idle());
        flag.start_polling();
        assert!(flag.try_idle());
        assert_eq!(woken(), 0);
        // While idle: woken once, however often it is called.
        flag.wake_by_ref();
        flag.wake_by_ref();
        assert_eq!(woken(), 1);
        // A wake before `start_polling` needs no second poll.
        flag.start_polling();
        flag.wake_by_ref();
        flag.start_polling();
        assert!(flag.try_idle());
        assert_eq!(woken(), 1);
        flag.start_polling();
        flag.wake_task();
        assert_eq!(woken(), 2);
    }
}
