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
pub(super) struct Deadlines(Arc<Shared>);

/// The deadline passed before the future was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Elapsed;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Futures by their deadline. The number tells futures with the same deadline apart.
    waiting: BTreeMap<Place, Waker>,
    next_number: u64,
    thread: Thread,
    owner: Owner,
}

type Place = (Instant, u64);

/// What the thread does.
#[derive(Clone, Copy, Default)]
enum Thread {
    /// It looks at `waiting` again before it sleeps.
    #[default]
    Awake,
    Until(Instant),
    UntilNotified,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Owner {
    #[default]
    Alive,
    Gone,
}

impl Deadlines {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = shared.clone();
        thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || of_thread.run())?;
        Ok(Self(shared))
    }

    /// The deadline of what may take so long from now on.
    pub(super) fn after(budget: Duration) -> Instant {
        let now = Instant::now();
        now.checked_add(budget).unwrap_or(now + FAR_FUTURE)
    }

    /// What a future comes to, if it does by the deadline.
    pub(super) async fn by<F: Future>(&self, deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
        // A task that has used up its turn would not see an answer that is there, and the deadline may have passed.
        let mut future = pin!(tokio::task::unconstrained(future));
        let mut alarm = Alarm { shared: &self.0, deadline, place: None };
        poll_fn(move |context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => alarm.poll(context).map(|()| Err(Elapsed)),
        })
        .await
    }
}

impl Drop for Deadlines {
    fn drop(&mut self) {
        self.0.lock().owner = Owner::Gone;
        self.0.changed.notify_one();
    }
}

/// Wakes a future at its deadline.
struct Alarm<'a> {
    shared: &'a Shared,
    deadline: Instant,
    /// Where it waits, once it does.
    place: Option<Place>,
}

impl Alarm<'_> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        let mut state = self.shared.lock();
        let place = *self.place.get_or_insert_with(|| {
            state.next_number += 1;
            (self.deadline, state.next_number)
        });
        let replaced = match state.waiting.get_mut(&place) {
            Some(waker) if waker.will_wake(context.waker()) => None,
            Some(waker) => Some(std::mem::replace(waker, context.waker().clone())),
            None => {
                state.waiting.insert(place, context.waker().clone());
                if state.thread.sleeps_beyond(self.deadline) {
                    state.thread = Thread::Awake;
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

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let removed = self.shared.lock().waiting.remove(&place);
        drop(removed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while state.owner == Owner::Alive {
            let now = Instant::now();
            let due = state.take_due(now);
            if !due.is_empty() {
                drop(state);
                due.into_iter().for_each(Waker::wake);
                state = self.lock();
                continue;
            }
            state = match state.waiting.first_key_value().map(|(&(deadline, _), _)| deadline) {
                None => {
                    state.thread = Thread::UntilNotified;
                    self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                Some(deadline) => {
                    state.thread = Thread::Until(deadline);
                    let left = deadline.saturating_duration_since(now);
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.thread = Thread::Awake;
        }
    }
}

impl State {
    /// The futures whose deadline has passed.
    fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }
}

impl Thread {
    fn sleeps_beyond(self, deadline: Instant) -> bool {
        match self {
            Self::Awake => false,
            Self::Until(wakes) => deadline < wakes,
            Self::UntilNotified => true,
        }
    }
}

#[cfg(test)]
mod tests;
