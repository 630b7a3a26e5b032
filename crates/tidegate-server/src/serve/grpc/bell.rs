//! What wakes the task of a connection, and does not while it is at work anyway.
//!
//! Whoever queues an answer wakes the one who is to write it. Here that is the same task, which is about to write. Woken
//! while it runs, it would be put into the runtime's queue once more for nothing, with every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};

const RESTING: u8 = 0;
const WORKING: u8 = 1;
const RUNG: u8 = 2;

/// Wakes a task that rests.
pub struct Bell {
    state: AtomicU8,
    task: Waker,
}

impl Bell {
    /// Of this task, which is at work.
    pub fn of(task: &Waker) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(WORKING), task: task.clone() })
    }

    /// Whether it is that of this task.
    pub fn is_of(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    /// The task is about to look at everything: what was rung for until now, it will see.
    pub fn work(&self) {
        self.state.swap(WORKING, Ordering::AcqRel);
    }

    /// The task lets others have their turn, and is to go on after them.
    pub fn come_again(&self) {
        self.task.wake_by_ref();
    }

    /// The task has found nothing to do. Says whether it may rest: not if it was rung for since it began to look.
    pub fn may_rest(&self) -> bool {
        self.state.compare_exchange(WORKING, RESTING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(RUNG, Ordering::AcqRel) == RESTING {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::wakes::Wakes;

    #[test]
    fn it_wakes_who_rests_and_nobody_else() {
        let wakes = Arc::new(Wakes::default());
        let woken = || wakes.count();
        let task = Waker::from(Arc::clone(&wakes));
        let bell = Bell::of(&task);
        assert!(bell.is_of(&task) && !bell.is_of(Waker::noop()));

        // At work it is not woken, and does not rest before it has looked again.
        bell.wake_by_ref();
        assert!(!bell.may_rest());
        bell.work();
        assert!(bell.may_rest());
        assert_eq!(woken(), 0);
        // Once, however often it is rung.
        bell.wake_by_ref();
        bell.wake_by_ref();
        assert_eq!(woken(), 1);
        // What was rung for before it looks is looked at.
        bell.work();
        bell.wake_by_ref();
        bell.work();
        assert!(bell.may_rest());
        assert_eq!(woken(), 1);
        bell.work();
        bell.come_again();
        assert_eq!(woken(), 2);
    }
}
