//! Several nodes share a limit, and together admit exactly what it allows.

use tidegate::redis::RedisStore;

use super::server::{RedisServer, wait_until};
use super::setup::{
    Cacheable, StoreExt, charge, check, check_cached, counter, decision, plan, remaining, store, stores,
};

/// Windows so long that none ends and nothing refills during a test.
const LIMITS: [&str; 8] = [
    "{algorithm: gcra, limit: 100, per: 1000d}",
    "{algorithm: token_bucket, limit: 100, per: 1000d}",
    "{algorithm: leaky_bucket, limit: 100, per: 1000d, queue: 99}",
    "{algorithm: fixed_window, limit: 100, per: 1000d, align: first_hit}",
    "{algorithm: sliding_window, limit: 100, per: 3650d}",
    "{algorithm: sliding_log, limit: 100, per: 1000d}",
    "{algorithm: sub_windows, limit: 100, per: 1000d}",
    "{algorithm: concurrency, limit: 100, ttl: 1000d}",
];

/// Four stores, 32 clients, 10 requests each.
async fn admitted(
    stores: &[RedisStore],
    counter: &'static tidegate::store::Counter,
    key: &'static str,
) -> u64 {
    let clients: Vec<_> = (0..32)
        .map(|client| {
            let store = stores[client % stores.len()].clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..10 {
                    admitted += u64::from(check_cached(&store, key, counter, 1).await.is_allowed());
                }
                admitted
            })
        })
        .collect();
    let mut total = 0;
    for client in clients {
        total += client.await.unwrap();
    }
    total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_stores_admit_exactly_the_limit() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 4).await;
    for text in LIMITS {
        let counter: &'static _ = Box::leak(Box::new(counter(text, text)));
        assert_eq!(admitted(&stores, counter, "shared").await, 100, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_reloaded_under_load() {
    let server = RedisServer::start();
    let counter: &'static _ = Box::leak(Box::new(counter("flushed", "100 per 1000d")));
    let (stores, mut connection) = (stores(&server.url(), 4).await, server.connection().await);
    let plan_count = || stores.iter().map(|store| store.stats().plans).sum::<u64>();
    let load_stores = stores.clone();
    let load = tokio::spawn(async move { admitted(&load_stores, counter, "shared").await });
    while !load.is_finished() {
        redis::cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut connection).await.unwrap();
        // Flush again after a while, so that a store that has just loaded the scripts can call them.
        let before = plan_count();
        wait_until(async || (load.is_finished() || plan_count() >= before + 16).then_some(())).await;
    }
    let reloaded: u64 = stores.iter().map(|store| store.stats().servers.total.scripts_reloaded).sum();
    assert!(reloaded > 0);
    assert_eq!(load.await.unwrap(), 100);
}

#[tokio::test]
async fn refunded_units_can_be_used_again() {
    let server = RedisServer::start();
    for text in &LIMITS[..7] {
        let (store, counter) = (store(&server.url()).await, counter(text, text));
        assert!(check_cached(&store, "key", &counter, 100).await.is_allowed(), "{text}");
        assert!(!check_cached(&store, "key", &counter, 1).await.is_allowed(), "{text}");
        store.refund(&plan(&[charge("key", &counter, 40)])).await.unwrap();
        assert_eq!(remaining(&store, "key", &counter).await, 40, "{text}");
        // A refund forgets the cached denial on the node that made it.
        assert!(check_cached(&store, "key", &counter, 40).await.is_allowed(), "{text}");
        assert!(!check_cached(&store, "key", &counter, 1).await.is_allowed(), "{text}");
        store.reset(&plan(&[charge("key", &counter, 0)])).await.unwrap();
        assert!(check_cached(&store, "key", &counter, 100).await.is_allowed(), "{text}");
    }
}

#[tokio::test]
async fn a_plan_is_charged_whole_or_not_at_all() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let (wide, narrow) = (counter("wide", "100 per 1000d"), counter("narrow", "5 per 1000d"));
    let both = plan(&[charge("user", &wide, 1), charge("ip", &narrow, 1)]);
    for left in (0..5).rev() {
        let reply = store.check(&both, Cacheable::NONE).await.unwrap();
        assert_eq!((reply.outcomes[0].remaining, reply.outcomes[1].remaining), (95 + left, left));
    }
    assert!(!decision(store.check(&both, Cacheable::NONE).await).is_allowed());
    assert_eq!(remaining(&store, "user", &wide).await, 95);
}

#[tokio::test]
async fn a_dropped_check_is_still_charged() {
    let server = RedisServer::start();
    let (store, counter) = (store(&server.url()).await, counter("dropped", "10 per 1000d"));
    drop(store.check(&plan(&[charge("key", &counter, 3)]), Cacheable::NONE));
    // Queued after it, so it gets its reply after it.
    assert_eq!(check(&store, "key", &counter, 1).await.remaining, 6);
}

#[tokio::test]
async fn an_empty_plan_is_admitted_without_a_call() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    assert!(decision(store.check(&plan(&[]), Cacheable::ALL).await).is_allowed());
    store.refund(&plan(&[])).await.unwrap();
    assert_eq!(store.stats().calls, 0);
}
