//! The change feed: nothing is missed, and lost data is noticed by every node.

use std::sync::Arc;

use tidegate::config::{ConfigStore, ConfigVersion};
use tidegate::redis::RedisConfigStore;
use tidegate_testing::config_store::{delete, put};

use super::super::cluster::RedisCluster;
use super::super::server::RedisServer;
use super::cache::Cache;
use super::config_store;

/// How often a node starts while another one writes.
const STARTS: u32 = 40;
/// How many writes another node makes meanwhile.
const WRITES: u32 = 150;

async fn starts_miss_nothing(url: &str) {
    let reader = config_store(url).await;
    for start in 0..STARTS {
        let writer = config_store(url).await;
        let writing = tokio::spawn(async move {
            for number in 0..WRITES {
                let key = format!("key/{}", (number * 7 + start) % 60);
                let write = if number % 5 == 0 { delete(&key) } else { put(&key, &number.to_be_bytes()) };
                writer.write(&[write]).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        // The cut between the full read and the first poll is at another position each time.
        let mut cache = Cache::load(&reader).await.unwrap();
        for _ in 0..start % 4 {
            tokio::task::yield_now().await;
        }
        while !writing.is_finished() {
            cache.follow(&reader).await.unwrap();
        }
        writing.await.unwrap();
        cache.follow(&reader).await.unwrap();
        cache.check(&reader).await;
        assert_eq!(cache.gaps, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_during_writes_misses_nothing() {
    starts_miss_nothing(&RedisServer::start().url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_during_writes_to_a_cluster_misses_nothing() {
    let cluster = RedisCluster::start().await;
    starts_miss_nothing(&cluster.url()).await;
}

/// Several nodes, each with its copy, and all of them up to date.
async fn nodes(url: &str, count: usize) -> Vec<(Arc<RedisConfigStore>, Cache)> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        let store = Arc::new(config_store(url).await);
        let cache = Cache::load(&*store).await.unwrap();
        nodes.push((store, cache));
    }
    for (store, cache) in &mut nodes {
        cache.follow(&**store).await.unwrap();
    }
    nodes
}

/// Each node notices the loss exactly once, although the first one repairs the clocks.
async fn check_one_gap_each(nodes: &mut [(Arc<RedisConfigStore>, Cache)]) {
    for _ in 0..3 {
        for (store, cache) in &mut *nodes {
            cache.follow(&**store).await.unwrap();
        }
    }
    for (store, cache) in &*nodes {
        cache.check(&**store).await;
        assert_eq!(cache.gaps, 1);
    }
}

#[tokio::test]
async fn flushed_data_is_a_gap_for_every_node() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    for key in ["a", "b", "c"] {
        store.write(&[put(key, b"value")]).await.unwrap();
    }
    let before = store.get("a").await.unwrap().unwrap().version;
    for writes_first in [false, true] {
        let mut nodes = nodes(&server.url(), 3).await;
        server.run_command::<()>("FLUSHALL").await;
        if writes_first {
            store.write(&[put("d", b"value")]).await.unwrap();
        }
        check_one_gap_each(&mut nodes).await;
        // A new value has a greater version than the lost one.
        store.write(&[put("a", b"value")]).await.unwrap();
        assert!(store.get("a").await.unwrap().unwrap().version > before);
        let (node, cache) = &mut nodes[1];
        cache.follow(&**node).await.unwrap();
        assert!(cache.get("a").is_some() && cache.gaps == 1);
    }
}

#[tokio::test]
async fn the_loss_of_one_shard_is_a_gap_for_every_node() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    let writes: Vec<_> = (0..100).map(|number| put(&format!("key/{number}"), b"value")).collect();
    store.write(&writes).await.unwrap();
    let mut nodes = nodes(&server.url(), 3).await;
    server
        .run_command::<()>(
            "DEL tg:1config{3.8}values tg:1config{3.8}keys tg:1config{3.8}log tg:1config{3.8}state",
        )
        .await;
    check_one_gap_each(&mut nodes).await;
}

/// As after a failover to a replica that lacked the last write, with another write before any node looks.
#[tokio::test]
async fn a_lost_write_is_a_gap_although_others_followed() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    store.write(&[put("key", b"old")]).await.unwrap();
    let mut nodes = nodes(&server.url(), 3).await;
    let dump = |name: &str| format!("COPY tg:1config{{*}}{name} saved:{name} REPLACE");
    let all: Vec<String> = server.run_command("KEYS tg:1config{*}log").await;
    let [log] = &all[..] else { panic!("{all:?}") };
    let tag = log.trim_start_matches("tg:1config{").trim_end_matches("}log").to_owned();
    let names = ["values", "keys", "log", "state"];
    for name in names {
        server.run_command::<()>(&dump(name).replace('*', &tag)).await;
    }
    store.write(&[put("key", b"lost")]).await.unwrap();
    for (store, cache) in &mut nodes {
        cache.follow(&**store).await.unwrap();
        assert_eq!(*cache.get("key").unwrap().value, *b"lost");
    }
    for name in names {
        server.run_command::<()>(&format!("COPY saved:{name} tg:1config{{{tag}}}{name} REPLACE")).await;
    }
    let later = config_store(&server.url()).await;
    let same_shard = (0..1_000).map(|number| format!("other/{number}"));
    for key in same_shard.take(100) {
        later.write(&[put(&key, b"new")]).await.unwrap();
    }
    check_one_gap_each(&mut nodes).await;
    assert_eq!(*nodes[0].1.get("key").unwrap().value, *b"old");
}

#[tokio::test]
async fn a_reader_that_is_too_far_behind_sees_a_gap() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    store.write(&[put("key", b"first"), put("other", b"value")]).await.unwrap();
    let since = store.latest().await.unwrap();
    let all = store.changes(ConfigVersion::ZERO, 10).await.unwrap();
    assert!(!all.is_gap && all.keys.len() == 2, "{all:?}");
    for _ in 0..11 {
        store.write(&vec![put("key", b"value"); 10_000]).await.unwrap();
    }
    let changes = store.changes(since, 10).await.unwrap();
    assert!(changes.is_gap && changes.keys.is_empty() && changes.next > since);
    assert!(store.changes(ConfigVersion::ZERO, 10).await.unwrap().is_gap);
    let changes = store.changes(changes.next, 10).await.unwrap();
    assert!(!changes.is_gap && changes.keys.is_empty());
    let length: usize =
        server.run_command("EVAL return(redis.call('XLEN',redis.call('KEYS','*log')[1])) 0").await;
    assert!(length <= 100_200, "{length}");
}

#[tokio::test]
async fn an_idle_feed_writes_nothing() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    store.write(&[put("key", b"value")]).await.unwrap();
    let mut cache = Cache::load(&store).await.unwrap();
    cache.follow(&store).await.unwrap();
    let writes = async || -> u64 {
        let stats: String = server.run_command("INFO commandstats").await;
        let line = stats.lines().find(|line| line.starts_with("cmdstat_hset:")).unwrap();
        line.split(['=', ',']).nth(1).unwrap().parse().unwrap()
    };
    let before = writes().await;
    for _ in 0..10 {
        cache.follow(&store).await.unwrap();
    }
    assert_eq!(writes().await, before);
}
