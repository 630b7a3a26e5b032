//! The conformance suite over each topology, and what all topologies have in common.

use std::sync::Arc;

use tidegate::config::{
    CONFIG_VALUE_BYTES_MAX, CONFIG_WRITES_MAX, ConfigStore, ConfigVersion, Scan, WriteResult,
};
use tidegate_testing::config_store::{check_config_store, delete, put};

use super::super::cluster::RedisCluster;
use super::super::server::RedisServer;
use super::super::setup::store;
use super::{config_store, is_written, scan_keys};

async fn check_over(url: &str) {
    let (one, two) = (Arc::new(config_store(url).await), Arc::new(config_store(url).await));
    check_config_store(one, two).await;
}

/// The versions of all changes after a version.
async fn listed_versions(store: &dyn ConfigStore, mut since: ConfigVersion) -> Vec<ConfigVersion> {
    let mut listed = Vec::new();
    loop {
        let changes = store.changes(since, 1_000).await.unwrap();
        assert!(!changes.is_gap && changes.keys.len() <= 1_000);
        listed.extend(changes.keys.into_iter().map(|(_, version)| version));
        since = changes.next;
        if !changes.has_more {
            return listed;
        }
    }
}

#[tokio::test]
async fn a_single_server_conforms() {
    let server = RedisServer::start();
    check_over(&server.url()).await;
    // The names in docs/fleet.md.
    let keys: Vec<String> = server.run_command("KEYS tg:1config{*}values").await;
    assert_eq!(keys.len(), 16, "{keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_conforms() {
    let cluster = RedisCluster::start().await;
    check_over(&cluster.url()).await;
    // Each master has about a third of the shards.
    for server in &cluster.servers {
        let keys: Vec<String> = server.run_command("KEYS tg:1config{*}values").await;
        assert!([5, 6].contains(&keys.len()), "{keys:?}");
    }
}

#[tokio::test]
async fn a_ring_conforms() {
    let servers = [RedisServer::start(), RedisServer::start()];
    check_over(&format!("redis+ring://{},{}", servers[0].address(), servers[1].address())).await;
    for server in &servers {
        let keys: Vec<String> = server.run_command("KEYS tg:1config{*}values").await;
        assert!((1..16).contains(&keys.len()), "{keys:?}");
    }
}

#[tokio::test]
async fn a_lost_script_is_loaded_again() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    for number in 0..3 {
        server.run_command::<()>("SCRIPT FLUSH").await;
        let writes: Vec<_> = (0..20).map(|key| put(&format!("key/{key}"), &[number])).collect();
        assert!(store.write(&writes).await.unwrap().iter().all(is_written));
        server.run_command::<()>("SCRIPT FLUSH").await;
        assert_eq!(scan_keys(&store, 100).await.len(), 20);
    }
}

#[tokio::test]
async fn a_large_import_keeps_its_order() {
    let server = RedisServer::start();
    let (store, other) = (config_store(&server.url()).await, config_store(&server.url()).await);
    let since = other.latest().await.unwrap();
    // Each key twice: the second write wins.
    let key = |number: usize| format!("key/{:05}", number % (CONFIG_WRITES_MAX / 2));
    let writes: Vec<_> =
        (0..CONFIG_WRITES_MAX).map(|number| put(&key(number), number.to_string().as_bytes())).collect();
    let results = store.write(&writes).await.unwrap();
    assert!(results.len() == writes.len() && results.iter().all(is_written));
    for number in (CONFIG_WRITES_MAX / 2..CONFIG_WRITES_MAX).step_by(997) {
        let entry = other.get(&key(number)).await.unwrap().unwrap();
        assert_eq!(*entry.value, *number.to_string().as_bytes());
        assert_eq!(results[number], WriteResult::Written(entry.version));
    }
    let keys: Vec<Box<str>> = (0..CONFIG_WRITES_MAX / 2).map(|number| key(number).into()).collect();
    for entries_max in [100, 10_000] {
        assert_eq!(scan_keys(&other, entries_max).await, keys, "{entries_max}");
    }
    // Every write is listed once, in the order of versions.
    let listed = listed_versions(&other, since).await;
    assert_eq!(listed.len(), writes.len());
    assert!(listed.is_sorted());
}

#[tokio::test]
async fn large_values_make_short_pages() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    let value = vec![b'x'; CONFIG_VALUE_BYTES_MAX];
    let writes: Vec<_> = (0..80).map(|number| put(&format!("large/{number}"), &value)).collect();
    assert!(store.write(&writes).await.unwrap().iter().all(is_written));
    assert_eq!(scan_keys(&store, 1_000).await.len(), 80);
    let scan = Scan { prefix: "", after: None, entries_max: 1_000 };
    let page = store.scan(scan).await.unwrap();
    assert!(page.has_more && page.entries.len() <= 16, "{}", page.entries.len());
}

#[tokio::test]
async fn two_handles_write_the_same_key() {
    let server = RedisServer::start();
    let (store, other) = (config_store(&server.url()).await, config_store(&server.url()).await);
    let since = store.latest().await.unwrap();
    let write_many = async |store: &dyn ConfigStore| {
        let mut versions = Vec::new();
        for number in 0..100_u8 {
            let write = if number % 10 == 9 { delete("key") } else { put("key", &[number]) };
            match store.write(&[write]).await.unwrap()[..] {
                [WriteResult::Written(version)] => versions.push(version),
                ref results => panic!("{results:?}"),
            }
        }
        versions
    };
    let (mut versions, others) = tokio::join!(write_many(&store), write_many(&other));
    assert!(versions.is_sorted() && others.is_sorted());
    versions.extend(others);
    versions.sort_unstable();
    assert_eq!(listed_versions(&store, since).await, versions);
    // Versions grow from one shard to the next, if one handle makes them.
    let mut last = *versions.last().unwrap();
    for number in 0..50 {
        let results = store.write(&[put(&format!("key/{number}"), b"")]).await.unwrap();
        assert!(matches!(results[..], [WriteResult::Written(version)] if version > last), "{results:?}");
        if let WriteResult::Written(version) = results[0] {
            last = version;
        }
    }
}

#[tokio::test]
async fn settings_of_redis_that_lose_data_are_reported() {
    let server = RedisServer::start();
    let store = store(&server.url()).await.config_store();
    let warning = store.persistence_warning().await.unwrap().unwrap();
    assert!(warning.contains(&server.address()) && warning.contains("appendonly yes"), "{warning}");
    server.run_command::<()>("CONFIG SET appendonly yes").await;
    assert_eq!(store.persistence_warning().await.unwrap(), None);
    server.run_command::<()>("CONFIG SET maxmemory-policy allkeys-lru").await;
    let warning = store.persistence_warning().await.unwrap().unwrap();
    assert!(warning.contains("allkeys-lru"), "{warning}");
}
