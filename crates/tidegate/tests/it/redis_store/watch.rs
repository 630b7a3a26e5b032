//! A waiting request is woken when another node releases units.

use std::task::{Context, Waker};

use tidegate::redis::RedisStore;
use tidegate::store::Watch;
use tidegate::store::{Charge, Counter, Fallback, Mode, Plan, Store, StorePolicy};
use tidegate::{MemoryStore, Release};

use super::cluster::RedisCluster;
use super::server::{RedisServer, WAIT_TIMEOUT, wait_until};
use super::setup::{
    Cacheable, StoreExt, charge, check, check_cached, counter, decision, plan, store, stores,
};

fn lock() -> Counter {
    counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1000s}")
}

/// A watch whose subscription has started, and that has fired for it.
async fn start_watch(store: &impl Store, plan: &Plan<'_>) -> Watch {
    let mut watch = store.watch(plan).expect("the store supports watches");
    wait_for_wake(&mut watch).await;
    watch
}

async fn wait_for_wake(watch: &mut Watch) {
    tokio::time::timeout(WAIT_TIMEOUT, watch.changed()).await.expect("it is woken in time");
}

fn is_woken(watch: &mut Watch) -> bool {
    watch.poll_changed(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Releases on one node wake a watch on another.
async fn assert_release_wakes(releaser: &RedisStore, watcher: &RedisStore, key: &str) {
    let lock = lock();
    let plan = plan(&[charge(key, &lock, 1)]);
    // A second watch of a subscribed key does not fire at its start, so the whole test uses one watch.
    let mut watch = start_watch(watcher, &plan).await;
    for _ in 0..2 {
        let lease = releaser.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert!(watcher.acquire(&plan, None).await.unwrap().lease.is_none());
        assert!(!is_woken(&mut watch), "nothing has come back");
        assert_eq!(releaser.release(&plan, &lease.token).await.unwrap(), Release::Released);
        wait_for_wake(&mut watch).await;
        let lease = watcher.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert_eq!(watcher.release(&plan, &lease.token).await.unwrap(), Release::Released);
        // Its own release wakes it too.
        wait_for_wake(&mut watch).await;
    }
}

#[tokio::test]
async fn a_release_on_one_node_wakes_another() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    assert_release_wakes(&stores[0], &stores[1], "key").await;
}

#[tokio::test]
async fn a_release_wakes_a_watch_in_a_cluster() {
    let cluster = RedisCluster::start().await;
    let stores = stores(&cluster.url(), 2).await;
    for key in ["a", "b", "c", "d"] {
        assert_release_wakes(&stores[0], &stores[1], key).await;
    }
    // A plan with keys on several servers is woken by each of them.
    let lock = lock();
    let (a, b) = (charge("a", &lock, 1), charge("b", &lock, 1));
    let mut watch = start_watch(&stores[1], &plan(&[a, b])).await;
    wait_until(async || (!is_woken(&mut watch)).then_some(())).await;
    for charge in [a, b] {
        let lease = stores[0].acquire(&plan(&[charge]), None).await.unwrap().lease.unwrap();
        let _ = stores[0].release(&plan(&[charge]), &lease.token).await.unwrap();
        wait_for_wake(&mut watch).await;
    }
}

/// A refund or a reset wakes the watch and forgets a cached denial.
#[tokio::test]
async fn a_refund_and_a_reset_wake_a_watch() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    let limit = counter("limit", "2 per 1000d");
    let two = plan(&[charge("key", &limit, 2)]);
    let one_unit = plan(&[charge("key", &limit, 1)]);
    assert!(decision(stores[0].check(&two, Cacheable::NONE).await).is_allowed());
    let mut watch = start_watch(&stores[1], &one_unit).await;
    assert!(!check_cached(&stores[1], "key", &limit, 1).await.is_allowed());
    assert!(!is_woken(&mut watch));
    stores[0].refund(&one_unit).await.unwrap();
    wait_for_wake(&mut watch).await;
    assert!(check_cached(&stores[1], "key", &limit, 1).await.is_allowed());
    assert!(!is_woken(&mut watch));
    stores[0].reset(&one_unit).await.unwrap();
    wait_for_wake(&mut watch).await;
    // Other keys do not wake it.
    stores[0].reset(&plan(&[charge("other", &limit, 1)])).await.unwrap();
    let _ = check(&stores[0], "key", &limit, 1).await;
    assert!(!is_woken(&mut watch));
}

