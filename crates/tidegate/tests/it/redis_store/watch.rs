//! A request that waits is told when another node gives units back.

use std::task::{Context, Waker};

use tidegate::redis::RedisStore;
use tidegate::store::Watch;
use tidegate::store::{Charge, Counter, Fallback, Mode, Plan, StorePolicy, Store};
use tidegate::{MemoryStore, Release};

use super::cluster::RedisCluster;
use super::server::{WAIT_TIMEOUT, RedisServer, wait_until};
use super::setup::{
    Cacheable, StoreExt, charge, check, check_cached, counter, decision, plan, store, stores,
};

fn lock() -> Counter {
    counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1000s}")
}

/// A watch whose subscription has begun, and that has been told so.
async fn start_watch(store: &impl Store, plan: &Plan<'_>) -> Watch {
    let mut watch = store.watch(plan).expect("the store can tell");
    wait_for_wake(&mut watch).await;
    watch
}

async fn wait_for_wake(watch: &mut Watch) {
    tokio::time::timeout(WAIT_TIMEOUT, watch.changed()).await.expect("it is told in time");
}

fn is_woken(watch: &mut Watch) -> bool {
    watch.poll_changed(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Releases on one node wake a watch on another.
async fn assert_release_wakes(one: &RedisStore, other: &RedisStore, key: &str) {
    let lock = lock();
    let plan = plan(&[charge(key, &lock, 1)]);
    // A watch of a key that is subscribed already is not told of that, so there is one for the whole test.
    let mut watch = start_watch(other, &plan).await;
    for _ in 0..2 {
        let held = one.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert!(other.acquire(&plan, None).await.unwrap().lease.is_none());
        assert!(!is_woken(&mut watch), "nothing has come back");
        assert_eq!(one.release(&plan, &held.token).await.unwrap(), Release::Released);
        wait_for_wake(&mut watch).await;
        let held = other.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert_eq!(other.release(&plan, &held.token).await.unwrap(), Release::Released);
        // Its own release is told to it too.
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
    // A plan in several places is told of each of them.
    let lock = lock();
    let (a, b) = (charge("a", &lock, 1), charge("b", &lock, 1));
    let mut watch = start_watch(&stores[1], &plan(&[a, b])).await;
    wait_until(async || (!is_woken(&mut watch)).then_some(())).await;
    for one in [a, b] {
        let held = stores[0].acquire(&plan(&[one]), None).await.unwrap().lease.unwrap();
        let _ = stores[0].release(&plan(&[one]), &held.token).await.unwrap();
        wait_for_wake(&mut watch).await;
    }
}

/// What is refunded or reset is told, and a denial that was kept in memory is forgotten.
#[tokio::test]
async fn a_refund_and_a_reset_wake_a_watch() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    let limit = counter("limit", "2 per 1000d");
    let two = plan(&[charge("key", &limit, 2)]);
    let one = plan(&[charge("key", &limit, 1)]);
    assert!(decision(stores[0].check(&two, Cacheable::NONE).await).is_allowed());
    let mut watch = start_watch(&stores[1], &one).await;
    assert!(!check_cached(&stores[1], "key", &limit, 1).await.is_allowed());
    assert!(!is_woken(&mut watch));
    stores[0].refund(&one).await.unwrap();
    wait_for_wake(&mut watch).await;
    assert!(check_cached(&stores[1], "key", &limit, 1).await.is_allowed());
    assert!(!is_woken(&mut watch));
    stores[0].reset(&one).await.unwrap();
    wait_for_wake(&mut watch).await;
    // Other keys are other keys.
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
    // It is subscribed already, so this one is told of nothing yet.
    let mut second = stores[1].watch(&plan).unwrap();
    assert!(!is_woken(&mut second));
    drop(first.changed());
    server.run_command::<i64>("CLIENT KILL TYPE pubsub").await;
    // What was published meanwhile is not known, so both are told.
    wait_for_wake(&mut first).await;
    wait_for_wake(&mut second).await;
    drop(first);
    assert_eq!(channels(&server).await, 1);
    let held = stores[0].acquire(&plan, None).await.unwrap().lease.unwrap();
    let _ = stores[0].release(&plan, &held.token).await.unwrap();
    wait_for_wake(&mut second).await;
    drop(second);
    wait_until(async || (channels(&server).await == 0).then_some(())).await;
}

/// A user who may neither publish nor subscribe: releases work, and nothing is watched.
#[tokio::test]
async fn without_subscribe_permission_there_is_no_watch() {
    let server = RedisServer::start();
    server.run_command::<()>("ACL SETUSER mute on >secret ~* +@all resetchannels").await;
    let url = server.url().replace("redis://", "redis://mute:secret@");
    let (mute, all) = (store(&url).await, store(&server.url()).await);
    let lock = lock();
    let plan = plan(&[charge("key", &lock, 1)]);
    let mut early = mute.watch(&plan);
    wait_until(async || mute.watch(&plan).is_none().then_some(())).await;
    let mut watch = start_watch(&all, &plan).await;
    for _ in 0..2 {
        let held = mute.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert_eq!(mute.release(&plan, &held.token).await.unwrap(), Release::Released);
    }
    assert!(!is_woken(&mut watch));
    let held = all.acquire(&plan, None).await.unwrap().lease.unwrap();
    let _ = all.release(&plan, &held.token).await.unwrap();
    wait_for_wake(&mut watch).await;
    assert!(!early.as_mut().is_some_and(is_woken));
    assert_eq!(mute.stats().servers.total.failures, 0);
}

#[tokio::test]
async fn a_fallback_store_forwards_watches_of_redis_keys() {
    let server = RedisServer::start();
    let fallback = Fallback::new(store(&server.url()).await, MemoryStore::unbounded().into());
    let (lock, own) = (lock(), counter("own", "10/h"));
    let local = Charge { policy: StorePolicy { mode: Mode::Local, ..StorePolicy::DEFAULT }, ..charge("key", &own, 1) };
    assert!(fallback.watch(&plan(&[local])).is_none());
    let mixed = plan(&[local, charge("key", &lock, 1)]);
    let mut watch = start_watch(&fallback, &mixed).await;
    assert_eq!(channels(&server).await, 1);
    let held = fallback.acquire(&mixed, None).await.unwrap().lease.unwrap();
    let _ = fallback.release(&mixed, &held.token).await.unwrap();
    wait_for_wake(&mut watch).await;
}
