//! The wait queue of a limit with the action `delay`: its key, its head, and forecasts for it.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::rules::{DelayLimit, MatchedLimits, Ruleset};
use tidegate_core::{Plan, Timestamp};

use super::EngineInner;
use super::attempt::delay_limits;
use super::decide::DecideTask;
use crate::Clock;
use crate::memory::{ForecastAdmission, ForecastRequest, MemoryStore, StateForecast};
use crate::queue::{Forecaster, Ticket};
use crate::store::Store;

/// The key of a limit's wait queue: the counter and the key that requests wait for.
pub(super) type QueueKey = SmallVec<[u8; QUEUE_KEY_INLINE_BYTES]>;

/// Chosen so that a queue key needs no allocation if the keys of the request need none.
const QUEUE_KEY_INLINE_BYTES: usize = 200;

pub(super) fn queue_key(delay: &DelayLimit<'_>) -> QueueKey {
    let mut key = QueueKey::from_slice(&delay.counter().get().to_le_bytes());
    key.extend_from_slice(delay.key);
    key
}

/// The key that requests in a queue wait for.
pub(super) fn key_of(queue_key: &[u8]) -> Option<&[u8]> {
    queue_key.get(size_of::<u64>()..)
}

/// Forecasts for a limit with counters in memory.
pub(super) struct DelayForecaster<'a> {
    pub delay: DelayLimit<'a>,
    pub memory: &'a MemoryStore,
}

impl Forecaster for DelayForecaster<'_> {
    fn store(&self) -> &MemoryStore {
        self.memory
    }

    fn plan(&self, now: Timestamp) -> Plan<'_> {
        self.delay.plan(now)
    }

    fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        self.delay.next_expiry(now)
    }

    /// Requests by rules wait only for admission. The caller waits for the delay of a leaky bucket.
    fn admit(
        &self,
        states: &mut StateForecast,
        plan: &Plan<'_>,
        request: ForecastRequest,
    ) -> ForecastAdmission {
        states.admit_undelayed(plan, request)
    }
}

/// The forecaster of a limit, if the store can make forecasts.
pub(super) fn delay_forecaster<'a, C, S: Store>(
    engine: &'a EngineInner<C, S>,
    delay: DelayLimit<'a>,
) -> Option<DelayForecaster<'a>> {
    match engine.store.is_local() {
        true => engine.store.local().map(|memory: &Arc<MemoryStore>| DelayForecaster { delay, memory }),
        false => None,
    }
}

impl<C, S> EngineInner<C, S> {
    /// A limit with the action `delay`, other than the one whose queue the request is in, for which an earlier request
    /// waits. A request does not overtake requests that wait for the same limit, whichever limit it waits for itself.
    pub(super) fn queue_with_earlier_head(
        &self,
        task: &DecideTask,
        rules: &Ruleset,
        ticket: Option<Ticket>,
        waits_in: Option<usize>,
    ) -> Option<usize> {
        let is_earlier = |head: Ticket| ticket.is_none_or(|ticket| head < ticket);
        let limits = delay_limits(task, rules);
        let other_limits = (0..limits.len()).filter(|index| Some(*index) != waits_in);
        other_limits
            .into_iter()
            .find(|index| self.queues.head(&queue_key(&limits[*index])).is_some_and(is_earlier))
    }
}

impl<C: Clock, S> EngineInner<C, S> {
    /// Wakes the requests that wait for the same keys: units may have come back.
    pub(super) fn wake_waiters(&self, matched: &MatchedLimits, rules: &Ruleset) {
        let now = self.clock.now();
        matched.queue_limits(rules).for_each(|delay| self.queue_group.wake(&queue_key(&delay), now));
    }
}
