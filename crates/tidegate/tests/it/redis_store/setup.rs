//! Stores and plans for tests.

use std::pin::Pin;
use std::time::Duration;

use tidegate::redis::{RedisSettings, RedisStore};
use tidegate::store::{Ask, Charge, Counter, DenyCache, Op, Outcomes, Plan, Reply, Store, StorePolicy};
use tidegate::{
    Clock as _, Decision, IntoLimit, Lease, LeaseToken, Limit, Nanos, Release, Renewal, StoreError,
    SystemClock, Timestamp,
};

/// A timeout that nothing exceeds, however busy the machine is.
pub const LONG: Duration = Duration::from_secs(60);

pub async fn store(url: &str) -> RedisStore {
    store_with(url, LONG).await
}

pub async fn store_with(url: &str, timeout: Duration) -> RedisStore {
    let mut settings = RedisSettings::new(url.parse().unwrap());
    settings.timeout = timeout;
    RedisStore::connect(settings).await.unwrap()
}

/// Several stores, like several nodes.
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
    Charge::new(key.as_bytes(), counter, cost)
}

pub fn plan<'a>(charges: &[Charge<'a>]) -> Plan<'a> {
    let mut plan = Plan::new();
    for charge in charges {
        plan.add(*charge).unwrap();
    }
    plan
}

/// Checks one charge without the deny cache.
pub async fn check(store: &RedisStore, key: &str, counter: &Counter, cost: u64) -> Decision {
    decision(store.check(&plan(&[charge(key, counter, cost)]), Cacheable::NONE).await)
}

/// The same with the deny cache.
pub async fn check_cached(store: &RedisStore, key: &str, counter: &Counter, cost: u64) -> Decision {
    decision(store.check(&plan(&[charge(key, counter, cost)]), Cacheable::ALL).await)
}

pub async fn remaining(store: &RedisStore, key: &str, counter: &Counter) -> u64 {
    decision(store.peek(&plan(&[charge(key, counter, 0)])).await).remaining
}

pub fn decision(reply: Result<CheckReply, StoreError>) -> Decision {
    Decision::merge(&reply.unwrap().outcomes)
}

/// Which charges of a plan may be denied from the cache, by position.
#[derive(Clone, Copy)]
pub struct Cacheable(u64);

impl Cacheable {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(u64::MAX);

    pub fn with(self, position: usize) -> Self {
        Self(self.0 | 1 << position)
    }
}

/// The decision of a store.
#[derive(Clone, Debug)]
pub struct CheckReply {
    pub outcomes: Outcomes,
    pub at: Timestamp,
    pub lease: Option<Lease>,
}

type Later<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Short forms of the store operations. An operation starts when the method is called.
pub trait StoreExt: Store {
    fn start<T: 'static>(&self, op: Op, plan: &Plan<'_>, read: fn(Reply) -> T) -> Later<T> {
        let response = self.ask(&Ask { op, plan, now: SystemClock::new().now(), deadline: None });
        Box::pin(async move { response.reply().await.map(read) })
    }

    fn check(&self, plan: &Plan<'_>, cacheable: Cacheable) -> Later<CheckReply> {
        let mut cached = Plan::new();
        for (position, charge) in plan.charges().iter().enumerate() {
            let is_cached = cacheable.0 >> position & 1 == 1;
            let deny_cache = if is_cached { DenyCache::On } else { DenyCache::Off };
            cached.add(Charge { policy: StorePolicy { deny_cache, ..charge.policy }, ..*charge }).unwrap();
        }
        self.start(Op::Check, &cached, into_check_reply)
    }

    fn peek(&self, plan: &Plan<'_>) -> Later<CheckReply> {
        self.start(Op::Peek, plan, into_check_reply)
    }

    fn acquire(&self, plan: &Plan<'_>, ttl: Option<Nanos>) -> Later<CheckReply> {
        self.start(Op::Acquire { ttl }, plan, into_check_reply)
    }

    fn renew(&self, plan: &Plan<'_>, token: &LeaseToken, ttl: Option<Nanos>) -> Later<Renewal> {
        self.start(Op::renew(*token, ttl), plan, |reply| reply.lease.into())
    }

    fn release(&self, plan: &Plan<'_>, token: &LeaseToken) -> Later<Release> {
        self.start(Op::Release { token: *token }, plan, |reply| reply.lease.into())
    }

    fn refund(&self, plan: &Plan<'_>) -> Later<()> {
        self.start(Op::Refund { charged_at: None }, plan, drop)
    }

    fn reset(&self, plan: &Plan<'_>) -> Later<()> {
        self.start(Op::Reset, plan, drop)
    }
}

impl StoreExt for RedisStore {}

fn into_check_reply(reply: Reply) -> CheckReply {
    CheckReply { outcomes: reply.outcomes, at: reply.at, lease: reply.lease.into_lease() }
}
