//! A clock for tests.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::Timestamp;

use super::{Clock, Timer};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A clock that a test moves. A move wakes the sleepers that are due. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    state: Arc<ManualClockState>,
}

#[derive(Debug, Default)]
struct ManualClockState {
    now_ns: AtomicU64,
    sleepers: Mutex<SleeperMap>,
}

/// Sleepers by instant. The number distinguishes sleepers of the same instant.
#[derive(Debug, Default)]
struct SleeperMap {
    waiting: BTreeMap<(Timestamp, u64), Waker>,
    next_number: u64,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by_ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let add = |now: u64| Some(now.saturating_add(by_ns));
        let _ = self.state.now_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        self.wake_due();
    }

    /// Sets the clock to any time, also an earlier one.
    pub fn set(&self, now: Timestamp) {
        self.state.now_ns.store(now.as_nanos(), Ordering::Relaxed);
        self.wake_due();
    }

    /// How many sleepers wait for this clock. A test can wait for them before it moves the time.
    pub fn sleepers(&self) -> usize {
        lock(&self.state.sleepers).waiting.len()
    }

    /// The instant of the next sleeper.
    pub fn next_wake(&self) -> Option<Timestamp> {
        lock(&self.state.sleepers).waiting.first_key_value().map(|((at, _), _)| *at)
    }

    fn wake_due(&self) {
        let due = {
            let mut sleepers = lock(&self.state.sleepers);
            let later = sleepers.waiting.split_off(&(self.now(), u64::MAX));
            std::mem::replace(&mut sleepers.waiting, later)
        };
        // Wake without the lock held: a waker may run the sleeper immediately, which may sleep again.
        due.into_values().for_each(Waker::wake);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.state.now_ns.load(Ordering::Relaxed))
    }
}

impl Timer for ManualClock {
    type Sleep = ManualSleep;

    fn sleep_until(&self, at: Timestamp) -> ManualSleep {
        let number = {
            let mut sleepers = lock(&self.state.sleepers);
            sleepers.next_number += 1;
            sleepers.next_number
        };
        ManualSleep { clock: self.clone(), timer_key: (at, number) }
    }
}

/// A sleep on a [`ManualClock`].
#[derive(Debug)]
pub struct ManualSleep {
    clock: ManualClock,
    timer_key: (Timestamp, u64),
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Drop a replaced waker without the lock held: it may own a task that also sleeps.
        let mut sleepers = lock(&self.clock.state.sleepers);
        // Read the time under the lock, so that a later move of the clock finds this sleeper.
        let is_over = self.clock.now() >= self.timer_key.0;
        let replaced = match is_over {
            true => sleepers.waiting.remove(&self.timer_key),
            false => sleepers.waiting.insert(self.timer_key, context.waker().clone()),
        };
        drop(sleepers);
        drop(replaced);
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        let removed = lock(&self.clock.state.sleepers).waiting.remove(&self.timer_key);
        drop(removed);
    }
}
