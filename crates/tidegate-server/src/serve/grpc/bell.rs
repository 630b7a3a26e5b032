//! What wakes the task of a connection, and does not while it is at work anyway.
//!
//! Whoever queues an answer wakes the one who is to write it. Here that is the same task, which is about to write. Woken
//! while it runs, it would be put into the runtime's queue once more for nothing, with every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};

const IDLE: u8 = 0;
const POLLING: u8 = 1;
const WOKEN: u8 = 2;

/// Wakes a task that rests.
pub struct WakeFlag {
    state: AtomicU8,
    task: Waker,
}

impl WakeFlag {
    /// Of this task, which is at work.
    pub fn new(task: &Waker) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(POLLING), task: task.clone() })
    }

    /// Whether it is that of this task.
    pub fn is_for(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    /// The task is about to look at everything: what was rung for until now, it will see.
    pub fn start_polling(&self) {
        self.state.swap(POLLING, Ordering::AcqRel);
    }

    /// The task lets others have their turn, and is to go on after them.
    pub fn wake_task(&self) {
        self.task.wake_by_ref();
    }

    /// The task has found nothing to do. Says whether it may rest: not if it was rung for since it began to look.
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
    use crate::serve::wakes::CountingWaker;

    #[test]
    fn wakes_only_an_idle_task() {
        let wakes = Arc::new(CountingWaker::default());
        let woken = || wakes.count();
        let task = Waker::from(Arc::clone(&wakes));
        let bell = WakeFlag::new(&task);
        assert!(bell.is_for(&task) && !bell.is_for(Waker::noop()));

        // At work it is not woken, and does not rest before it has looked again.
        bell.wake_by_ref();
        assert!(!bell.try_idle());
        bell.start_polling();
        assert!(bell.try_idle());
        assert_eq!(woken(), 0);
        // Once, however often it is rung.
        bell.wake_by_ref();
        bell.wake_by_ref();
        assert_eq!(woken(), 1);
        // What was rung for before it looks is looked at.
        bell.start_polling();
        bell.wake_by_ref();
        bell.start_polling();
        assert!(bell.try_idle());
        assert_eq!(woken(), 1);
        bell.start_polling();
        bell.wake_task();
        assert_eq!(woken(), 2);
    }
}
