//! Locks over a store on Redis.

use std::time::Duration;

use tidegate::redis::{RedisLockGuard, RedisLocks};
use tidegate::{Locks, ManualClock, Refused, StoreError};

use super::server::{RedisServer, wait_until};
use super::setup::{store, store_with, stores};
use super::without_runtime::{block_on, runtime};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);
/// Short enough to be renewed often, long enough for a busy machine.
const SHORT: Duration = Duration::from_secs(3);

async fn two_nodes(server: &RedisServer) -> [RedisLocks; 2] {
    let [first_node, second_node] = stores(&server.url(), 2).await.try_into().unwrap();
    [Locks::with_store(first_node), Locks::with_store(second_node)]
}

#[tokio::test]
async fn one_process_holds_a_lock_at_a_time() {
    let server = RedisServer::start();
    let [first_node, second_node] = two_nodes(&server).await;
    let first = first_node.lock("invoice", LONG).await.unwrap();
    assert!(first.is_held());
    assert!(matches!(second_node.try_lock("invoice", LONG).await, Err(Refused::OverLimit(_))));
    let refused = second_node.lock_within("invoice", LONG, Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(refused, Refused::TooLong { wait: None });
    let fence = first.fencing_token();
    let pending = second_node.lock("invoice", LONG);
    drop(first);
    let second = pending.await.unwrap();
    assert!(second.fencing_token() > fence);
    assert_eq!(second.release().await.unwrap().as_str(), "released");
    assert!(wait_until(async || first_node.try_lock("invoice", LONG).await.ok()).await.is_held());
}

#[tokio::test]
async fn a_lock_is_held_beyond_its_ttl() {
    let server = RedisServer::start();
    let [first_node, second_node] = two_nodes(&server).await;
    let guard = first_node.lock("invoice", SHORT).await.unwrap();
    let first_end = guard.lease().expires;
    // Renewed until the first lease would have expired: Redis still holds the lock.
    wait_until(async || (guard.lease().since >= first_end).then_some(())).await;
    assert!(guard.is_held());
    assert!(second_node.try_lock("invoice", SHORT).await.is_err());
    drop(guard);
    let _ = wait_until(async || second_node.try_lock("invoice", SHORT).await.ok()).await;
}

#[tokio::test]
async fn a_lost_lock_is_noticed() {
    let server = RedisServer::start();
    let [first_node, second_node] = two_nodes(&server).await;
    let guard = first_node.lock("invoice", SHORT).await.unwrap();
    server.run_command::<()>("FLUSHALL").await;
    tokio::time::timeout(super::server::WAIT_TIMEOUT, guard.lost()).await.expect("a renewal finds it gone");
    assert!(!guard.is_held());
    let second = second_node.try_lock("invoice", LONG).await.unwrap();
    assert!(second.fencing_token() > guard.fencing_token());
    drop(guard);
    assert!(second.is_held());
    assert!(first_node.try_lock("invoice", LONG).await.is_err(), "a lost guard releases nothing");
}

#[tokio::test]
async fn a_lock_is_lost_when_redis_stays_down() {
    let server = RedisServer::start();
    let locks = Locks::with_store(store_with(&server.url(), Duration::from_millis(200)).await);
    let guard = wait_until(async || locks.try_lock("invoice", SHORT).await.ok()).await;
    server.pause();
    tokio::time::timeout(super::server::WAIT_TIMEOUT, guard.lost()).await.expect("its time is over");
    assert!(!guard.is_held());
    let refused = locks.try_lock("invoice", SHORT).await.unwrap_err();
    assert!(matches!(refused, Refused::Store(_)), "{refused}");
    server.resume();
}

#[test]
fn guards_need_no_runtime_of_the_caller() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let [first_node, second_node] = runtime.block_on(two_nodes(&server));
    let guard: RedisLockGuard = first_node.lock_blocking("invoice", LONG).unwrap();
    assert!(matches!(block_on(second_node.try_lock("invoice", LONG)), Err(Refused::OverLimit(_))));
    drop(guard);
    let guard = runtime.block_on(wait_until(async || second_node.try_lock("invoice", LONG).await.ok()));
    drop(runtime);
    assert!(guard.is_held(), "its lease lasts");
    assert_eq!(block_on(guard.renew()), Err(StoreError::RuntimeGone));
    drop(guard);
    assert_eq!(
        block_on(first_node.try_lock("invoice", LONG)).unwrap_err(),
        Refused::Store(StoreError::RuntimeGone)
    );
}

#[test]
fn a_lock_whose_runtime_is_gone_is_lost() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let locks = Locks::with_store(runtime.block_on(store(&server.url())));
    let guard = locks.lock_blocking("invoice", SHORT).unwrap();
    drop(runtime);
    block_on(guard.lost());
    assert!(!guard.is_held());
}

/// The clock of the waiting process stands still, so only a message can wake it.
#[tokio::test]
async fn a_release_on_one_node_wakes_a_request_that_waits_on_another() {
    let server = RedisServer::start();
    let [first_node, second_node] = stores(&server.url(), 2).await.try_into().unwrap();
    let (holder, waiter) =
        (Locks::with_store(first_node), Locks::with_store_and_clock(second_node, ManualClock::default()));
    let guard = holder.lock("invoice", LONG).await.unwrap();
    let pending = tokio::spawn(waiter.lock("invoice", LONG));
    wait_until(async || {
        (server.run_command::<Vec<String>>("PUBSUB CHANNELS").await.len() == 1).then_some(())
    })
    .await;
    let fence = guard.fencing_token();
    drop(guard);
    let pending = tokio::time::timeout(super::server::WAIT_TIMEOUT, pending).await.expect("it is woken");
    assert!(pending.unwrap().unwrap().fencing_token() > fence);
}
