//! Tidegate's Redis store, with one or more limits.

use tidegate::redis::{RedisSettings, RedisStore};
use tidegate::store::{Ask, Charge, Counter, Op, Plan, Store as _};
use tidegate::{Clock as _, Limit, SystemClock};

use super::TIMEOUT;
use super::decider::Decider;

/// The store and the limits of each plan.
pub(super) struct Tidegate {
    store: RedisStore,
    counters: Vec<Counter>,
    clock: SystemClock,
}

impl Tidegate {
    pub(super) async fn connect(scheme: &str, redis_port: u16, limits: &[&str]) -> Result<Self, String> {
        let counter = |(index, limit): (usize, &&str)| {
            let limit: Limit = limit.parse().map_err(|error| format!("{error}"))?;
            Ok(Counter::new("bench", index, limit))
        };
        let counters = limits.iter().enumerate().map(counter).collect::<Result<_, String>>()?;
        let url = format!("{scheme}://127.0.0.1:{redis_port}").parse().map_err(|error| format!("{error}"))?;
        let mut settings = RedisSettings::new(url);
        settings.timeout = TIMEOUT;
        let store = RedisStore::connect(settings).await.map_err(|error| error.to_string())?;
        Ok(Self { store, counters, clock: SystemClock::new() })
    }
}

impl Decider for Tidegate {
    async fn decide(&self, key: &str) -> Result<(), String> {
        let mut plan = Plan::new();
        for counter in &self.counters {
            let charge = Charge::new(key.as_bytes(), counter, 1);
            plan.add(charge).map_err(|error| error.to_string())?;
        }
        let response =
            self.store.ask(&Ask { op: Op::Check, plan: &plan, now: self.clock.now(), deadline: None });
        response.reply().await.map(drop).map_err(|error| error.to_string())
    }
}
