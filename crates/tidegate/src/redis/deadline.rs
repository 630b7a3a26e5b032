//! Deadlines that hold whether or not a tokio runtime is driven.
//!
//! A tokio timer fires only while its runtime runs. The runtime of a store belongs to the caller, who may
//! block its only thread or drop it, but a result must still come by its deadline. So one thread per store
//! wakes the futures whose deadline has passed. The store's tasks stay on the caller's runtime, because a hop
//! to another thread costs some microseconds per call.
//!
//! The thread sleeps until the earliest deadline and is not woken for later ones. Nearly all replies come
//! long before their deadline, so the thread wakes about once per timeout while the store is in use, and not
//! at all while it is idle. A reply in time costs two short locks. (A timer of `futures-timer` per reply
//! would wake its thread twice per decision.)

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use std::{io, thread};

use tokio::time::Instant;

/// The name of the thread. Linux shows 15 bytes of it.
const THREAD_NAME: &str = "tidegate-timer";
/// The deadline for budgets that the clock cannot add.
const FAR_FUTURE: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The deadlines of one store. Its thread ends when this is dropped.
pub(super) struct Deadlines(Arc<DeadlineQueue>);

/// The deadline passed before the future was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Elapsed;

#[derive(Default)]
struct DeadlineQueue {
    state: Mutex<DeadlineState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeadlineState {
    /// Wakers by deadline. The number distinguishes futures with the same deadline.
    wakers: BTreeMap<TimerKey, Waker>,
    next_number: u64,
    thread_state: ThreadState,
    run_state: RunState,
}

type TimerKey = (Instant, u64);

/// What the thread does.
#[derive(Clone, Copy, Default)]
enum ThreadState {
    /// It looks at `wakers` again before it sleeps.
    #[default]
    Awake,
    SleepingUntil(Instant),
    Idle,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum RunState {
    #[default]
    Running,
    Stopping,
}

impl Deadlines {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let queue = Arc::<DeadlineQueue>::default();
        let thread_queue = queue.clone();
        thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || thread_queue.run())?;
        Ok(Self(queue))
    }

    /// The deadline after this budget, counted from now.
    pub(super) fn deadline_after(budget: Duration) -> Instant {
        let now = Instant::now();
        now.checked_add(budget).unwrap_or(now + FAR_FUTURE)
    }

    /// The output of a future, if it is ready by the deadline.
    pub(super) async fn timeout_at<F: Future>(
        &self,
        deadline: Instant,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        // Without `unconstrained`, a task that used up its tokio budget would miss a reply that is there, and
        // time out.
        let mut future = pin!(tokio::task::unconstrained(future));
        let mut timer = DeadlineTimer { queue: &self.0, deadline, key: None };
        poll_fn(move |context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => timer.poll(context).map(|()| Err(Elapsed)),
        })
        .await
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.0.lock().run_state = RunState::Stopping;
        self.0.changed.notify_one();
    }
}

/// Wakes a future at its deadline.
struct DeadlineTimer<'a> {
    queue: &'a DeadlineQueue,
    deadline: Instant,
    /// Its key among the wakers, once it waits.
    key: Option<TimerKey>,
}

impl DeadlineTimer<'_> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        let mut state = self.queue.lock();
        let key = *self.key.get_or_insert_with(|| {
            state.next_number += 1;
            (self.deadline, state.next_number)
        });
        let replaced = match state.wakers.get_mut(&key) {
            Some(waker) if waker.will_wake(context.waker()) => None,
            Some(waker) => Some(std::mem::replace(waker, context.waker().clone())),
            None => {
                state.wakers.insert(key, context.waker().clone());
                if state.thread_state.sleeps_beyond(self.deadline) {
                    state.thread_state = ThreadState::Awake;
                    self.queue.changed.notify_one();
                }
                None
            }
        };
        drop(state);
        // A waker may own a task, and that task another timer: drop it without the lock.
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for DeadlineTimer<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let removed = self.queue.lock().wakers.remove(&key);
        drop(removed);
    }
}

impl DeadlineQueue {
    fn lock(&self) -> MutexGuard<'_, DeadlineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while state.run_state == RunState::Running {
            let now = Instant::now();
            let due = state.take_due(now);
            if !due.is_empty() {
                drop(state);
                due.into_iter().for_each(Waker::wake);
                state = self.lock();
                continue;
            }
            state = match state.wakers.first_key_value().map(|(&(deadline, _), _)| deadline) {
                None => {
                    state.thread_state = ThreadState::Idle;
                    self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                Some(deadline) => {
                    state.thread_state = ThreadState::SleepingUntil(deadline);
                    let left = deadline.saturating_duration_since(now);
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.thread_state = ThreadState::Awake;
        }
    }
}

impl DeadlineState {
    /// The wakers of futures whose deadline has passed.
    fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(first) = self.wakers.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }
}

impl ThreadState {
    fn sleeps_beyond(self, deadline: Instant) -> bool {
        match self {
            Self::Awake => false,
            Self::SleepingUntil(wakes) => deadline < wakes,
            Self::Idle => true,
        }
    }
}

#[cfg(test)]
#[path = "deadline_tests.rs"]
mod tests;
