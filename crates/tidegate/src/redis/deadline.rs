//! Deadlines that hold whether or not a tokio runtime is driven.
//!
//! A tokio timer fires only while its runtime runs. The runtime of a store belongs to the caller, who may block its only
//! thread or drop it, and an answer has to come by its deadline all the same. So one thread for each store wakes the
//! futures whose deadline has passed. The thread sleeps until the earliest deadline and is not woken for later ones.
//! Nearly all answers come long before their deadline, so the thread wakes about once per timeout while the store is in
//! use, and not at all while it is idle.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

/// The name of the thread. Linux shows 15 bytes of it.
const THREAD_NAME: &str = "tidegate-timer";
/// The deadline of what has more time than the clock can count.
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
    /// Futures by their deadline. The number tells futures with the same deadline apart.
    wakers: BTreeMap<TimerKey, Waker>,
    next_number: u64,
    thread_state: ThreadState,
    run_state: RunState,
}

type TimerKey = (Instant, u64);

/// What the thread does.
#[derive(Clone, Copy, Default)]
enum ThreadState {
    /// It looks at `waiting` again before it sleeps.
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
        let shared = Arc::<DeadlineQueue>::default();
        let of_thread = shared.clone();
        thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || of_thread.run())?;
        Ok(Self(shared))
    }

    /// The deadline of what may take so long from now on.
    pub(super) fn deadline_after(budget: Duration) -> Instant {
        let now = Instant::now();
        now.checked_add(budget).unwrap_or(now + FAR_FUTURE)
    }

    /// What a future comes to, if it does by the deadline.
    pub(super) async fn timeout_at<F: Future>(&self, deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
        // A task that has used up its turn would not see an answer that is there, and the deadline may have passed.
        let mut future = pin!(tokio::task::unconstrained(future));
        let mut alarm = DeadlineTimer { shared: &self.0, deadline, key: None };
        poll_fn(move |context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => alarm.poll(context).map(|()| Err(Elapsed)),
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
    shared: &'a DeadlineQueue,
    deadline: Instant,
    /// Where it waits, once it does.
    key: Option<TimerKey>,
}

impl DeadlineTimer<'_> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        let mut state = self.shared.lock();
        let place = *self.key.get_or_insert_with(|| {
            state.next_number += 1;
            (self.deadline, state.next_number)
        });
        let replaced = match state.wakers.get_mut(&place) {
            Some(waker) if waker.will_wake(context.waker()) => None,
            Some(waker) => Some(std::mem::replace(waker, context.waker().clone())),
            None => {
                state.wakers.insert(place, context.waker().clone());
                if state.thread_state.sleeps_beyond(self.deadline) {
                    state.thread_state = ThreadState::Awake;
                    self.shared.changed.notify_one();
                }
                None
            }
        };
        drop(state);
        // A waker may own a task, and the task another alarm: it is dropped when nothing is locked.
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for DeadlineTimer<'_> {
    fn drop(&mut self) {
        let Some(place) = self.key else { return };
        let removed = self.shared.lock().wakers.remove(&place);
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
    /// The futures whose deadline has passed.
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
mod tests;
