//! The waker of a connection. It can be muted while the connection takes a body that has arrived.
//!
//! hyper passes a body to the handler through a channel whose other side is the same task. Taking the body wakes that
//! side, although hyper has already dropped it. So the task would run once more for each request, with nothing to do.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

thread_local! {
    /// A wake that another thread makes meanwhile must not be lost, so only this thread is muted.
    static MUTED: Cell<Muted> = const { Cell::new(Muted::No) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Muted {
    No,
    Yes,
    /// Muted, and a wake was held back.
    Woken,
}

/// Whether a call woke the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakes {
    None,
    HeldBack,
}

/// The waker of a connection's task. The wakes that [`hold_back_wakes`] sees do not reach the task.
#[derive(Default)]
pub(super) struct ConnectionWaker(Option<(Waker, Arc<TaskWaker>)>);

struct TaskWaker(Waker);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match MUTED.get() {
            Muted::No => self.0.wake_by_ref(),
            Muted::Yes | Muted::Woken => MUTED.set(Muted::Woken),
        }
    }
}

impl ConnectionWaker {
    /// The waker for a poll by this task.
    pub fn of_task(&mut self, task: &Waker) -> &Waker {
        self.0.take_if(|(_, task_waker)| !task_waker.0.will_wake(task));
        let (waker, _) = self.0.get_or_insert_with(|| {
            let task_waker = Arc::new(TaskWaker(task.clone()));
            (Waker::from(Arc::clone(&task_waker)), task_waker)
        });
        waker
    }
}

/// Calls `poll`, and holds back the wakes of connections that it makes itself. The caller decides whether they matter.
pub(super) fn hold_back_wakes<R>(poll: impl FnOnce() -> R) -> (R, Wakes) {
    MUTED.set(Muted::Yes);
    let _unmute = Unmute;
    let result = poll();
    let wakes = if MUTED.get() == Muted::Woken { Wakes::HeldBack } else { Wakes::None };
    (result, wakes)
}

/// Unmutes this thread when dropped, also by a panic.
struct Unmute;

impl Drop for Unmute {
    fn drop(&mut self) {
        MUTED.set(Muted::No);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::serve::poll_on_wake::counting_waker::CountingWaker;

    #[test]
    fn only_wakes_of_the_call_itself_are_held_back() {
        let wakes = Arc::new(CountingWaker::default());
        let mut connection = ConnectionWaker::default();
        let waker = connection.of_task(&Waker::from(Arc::clone(&wakes))).clone();
        assert_eq!(hold_back_wakes(|| 1), (1, Wakes::None));
        assert_eq!(hold_back_wakes(|| waker.wake_by_ref()), ((), Wakes::HeldBack));
        assert_eq!(wakes.count(), 0);
        let by_another_thread = || thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().is_ok());
        assert_eq!(hold_back_wakes(by_another_thread), (true, Wakes::None));
        assert_eq!(wakes.count(), 1);
        waker.wake();
        assert_eq!(wakes.count(), 2);
    }

    #[test]
    fn a_task_keeps_its_waker() {
        let task = Waker::from(Arc::new(CountingWaker::default()));
        let other_task = Waker::from(Arc::new(CountingWaker::default()));
        let mut connection = ConnectionWaker::default();
        let waker = connection.of_task(&task).clone();
        assert!(connection.of_task(&task).will_wake(&waker));
        assert!(!connection.of_task(&other_task).will_wake(&waker));
    }
}