async fn channels(server: &RedisServer) -> usize {
    server.run_command::<Vec<String>>("PUBSUB CHANNELS").await.len()
}

#[tokio::test]
async fn a_watch_ends_when_it_is_dropped_and_survives_a_broken_connection() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    let lock = lock();
    let plan = plan(&[charge("key", &lock, 1)]);
    let mut first = start_watch(&stores[1], &plan).await;
    // The key is already subscribed, so this watch has not fired yet.
    let mut second = stores[1].watch(&plan).unwrap();
    assert!(!is_woken(&mut second));
    drop(first.changed());
    server.run_command::<i64>("CLIENT KILL TYPE pubsub").await;
    // Messages in between may have been lost, so both fire.
    wait_for_wake(&mut first).await;
    wait_for_wake(&mut second).await;
    drop(first);
    assert_eq!(channels(&server).await, 1);
    let lease = stores[0].acquire(&plan, None).await.unwrap().lease.unwrap();
    let _ = stores[0].release(&plan, &lease.token).await.unwrap();
    wait_for_wake(&mut second).await;
    drop(second);
    wait_until(async || (channels(&server).await == 0).then_some(())).await;
}

/// A user that may neither publish nor subscribe: releases work, and nothing is watched.
#[tokio::test]
async fn without_subscribe_permission_there_is_no_watch() {
    let server = RedisServer::start();
    server.run_command::<()>("ACL SETUSER mute on >secret ~* +@all resetchannels").await;
    let url = server.url().replace("redis://", "redis://mute:secret@");
    let (restricted, unrestricted) = (store(&url).await, store(&server.url()).await);
    let lock = lock();
    let plan = plan(&[charge("key", &lock, 1)]);
    let mut early_watch = restricted.watch(&plan);
    wait_until(async || restricted.watch(&plan).is_none().then_some(())).await;
    let mut watch = start_watch(&unrestricted, &plan).await;
    for _ in 0..2 {
        let lease = restricted.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert_eq!(restricted.release(&plan, &lease.token).await.unwrap(), Release::Released);
    }
    assert!(!is_woken(&mut watch));
    let lease = unrestricted.acquire(&plan, None).await.unwrap().lease.unwrap();
    let _ = unrestricted.release(&plan, &lease.token).await.unwrap();
    wait_for_wake(&mut watch).await;
    assert!(!early_watch.as_mut().is_some_and(is_woken));
    assert_eq!(restricted.stats().servers.total.failures, 0);
}

#[tokio::test]
async fn a_fallback_store_forwards_watches_of_redis_keys() {
    let server = RedisServer::start();
    let fallback = Fallback::new(store(&server.url()).await, MemoryStore::unbounded().into());
    let (lock, local_counter) = (lock(), counter("own", "10/h"));
    let local = Charge {
        policy: StorePolicy { mode: Mode::Local, ..StorePolicy::DEFAULT },
        ..charge("key", &local_counter, 1)
    };
    assert!(fallback.watch(&plan(&[local])).is_none());
    let mixed = plan(&[local, charge("key", &lock, 1)]);
    let mut watch = start_watch(&fallback, &mixed).await;
    assert_eq!(channels(&server).await, 1);
    let lease = fallback.acquire(&mixed, None).await.unwrap().lease.unwrap();
    let _ = fallback.release(&mixed, &lease.token).await.unwrap();
    wait_for_wake(&mut watch).await;
}
