//! A ring of independent servers: plans whose keys are on several of them.

use std::time::Duration;

use tidegate::redis::{BreakerState, RedisStore};
use tidegate::store::{Charge, Counter, StorePolicy};
use tidegate::{Decision, OnStoreFailure, Release};

use super::server::{RedisServer, wait_until};
use super::setup::{
    Cacheable, CheckReply, StoreExt, charge, counter, decision, plan, remaining, store, store_with, stores,
};

/// Short enough to wait for, long enough for a busy machine.
const SHORT: Duration = Duration::from_millis(500);

fn with_policy<'a>(charge: Charge<'a>, on_store_failure: OnStoreFailure) -> Charge<'a> {
    Charge { policy: StorePolicy { on_store_failure, ..charge.policy }, ..charge }
}

async fn keys(server: &RedisServer, pattern: &str) -> usize {
    server.run_command::<Vec<String>>(&format!("KEYS {pattern}")).await.len()
}

/// Locks, and limits that deny while Redis does not answer, must not start empty on another server.
#[tokio::test]
async fn keys_of_deny_limits_and_leases_do_not_move() {
    let servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address()).collect();
    let url = format!("redis+ring://{}", addresses.join(","));
    let (holder, other) = (store_with(&url, SHORT).await, store_with(&url, SHORT).await);
    let lock = counter("lock", "{algorithm: concurrency, limit: 1, ttl: 1h}");
    let (strict, local) = (counter("strict", "1 per 1000d"), counter("local", "1 per 1000d"));
    // Even if its rule says `local`, a lease does not move.
    let lock_plan = plan(&[with_policy(charge("door", &lock, 1), OnStoreFailure::Local)]);
    let strict_plan = plan(&[with_policy(charge("door", &strict, 1), OnStoreFailure::Deny)]);
    let local_plan = plan(&[with_policy(charge("door", &local, 1), OnStoreFailure::Local)]);

    let lease = wait_until(async || holder.acquire(&lock_plan, None).await.ok()?.lease).await;
    for checked in [&strict_plan, &local_plan] {
        wait_until(async || holder.check(checked, Cacheable::NONE).await.ok()).await;
    }
    let owner = match keys(&servers[0], "*{door}*").await {
        0 => &servers[1],
        _ => &servers[0],
    };
    owner.pause();
    // The local limit moves once the server is known to be down. It starts empty.
    for store in [&holder, &other] {
        wait_until(async || store.check(&local_plan, Cacheable::NONE).await.ok()).await;
        let is_open = |store: &RedisStore| {
            store.stats().servers.servers.iter().any(|server| server.breaker == BreakerState::Open)
        };
        assert!(is_open(store));
        let second = store.acquire(&lock_plan, None).await;
        assert!(second.is_err(), "a second holder: {second:?}");
        let second = store.check(&strict_plan, Cacheable::NONE).await;
        assert!(second.is_err(), "more than the limit: {second:?}");
        let released = store.release(&lock_plan, &lease.token).await;
        assert!(released.is_err(), "the lease is still held: {released:?}");
    }
    owner.resume();
    wait_until(async || other.peek(&lock_plan).await.ok().filter(|reply| !decision_is_allowed(reply))).await;
    let released = wait_until(async || holder.release(&lock_plan, &lease.token).await.ok()).await;
    assert_eq!(released, Release::Released);
}

fn decision_is_allowed(reply: &CheckReply) -> bool {
    Decision::merge(&reply.outcomes).is_allowed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_across_a_ring_are_limited_exactly() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address()).collect();
    let url = format!("redis+ring://{}", addresses.join(","));
    let stores = stores(&url, 2).await;
    let wide: &'static Counter = Box::leak(Box::new(counter("wide", "1000 per 1000d")));
    let narrow: &'static Counter = Box::leak(Box::new(counter("narrow", "20 per 1000d")));
    // With this many users, some are on another server than the shared key.
    let tasks: Vec<_> = (0..40)
        .map(|user| {
            let store = stores[user % 2].clone();
            tokio::spawn(async move {
                let user: &'static str = Box::leak(format!("user:{user}").into_boxed_str());
                let pending =
                    store.check(&plan(&[charge(user, wide, 1), charge("all", narrow, 1)]), Cacheable::ALL);
                (user, decision(pending.await).is_allowed())
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        let (user, is_allowed) = task.await.unwrap();
        admitted += usize::from(is_allowed);
        let left = if is_allowed { 999 } else { 1000 };
        wait_until(async || (remaining(&stores[0], user, wide).await == left).then_some(())).await;
    }
    assert_eq!(admitted, 20);
    let splits: u64 = stores.iter().map(|store| store.stats().splits).sum();
    assert!(splits > 0 && splits < 40, "{splits}");
    // A later call finds the same keys on the same servers.
    assert_eq!(remaining(&store(&url).await, "all", narrow).await, 0);
}
