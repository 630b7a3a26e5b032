//! Leases in Redis: the token is the lease, on every node.

use std::time::Duration;

use tidegate::redis::RedisStore;
use tidegate::store::{Counter, Plan};
use tidegate::{FencingToken, Lease, Nanos, Release, Renewal, StoreError};

use super::cluster::RedisCluster;
use super::server::{RedisServer, wait_until};
use super::setup::{
    Cacheable, LONG, StoreExt, charge, counter, decision, plan, remaining, store_with, stores,
};

async fn acquire(store: &RedisStore, plan: &Plan<'_>) -> Option<Lease> {
    store.acquire(plan, None).await.unwrap().lease
}

fn lock() -> Counter {
    counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1h}")
}

#[tokio::test]
async fn one_process_acquires_and_another_renews_and_releases() {
    let server = RedisServer::start();
    let (stores, lock) = (stores(&server.url(), 2).await, lock());
    let door = plan(&[charge("door", &lock, 1)]);
    let lease = acquire(&stores[0], &door).await.unwrap();
    assert_eq!(acquire(&stores[1], &door).await, None);
    let Renewal::Renewed(renewed) = stores[1].renew(&door, &lease.token, None).await.unwrap() else {
        panic!("it is held")
    };
    assert!(renewed.expires > lease.expires && renewed.fence == lease.fence);
    // The token from before the renewal still works.
    assert_eq!(stores[1].release(&door, &lease.token).await.unwrap(), Release::Released);
    assert_eq!(stores[0].release(&door, &renewed.token).await.unwrap(), Release::AlreadyReleased);
    assert_eq!(stores[0].renew(&door, &renewed.token, None).await.unwrap(), Renewal::AlreadyReleased);
    let next = acquire(&stores[1], &door).await.unwrap();
    assert!(next.fence > lease.fence);
    // A token of another lease or of another key does not work.
    assert_eq!(stores[0].release(&door, &lease.token).await.unwrap(), Release::AlreadyReleased);
    let window = plan(&[charge("window", &lock, 1)]);
    assert_eq!(stores[0].release(&window, &next.token).await.unwrap(), Release::WrongOwner);
    assert_eq!(stores[0].renew(&window, &next.token, None).await.unwrap(), Renewal::WrongOwner);
    assert_eq!(remaining(&stores[0], "door", &lock).await, 0);
}

/// The digits of a token, with its ttl.
const DIGITS: usize = 80;

/// A token authenticates the end, the fencing token and the ttl of its lease too, whether the lease is held or not.
#[tokio::test]
async fn a_token_with_a_changed_digit_is_invalid() {
    let server = RedisServer::start();
    let (stores, lock) = (stores(&server.url(), 1).await, lock());
    let door = plan(&[charge("door", &lock, 1)]);
    let lease = acquire(&stores[0], &door).await.unwrap();
    let text = lease.token.to_string();
    let changed = |digit: usize| {
        let other = if &text[digit..=digit] == "0" { "1" } else { "0" };
        format!("{}{other}{}", &text[..digit], &text[digit + 1..]).parse().unwrap()
    };
    for digit in 0..DIGITS {
        let renewal = stores[0].renew(&door, &changed(digit), None).await.unwrap();
        assert_eq!(renewal, Renewal::WrongOwner, "digit {digit}");
        let release = stores[0].release(&door, &changed(digit)).await.unwrap();
        assert_eq!(release, Release::WrongOwner, "digit {digit}");
    }
    assert_eq!(stores[0].release(&door, &lease.token).await.unwrap(), Release::Released);
    for digit in 0..DIGITS {
        assert_eq!(stores[0].release(&door, &changed(digit)).await.unwrap(), Release::WrongOwner);
    }
}

#[tokio::test]
async fn a_renewal_without_a_ttl_keeps_that_of_the_lease() {
    let server = RedisServer::start();
    let (stores, lock) = (stores(&server.url(), 2).await, lock());
    let door = plan(&[charge("door", &lock, 1)]);
    let (short, shorter) = (Nanos::new(30_000_000_000), Nanos::new(20_000_000_000));
    let lease = stores[0].acquire(&door, Some(short)).await.unwrap().lease.unwrap();
    // Another node knows only the text of the token.
    let token = lease.token.to_string().parse().unwrap();
    let renewed_for = async |token, ttl| match stores[1].renew(&door, token, ttl).await.unwrap() {
        Renewal::Renewed(renewed) => renewed,
        missing => panic!("{missing:?}"),
    };
    let renewed = renewed_for(&token, None).await;
    assert_eq!((renewed.ttl(), renewed.token.ttl()), (short, Some(short)), "the limit has an hour");
    let renewed = renewed_for(&renewed.token, Some(shorter)).await;
    assert_eq!(renewed_for(&renewed.token, None).await.ttl(), shorter, "the last one counts");
    let cut = token.to_string()[..64].parse().unwrap();
    assert_eq!(stores[1].renew(&door, &cut, None).await.unwrap(), Renewal::WrongOwner, "the ttl is sealed");
}

#[tokio::test]
async fn an_expired_lease_is_free_again() {
    let server = RedisServer::start();
    let (stores, lock) = (stores(&server.url(), 1).await, lock());
    let door = plan(&[charge("door", &lock, 1)]);
    let short = Some(Nanos::new(20_000_000));
    let lease = stores[0].acquire(&door, short).await.unwrap().lease.unwrap();
    let next = wait_until(async || acquire(&stores[0], &door).await).await;
    assert!(next.fence > lease.fence);
    assert_eq!(stores[0].release(&door, &lease.token).await.unwrap(), Release::Expired);
    assert_eq!(stores[0].renew(&door, &lease.token, None).await.unwrap(), Renewal::Expired);
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
