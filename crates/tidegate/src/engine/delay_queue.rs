//! The wait queue of a limit with the action `delay`: its key, and forecasts for it.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::rules::DelayLimit;
use tidegate_core::{Plan, Timestamp};

use super::EngineInner;
use crate::memory::{ForecastAdmission, ForecastRequest, MemoryStore, StateForecast};
use crate::queue::Forecaster;
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
