//! A request that waits is told when another node gives units back.

use std::task::{Context, Waker};

use tidegate::redis::RedisStore;
use tidegate::store::Watch;
use tidegate::store::{Charge, Counter, Fallback, Mode, Plan, Policy, Store};
use tidegate::{MemoryStore, Release};

use super::cluster::RedisCluster;
use super::server::{PATIENCE, RedisServer, wait_until};
use super::setup::{
    Cacheable, SharedStore, charge, check, check_cached, counter, decision, plan, store, stores,
};

fn lock() -> Counter {
    counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1000s}")
}

/// A watch whose subscription has begun, and that has been told so.
async fn watching(store: &impl Store, plan: &Plan<'_>) -> Watch {
    let mut watch = store.watch(plan).expect("the store can tell");
    told(&mut watch).await;
    watch
}

async fn told(watch: &mut Watch) {
    tokio::time::timeout(PATIENCE, watch.changed()).await.expect("it is told in time");
}

fn is_told(watch: &mut Watch) -> bool {
    watch.poll_changed(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Releases on one node wake a watch on another.
async fn a_release_is_told(one: &RedisStore, other: &RedisStore, key: &str) {
    let lock = lock();
    let plan = plan(&[charge(key, &lock, 1)]);
    // A watch of a key that is subscribed already is not told of that, so there is one for the whole test.
    let mut watch = watching(other, &plan).await;
    for _ in 0..2 {
        let held = one.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert!(other.acquire(&plan, None).await.unwrap().lease.is_none());
        assert!(!is_told(&mut watch), "nothing has come back");
        assert_eq!(one.release(&plan, &held.token).await.unwrap(), Release::Released);
        told(&mut watch).await;
        let held = other.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert_eq!(other.release(&plan, &held.token).await.unwrap(), Release::Released);
        // Its own release is told to it too.
        told(&mut watch).await;
    }
}

#[tokio::test]
async fn a_release_on_one_node_is_told_to_another() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    a_release_is_told(&stores[0], &stores[1], "key").await;
}

#[tokio::test]
async fn in_a_cluster_too_wherever_the_key_is() {
    let cluster = RedisCluster::start().await;
    let stores = stores(&cluster.url(), 2).await;
    for key in ["a", "b", "c", "d"] {
        a_release_is_told(&stores[0], &stores[1], key).await;
    }
    // A plan in several places is told of each of them.
    let lock = lock();
    let (a, b) = (charge("a", &lock, 1), charge("b", &lock, 1));
    let mut watch = watching(&stores[1], &plan(&[a, b])).await;
    wait_until(async || (!is_told(&mut watch)).then_some(())).await;
    for one in [a, b] {
        let held = stores[0].acquire(&plan(&[one]), None).await.unwrap().lease.unwrap();
        let _ = stores[0].release(&plan(&[one]), &held.token).await.unwrap();
        told(&mut watch).await;
    }
}

/// What is refunded or reset is told, and a denial that was kept in memory is forgotten.
#[tokio::test]
async fn a_refund_and_a_reset_are_told() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    let limit = counter("limit", "2 per 1000d");
    let two = plan(&[charge("key", &limit, 2)]);
    let one = plan(&[charge("key", &limit, 1)]);
    assert!(decision(stores[0].check(&two, Cacheable::NONE).await).is_allowed());
    let mut watch = watching(&stores[1], &one).await;
    assert!(!check_cached(&stores[1], "key", &limit, 1).await.is_allowed());
    assert!(!is_told(&mut watch));
    stores[0].refund(&one).await.unwrap();
    told(&mut watch).await;
    assert!(check_cached(&stores[1], "key", &limit, 1).await.is_allowed());
    assert!(!is_told(&mut watch));
    stores[0].reset(&one).await.unwrap();
    told(&mut watch).await;
    // Other keys are other keys.
    stores[0].reset(&plan(&[charge("other", &limit, 1)])).await.unwrap();
    let _ = check(&stores[0], "key", &limit, 1).await;
    assert!(!is_told(&mut watch));
}

async fn channels(server: &RedisServer) -> usize {
    server.ask::<Vec<String>>("PUBSUB CHANNELS").await.len()
}

#[tokio::test]
async fn a_watch_ends_when_it_is_dropped_and_survives_a_broken_connection() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    let lock = lock();
    let plan = plan(&[charge("key", &lock, 1)]);
    let mut first = watching(&stores[1], &plan).await;
    // It is subscribed already, so this one is told of nothing yet.
    let mut second = stores[1].watch(&plan).unwrap();
    assert!(!is_told(&mut second));
    drop(first.changed());
    server.ask::<i64>("CLIENT KILL TYPE pubsub").await;
    // What was published meanwhile is not known, so both are told.
    told(&mut first).await;
    told(&mut second).await;
    drop(first);
    assert_eq!(channels(&server).await, 1);
    let held = stores[0].acquire(&plan, None).await.unwrap().lease.unwrap();
    let _ = stores[0].release(&plan, &held.token).await.unwrap();
    told(&mut second).await;
    drop(second);
    wait_until(async || (channels(&server).await == 0).then_some(())).await;
}

/// A user who may neither publish nor subscribe: releases work, and nothing is watched.
#[tokio::test]
async fn without_the_right_to_subscribe_there_is_no_watch_and_nothing_breaks() {
    let server = RedisServer::start();
    server.ask::<()>("ACL SETUSER mute on >secret ~* +@all resetchannels").await;
    let url = server.url().replace("redis://", "redis://mute:secret@");
    let (mute, all) = (store(&url).await, store(&server.url()).await);
    let lock = lock();
    let plan = plan(&[charge("key", &lock, 1)]);
    let mut early = mute.watch(&plan);
    wait_until(async || mute.watch(&plan).is_none().then_some(())).await;
    let mut watch = watching(&all, &plan).await;
    for _ in 0..2 {
        let held = mute.acquire(&plan, None).await.unwrap().lease.unwrap();
        assert_eq!(mute.release(&plan, &held.token).await.unwrap(), Release::Released);
    }
    assert!(!is_told(&mut watch));
    let held = all.acquire(&plan, None).await.unwrap().lease.unwrap();
    let _ = all.release(&plan, &held.token).await.unwrap();
    told(&mut watch).await;
    assert!(!early.as_mut().is_some_and(is_told));
    assert_eq!(mute.stats().servers.total.failures, 0);
}

#[tokio::test]
async fn layers_pass_it_on_for_what_is_counted_in_redis() {
    let server = RedisServer::start();
    let fallback = Fallback::new(store(&server.url()).await, MemoryStore::unbounded().into());
    let (lock, own) = (lock(), counter("own", "10/h"));
    let local = Charge { policy: Policy { mode: Mode::Local, ..Policy::DEFAULT }, ..charge("key", &own, 1) };
    assert!(fallback.watch(&plan(&[local])).is_none());
    let mixed = plan(&[local, charge("key", &lock, 1)]);
    let mut watch = watching(&fallback, &mixed).await;
    assert_eq!(channels(&server).await, 1);
    let held = fallback.acquire(&mixed, None).await.unwrap().lease.unwrap();
    let _ = fallback.release(&mixed, &held.token).await.unwrap();
    told(&mut watch).await;
}
