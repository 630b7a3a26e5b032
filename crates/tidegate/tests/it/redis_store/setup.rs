//! Stores and plans for tests.

use std::time::Duration;

use tidegate::redis::{RedisSettings, RedisStore};
use tidegate::{
    Cacheable, Charge, Counter, Decision, IntoLimit, Limit, Plan, Role, Settled, SharedStore, StoreFailure,
};

/// A budget that nothing exceeds, however busy the machine is.
pub const LONG: Duration = Duration::from_secs(60);

pub async fn store(url: &str) -> RedisStore {
    store_with(url, LONG).await
}

pub async fn store_with(url: &str, timeout: Duration) -> RedisStore {
    let mut settings = RedisSettings::new(url.parse().unwrap());
    settings.timeout = timeout;
    RedisStore::connect(settings).await.unwrap()
}

/// Several, as if they were several processes.
pub async fn stores(url: &str, count: usize) -> Vec<RedisStore> {
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(store(url).await);
    }
    stores
}

pub fn limit(text: &str) -> Limit {
    text.into_limit().unwrap()
}

pub fn counter(name: &str, text: &str) -> Counter {
    Counter::new(name, 0, limit(text))
}

pub fn charge<'a>(key: &'a str, counter: &'a Counter, cost: u64) -> Charge<'a> {
    Charge { key: key.as_bytes(), counter, cost, role: Role::Enforced }
}

pub fn plan<'a>(charges: &[Charge<'a>]) -> Plan<'a> {
    let mut plan = Plan::new();
    for charge in charges {
        plan.add(*charge).unwrap();
    }
    plan
}

/// One charge, checked without denials from memory.
pub async fn check(store: &RedisStore, key: &str, counter: &Counter, cost: u64) -> Decision {
    decision(store.check(&plan(&[charge(key, counter, cost)]), Cacheable::NONE).await)
}

/// The same with denials from memory.
pub async fn check_cached(store: &RedisStore, key: &str, counter: &Counter, cost: u64) -> Decision {
    decision(store.check(&plan(&[charge(key, counter, cost)]), Cacheable::ALL).await)
}

pub async fn remaining(store: &RedisStore, key: &str, counter: &Counter) -> u64 {
    decision(store.peek(&plan(&[charge(key, counter, 0)])).await).remaining
}

pub fn decision(settled: Result<Settled, StoreFailure>) -> Decision {
    Decision::merge(&settled.unwrap().outcomes)
}
