//! Nodes count each other by heartbeats.

use std::time::Duration;

use tidegate::Timestamp;
use tidegate::redis::{RedisSettings, RedisStore, StoreTicks};
use tidegate::store::Store;

use super::server::{RedisServer, wait_until};
use super::setup::{LONG, store_with, stores};

#[tokio::test]
async fn every_store_counts_live_nodes() {
    let server = RedisServer::start();
    let mut all = stores(&server.url(), 3).await;
    let assert_count = async |store: &tidegate::redis::RedisStore, count: u32| {
        wait_until(async || (store.live_nodes().get() == count).then_some(())).await;
        assert_eq!(store.stats().live_nodes, count);
    };
    for store in &all {
        assert_count(store, 3).await;
    }
    drop(all.pop());
    for store in &all {
        assert_count(store, 2).await;
    }
    let ttl_ms: i64 = server.run_command("PTTL tg:1nodes").await;
    assert!(ttl_ms > 300 * 86_400_000 && ttl_ms <= 366 * 86_400_000, "{ttl_ms}");
}

/// A full Redis with `volatile-ttl`, which the documentation recommends, evicts the keys that expire soonest.
#[tokio::test]
async fn a_full_redis_evicts_counters_before_the_list_of_nodes() {
    let server = RedisServer::start();
    let stores = stores(&server.url(), 2).await;
    wait_until(async || stores.iter().all(|store| store.live_nodes().get() == 2).then_some(())).await;
    for command in [
        "CONFIG SET maxmemory-policy volatile-ttl",
        "CONFIG SET maxmemory-samples 10",
        "CONFIG SET maxmemory 8mb",
    ] {
        server.run_command::<()>(command).await;
    }
    let mut connection = server.connection().await;
    let evicted = async |connection: &mut _| {
        let info: String = redis::cmd("INFO").arg("stats").query_async(connection).await.unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("evicted_keys:")).unwrap().to_owned();
        line.trim().parse::<u64>().unwrap()
    };
    for round in 0..20 {
        let mut pipeline = redis::pipe();
        for number in 0..1_000 {
            let key = format!("counter{round}:{number}");
            pipeline.cmd("SET").arg(key).arg("x".repeat(1_000)).arg("PX").arg(3_600_000).ignore();
        }
        pipeline.query_async::<()>(&mut connection).await.unwrap();
    }
    assert!(evicted(&mut connection).await > 1_000);
    let nodes: u32 = redis::cmd("ZCARD").arg("tg:1nodes").query_async(&mut connection).await.unwrap();
    assert_eq!(nodes, 2);
    assert!(stores.iter().all(|store| store.live_nodes().get() == 2));
}

#[tokio::test]
async fn the_last_count_stays_while_redis_is_down() {
    let server = RedisServer::start();
    let timeout = Duration::from_secs(3);
    let (store, _other) =
        (store_with(&server.url(), timeout).await, store_with(&server.url(), timeout).await);
    wait_until(async || (store.live_nodes().get() == 2).then_some(())).await;
    let failures = store.stats().servers.total.failures;
    server.pause();
    // Only heartbeats are sent.
    wait_until(async || (store.stats().servers.total.failures > failures).then_some(())).await;
    assert_eq!(store.live_nodes().get(), 2);
    server.resume();
}

#[tokio::test]
async fn a_redis_that_lost_its_data_does_not_reset_the_count() {
    let server = RedisServer::start();
    let all = stores(&server.url(), 3).await;
    let knows_all = |store: &tidegate::redis::RedisStore| store.live_nodes().get() == 3;
    wait_until(async || all.iter().all(knows_all).then_some(())).await;
    server.run_command::<()>("FLUSHALL").await;
    // All send heartbeats again, one after the other, and the first reply counts only one node.
    let mut connection = server.connection().await;
    wait_until(async || {
        assert!(all.iter().all(knows_all));
        let node_count: u32 =
            redis::cmd("ZCARD").arg("tg:1nodes").query_async(&mut connection).await.unwrap();
        (node_count == 3).then_some(())
    })
    .await;
    assert!(all.iter().all(knows_all));
}

#[tokio::test]
async fn a_store_with_caller_ticks_sends_heartbeats_on_tick() {
    let server = RedisServer::start();
    let mut settings = RedisSettings::new(server.url().parse().unwrap());
    settings.timeout = LONG;
    settings.ticks = StoreTicks::Caller;
    let store = RedisStore::connect(settings.clone()).await.unwrap();
    let _other = RedisStore::connect(settings).await.unwrap();
    let commands = || store.stats().servers.total.commands;
    let (before, mut now_s) = (commands(), 1_000_000_000_u64);
    let mut tick = |advance_s: u64| {
        now_s += advance_s;
        store.tick(Timestamp::from_nanos(now_s * 1_000_000_000));
    };
    // The first tick only sets the time. One heartbeat was sent when the store was connected.
    tick(0);
    tick(1);
    assert_eq!((commands(), store.live_nodes().get()), (before, 1));
    tick(1);
    wait_until(async || (store.live_nodes().get() == 2).then_some(())).await;
    assert_eq!(commands(), before + 1);
}
