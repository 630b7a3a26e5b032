//! Periodic work: [`tick`](crate::store::Store::tick) does what is due, and one task calls it.
//!
//! Periodic work is heartbeats, and checks whether a cluster's slots or the Sentinels' master have changed.
//! Work that reacts to an event, such as a reconnect, has its own tasks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Nanos, Timestamp};

use super::store::RedisInner;
use crate::Clock as _;

/// How often the store looks for work that is due.
const TICK_INTERVAL: Duration = Duration::from_millis(200);

/// Which clock drives the periodic work of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreTicks {
    /// The store's own clock, in a task on its runtime.
    #[default]
    Own,
    /// The caller's: periodic work happens only in [`Store::tick`](crate::store::Store::tick). For tests with a
    /// manual clock.
    Caller,
}

/// When work is due next.
#[derive(Debug, Default)]
pub(super) struct PeriodicTimer {
    /// Nanoseconds; zero before the first call.
    next_at_ns: AtomicU64,
}

impl PeriodicTimer {
    /// Whether work is due. The first call only starts the interval.
    pub(super) fn is_due(&self, now: Timestamp, pause: impl FnOnce() -> Duration) -> bool {
        let at_ns = self.next_at_ns.load(Ordering::Relaxed);
        if at_ns > now.as_nanos() {
            return false;
        }
        self.set(now, pause());
        at_ns > 0
    }

    /// Makes work due a pause from now.
    pub(super) fn set(&self, now: Timestamp, pause: Duration) {
        let due_at = now.saturating_add(Nanos::new(pause.as_nanos()));
        self.next_at_ns.store(due_at.as_nanos(), Ordering::Relaxed);
    }
}

impl RedisInner {
    /// Starts the work that is due.
    pub(super) fn tick(&self, now: Timestamp) {
        self.heartbeat.tick(now, &self.context.servers, &self.runtime);
        self.context.servers.tick(now);
    }

    /// Ticks until the store is dropped.
    pub(super) fn spawn_tick_loop(self: &Arc<Self>) {
        self.runtime.spawn(tick_loop(Arc::downgrade(self)));
    }
}

async fn tick_loop(inner: Weak<RedisInner>) {
    loop {
        let Some(store) = inner.upgrade() else { return };
        store.tick(store.context.clock.now());
        drop(store);
        tokio::time::sleep(TICK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_due_once_per_interval() {
        let timer = PeriodicTimer::default();
        let is_due =
            |at_s: u64| timer.is_due(Timestamp::from_nanos(at_s * 1_000_000_000), || Duration::from_secs(10));
        let due_at: Vec<u64> = (100..140).filter(|at_s| is_due(*at_s)).collect();
        assert_eq!(due_at, [110, 120, 130]);
        // Missed intervals are not made up for.
        assert!(is_due(1_000));
        assert!(!is_due(1_001));
    }
}
