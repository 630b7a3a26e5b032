//! Plans that count in this process and in Redis at the same time.

use std::sync::Arc;

use tidegate::redis::RedisStore;
use tidegate::store::{Charge, Counter, Fallback, Mode, Store, StorePolicy};
use tidegate::{MemoryStore, OutcomeKind};

use super::server::{RedisServer, wait_until};
use super::setup::{Cacheable, StoreExt, charge, counter, plan, remaining, store};

impl StoreExt for Fallback<RedisStore> {}

fn local<'a>(key: &'a str, counter: &'a Counter, cost: u64) -> Charge<'a> {
    Charge { policy: StorePolicy { mode: Mode::Local, ..StorePolicy::DEFAULT }, ..charge(key, counter, cost) }
}

async fn mixed(server: &RedisServer) -> Fallback<RedisStore> {
    Fallback::new(store(&server.url()).await, Arc::new(MemoryStore::unbounded()))
}

/// What remains of a local limit.
async fn local_remaining(store: &Fallback<RedisStore>, key: &str, counter: &Counter) -> u64 {
    store.peek(&plan(&[local(key, counter, 0)])).await.unwrap().outcomes[0].remaining
}

#[tokio::test]
async fn a_plan_is_charged_in_both_stores_or_in_neither() {
    let server = RedisServer::start();
    let store = mixed(&server).await;
    let (local_counter, shared_counter) = (counter("own", "20 per 1000d"), counter("all", "10 per 1000d"));
    let both = |own_cost, all_cost| {
        plan(&[charge("key", &shared_counter, all_cost), local("key", &local_counter, own_cost)])
    };
    let admitted = store.check(&both(3, 2), Cacheable::ALL).await.unwrap();
    let remains: Vec<u64> = admitted.outcomes.iter().map(|outcome| outcome.remaining).collect();
    assert_eq!(remains, [8, 17]);
    for (own_cost, all_cost, expected_kinds) in [
        (18, 1, [OutcomeKind::Allowed, OutcomeKind::Denied]),
        (1, 9, [OutcomeKind::Denied, OutcomeKind::Allowed]),
    ] {
        let denied = store.check(&both(own_cost, all_cost), Cacheable::NONE).await.unwrap();
        let kinds: Vec<OutcomeKind> = denied.outcomes.iter().map(|outcome| outcome.kind).collect();
        let remains: Vec<u64> = denied.outcomes.iter().map(|outcome| outcome.remaining).collect();
        assert_eq!((kinds, remains), (expected_kinds.to_vec(), vec![8, 17]));
        assert_eq!(local_remaining(&store, "key", &local_counter).await, 17);
        assert_eq!(remaining(store.shared(), "key", &shared_counter).await, 8);
    }
}

#[tokio::test]
async fn a_denied_attempt_counts_in_redis_where_this_process_denies() {
    let server = RedisServer::start();
    let store = mixed(&server).await;
    let never = counter("never", "{algorithm: gcra, limit: 0, per: 1h}");
    for (name, limit) in [
        ("log", "{algorithm: sliding_log, limit: 10, per: 1000d, count_denied: true}"),
        ("window", "{algorithm: fixed_window, limit: 10, per: 1000d, count_denied: true}"),
    ] {
        let counting = counter(name, limit);
        for expected in [9, 8, 7] {
            let denied = plan(&[local("key", &never, 1), charge("key", &counting, 1)]);
            let denied = store.check(&denied, Cacheable::NONE).await.unwrap();
            assert_eq!(denied.outcomes[1].remaining, expected);
        }
        assert_eq!(remaining(store.shared(), "key", &counting).await, 7);
    }
}

/// The call is dropped before Redis has replied.
#[tokio::test]
async fn an_abandoned_part_is_refunded() {
    let server = RedisServer::start();
    let store = mixed(&server).await;
    let (local_counter, none) =
        (counter("own", "20 per 1000d"), counter("none", "{algorithm: gcra, limit: 0, per: 1h}"));
    let both = plan(&[local("key", &local_counter, 5), charge("key", &none, 1)]);
    drop(store.check(&both, Cacheable::NONE));
    wait_until(async || (local_remaining(&store, "key", &local_counter).await == 20).then_some(())).await;
    // If Redis admits it, it stays charged in both stores.
    let shared_counter = counter("all", "10 per 1000d");
    drop(store.check(
        &plan(&[local("key", &local_counter, 5), charge("key", &shared_counter, 1)]),
        Cacheable::NONE,
    ));
    wait_until(async || (remaining(store.shared(), "key", &shared_counter).await == 9).then_some(())).await;
    assert_eq!(local_remaining(&store, "key", &local_counter).await, 15);
    assert!(store.spawner().is_some());
}

#[tokio::test]
async fn an_abandoned_local_lease_is_released() {
    let server = RedisServer::start();
    let store = mixed(&server).await;
    let lock = counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1000s}");
    let shared_counter = counter("all", "10 per 1000d");
    let both = plan(&[local("key", &lock, 1), charge("key", &shared_counter, 1)]);
    drop(store.acquire(&both, None));
    wait_until(async || (local_remaining(&store, "key", &lock).await == 1).then_some(())).await;
    let lease = store.acquire(&both, None).await.unwrap().lease.unwrap();
    assert_eq!(local_remaining(&store, "key", &lock).await, 0);
    let _ = store.release(&both, &lease.token).await.unwrap();
    assert_eq!(local_remaining(&store, "key", &lock).await, 1);
}
