//! Tidegate's store, with one limit.

use std::time::Duration;

use tidegate::redis::{RedisSettings, RedisStore};
use tidegate::{Cacheable, Charge, Counter, Limit, Plan, Role, SharedStore as _};

use super::rounds::Decider;

/// A turn is not to end because the machine was busy.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The store, and the limit that is asked.
pub(super) struct Tidegate {
    store: RedisStore,
    counter: Counter,
}

impl Tidegate {
    pub(super) async fn connect(redis_port: u16, limit: &str) -> Result<Self, String> {
        let limit: Limit = limit.parse().map_err(|error| format!("{error}"))?;
        let url = format!("redis://127.0.0.1:{redis_port}").parse().map_err(|error| format!("{error}"))?;
        let mut settings = RedisSettings::new(url);
        settings.timeout = TIMEOUT;
        let store = RedisStore::connect(settings).await.map_err(|error| error.to_string())?;
        Ok(Self { store, counter: Counter::new("bench", 0, limit) })
    }
}

impl Decider for Tidegate {
    async fn decide(&self, key: &str) -> Result<(), String> {
        let mut plan = Plan::new();
        let charge = Charge { key: key.as_bytes(), counter: &self.counter, cost: 1, role: Role::Enforced };
        plan.add(charge).map_err(|error| error.to_string())?;
        let settled = self.store.check(&plan, Cacheable::ALL);
        settled.await.map(drop).map_err(|error| error.to_string())
    }
}
