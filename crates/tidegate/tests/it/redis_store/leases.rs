//! Leases in Redis: the token is the lease, on every node.

use std::time::Duration;

use tidegate::redis::RedisStore;
use tidegate::store::{Counter, Plan};
use tidegate::{FencingToken, Lease, Release, Renewal, StoreError};

use super::cluster::RedisCluster;
use super::server::{RedisServer, wait_until};
use super::setup::{
    Cacheable, LONG, StoreExt, charge, counter, decision, plan, remaining, store_with, stores,
};
use crate::lease_suite::Node;

async fn acquire(store: &RedisStore, plan: &Plan<'_>) -> Option<Lease> {
    store.acquire(plan, None).await.unwrap().lease
}

fn lock() -> Counter {
    counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1h}")
}

async fn three_nodes() -> (RedisServer, [Node; 3]) {
    let server = RedisServer::start();
    let nodes = stores(&server.url(), 3).await.into_iter().map(Node::new).collect::<Vec<_>>();
    (server, nodes.try_into().ok().unwrap())
}

/// What every lease store promises.
mod conformance {
    crate::lease_suite::lease_suite!(super::three_nodes);
}

#[tokio::test]
async fn a_plan_without_leases_is_decided_and_holds_nothing() {
    let server = RedisServer::start();
    let (stores, rate) = (stores(&server.url(), 1).await, counter("rate", "2 per 1000d"));
    let rate_plan = plan(&[charge("key", &rate, 1)]);
    let reply = stores[0].acquire(&rate_plan, None).await.unwrap();
    assert_eq!((reply.lease, reply.outcomes[0].remaining), (None, 1));
    let lock = lock();
    let lease = acquire(&stores[0], &plan(&[charge("door", &lock, 1)])).await.unwrap();
    assert_eq!(stores[0].release(&rate_plan, &lease.token).await.unwrap(), Release::WrongOwner);
}

/// Two locks in different slots of a cluster, taken together and alone, by many tasks. The fencing tokens of
/// each key grow from holder to holder, and no two tasks hold the same lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_lease_has_the_highest_fence() {
    let cluster = RedisCluster::start().await;
    let stores = stores(&cluster.url(), 3).await;
    let lock: &'static Counter = Box::leak(Box::new(lock()));
    let (a, b) = (charge("a", lock, 1), charge("b", lock, 1));
    let last: &'static [std::sync::Mutex<FencingToken>; 2] = Box::leak(Box::default());
    let mut tasks = tokio::task::JoinSet::new();
    for (number, store) in stores.iter().cycle().take(6).cloned().enumerate() {
        tasks.spawn(async move {
            let charges = [vec![a, b], vec![a], vec![b]];
            let mut leases_taken = 0;
            while leases_taken < 15 {
                let charges = &charges[(number + leases_taken) % 3];
                let doors = plan(charges);
                let Some(lease) = acquire(&store, &doors).await else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                };
                leases_taken += 1;
                for charge in charges {
                    let door = usize::from(charge.key == b"b");
                    let mut last = last[door].try_lock().expect("no other task holds it");
                    assert!(lease.fence > *last, "{:?} after {last:?}", lease.fence);
                    *last = lease.fence;
                }
                let renewed = store.renew(&doors, &lease.token, None).await.unwrap();
                assert!(matches!(renewed, Renewal::Renewed(renewed) if renewed.fence == lease.fence));
                assert_eq!(store.release(&doors, &lease.token).await.unwrap(), Release::Released);
                assert_eq!(store.release(&doors, &lease.token).await.unwrap(), Release::AlreadyReleased);
            }
        });
    }
    // In any order: a task that fails leaves its lease behind, and the others wait for it.
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert!(stores.iter().all(|store| store.stats().split_refunds_lost == 0));
    // Tasks that got one of two locks leave nothing behind.
    for key in ["a", "b"] {
        wait_until(async || (remaining(&stores[0], key, lock).await == 1).then_some(())).await;
    }
}

#[tokio::test]
async fn a_split_check_that_is_denied_releases_its_lease() {
    let cluster = RedisCluster::start().await;
    let (stores, lock) = (stores(&cluster.url(), 1).await, lock());
    let over = counter("over", "{algorithm: gcra, limit: 0, per: 1h}");
    let both = plan(&[charge("a", &lock, 1), charge("b", &over, 1)]);
    assert!(!decision(stores[0].check(&both, Cacheable::NONE).await).is_allowed());
    wait_until(async || (remaining(&stores[0], "a", &lock).await == 1).then_some(())).await;
}

/// The caller is gone: the client disconnected, or the reply came too late.
#[tokio::test]
async fn an_abandoned_lease_is_released() {
    let server = RedisServer::start();
    let (stores, lock) = (stores(&server.url(), 2).await, lock());
    let impatient = store_with(&server.url(), Duration::from_millis(300)).await;
    let door = plan(&[charge("door", &lock, 1)]);
    let is_free = async || (remaining(&stores[1], "door", &lock).await == 1).then_some(());
    let held_once = async |fence: FencingToken| {
        wait_until(is_free).await;
        let lease = acquire(&stores[1], &door).await.unwrap();
        assert!(lease.fence > fence);
        assert_eq!(stores[1].release(&door, &lease.token).await.unwrap(), Release::Released);
        lease.fence
    };
    let fence = held_once(FencingToken::new(0)).await;
    drop(stores[0].acquire(&door, None));
    stores[0].wait_for_refunds(LONG).await;
    // It was acquired and is free again: a fencing token was handed out in between.
    let fence = held_once(fence).await;
    // Redis stops during the call, and runs it when it continues.
    wait_until(async || impatient.peek(&door).await.ok()).await;
    server.pause();
    let pending = impatient.acquire(&door, None);
    assert!(matches!(pending.await.unwrap_err(), StoreError::TimedOut | StoreError::BreakerOpen));
    server.resume();
    assert_eq!(impatient.wait_for_refunds(LONG).await, 0);
    held_once(fence).await;
}

#[tokio::test]
async fn an_abandoned_split_lease_is_released() {
    let cluster = RedisCluster::start().await;
    let (stores, lock) = (stores(&cluster.url(), 1).await, lock());
    let both = plan(&[charge("a", &lock, 1), charge("b", &lock, 1)]);
    for _ in 0..10 {
        drop(stores[0].acquire(&both, None));
        assert_eq!(stores[0].wait_for_refunds(LONG).await, 0);
        for key in ["a", "b"] {
            assert_eq!(remaining(&stores[0], key, &lock).await, 1);
        }
    }
    assert_eq!(stores[0].stats().split_refunds, 20);
    assert_eq!(stores[0].stats().split_refunds_lost, 0);
}
