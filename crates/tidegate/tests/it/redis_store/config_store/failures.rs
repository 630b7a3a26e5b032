//! Redis is away, full, or holds something else.

use std::time::Duration;

use tidegate::config::{ConfigStore, ConfigStoreError, ConfigVersion, Scan};
use tidegate::redis::{BreakerState, RedisConfigStore, RedisSettings, RedisStore};
use tidegate_testing::config_store::{check_config_store, delete, put};

use super::super::server::{RedisServer, wait_until};
use super::super::setup::{check, counter, store_with};
use super::cache::Cache;
use super::config_store;

/// The timeout of the counters, shorter than that of the config store.
const SHORT: Duration = Duration::from_millis(50);

async fn check_unavailable(store: &RedisConfigStore) {
    let scan = Scan { prefix: "", after: None, entries_max: 10 };
    let errors = [
        store.get("key").await.unwrap_err(),
        store.write(&[put("key", b"late")]).await.unwrap_err(),
        store.scan(scan).await.unwrap_err(),
        store.changes(ConfigVersion::ZERO, 10).await.unwrap_err(),
        store.latest().await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, ConfigStoreError::Unavailable(_)), "{error}");
    }
}

async fn check_back(store: &RedisConfigStore, value: &[u8]) {
    wait_until(async || store.write(&[put("key", value)]).await.ok()).await;
    assert_eq!(*store.get("key").await.unwrap().unwrap().value, *value);
}

#[tokio::test]
async fn a_stopped_server_is_unavailable_and_comes_back() {
    let mut server = RedisServer::start();
    let store = store_with(&server.url(), SHORT).await.config_store();
    store.write(&[put("key", b"value")]).await.unwrap();
    let mut cache = Cache::load(&store).await.unwrap();

    server.pause();
    check_unavailable(&store).await;
    server.resume();
    check_back(&store, b"after the pause").await;
    wait_until(async || cache.follow(&store).await.ok()).await;
    cache.check(&store).await;
    assert_eq!(cache.gaps, 0);

    server.kill();
    check_unavailable(&store).await;
    // Without persistence, a restart loses everything.
    server.restart();
    wait_until(async || cache.follow(&store).await.ok()).await;
    assert_eq!(cache.gaps, 1);
    assert_eq!(cache.get("key"), None);
    check_back(&store, b"after the restart").await;
}

#[tokio::test]
async fn a_store_that_is_not_connected_yet_is_unavailable() {
    let mut server = RedisServer::start();
    let url = server.url();
    server.kill();
    let store = RedisStore::connect_lazy(url).unwrap().config_store();
    check_unavailable(&store).await;
    assert!(store.persistence_warning().await.is_err());
    server.restart();
    check_back(&store, b"value").await;
}

#[tokio::test]
async fn a_ring_member_that_is_away_keeps_its_shards() {
    let mut servers = [RedisServer::start(), RedisServer::start()];
    let url = format!("redis+ring://{},{}", servers[0].address(), servers[1].address());
    let store = store_with(&url, SHORT).await.config_store();
    let keys: Vec<String> = (0..50).map(|number| format!("key/{number}")).collect();
    for key in &keys {
        store.write(&[put(key, b"value")]).await.unwrap();
    }
    servers[0].kill();
    let (mut found, mut unavailable) = (0, 0);
    for key in &keys {
        match store.get(key).await {
            Ok(Some(_)) => found += 1,
            Err(ConfigStoreError::Unavailable(_)) => unavailable += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(found > 0 && unavailable > 0, "{found} {unavailable}");
    assert!(store.latest().await.is_err(), "changes need all shards");
}

#[tokio::test]
async fn a_full_server_refuses_writes_but_deletes_and_lists() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    store.write(&[put("key", b"value"), put("other", b"value")]).await.unwrap();
    let since = store.latest().await.unwrap();
    store.write(&[put("key", b"new")]).await.unwrap();
    server.run_command::<()>("CONFIG SET maxmemory 1").await;
    let error = store.write(&[put("key", b"newer")]).await.unwrap_err();
    assert!(matches!(&error, ConfigStoreError::Full(reason) if reason.contains("maxmemory")), "{error}");
    assert_eq!(*store.get("key").await.unwrap().unwrap().value, *b"new");
    store.write(&[delete("other")]).await.unwrap();
    // Clocks cannot be raised, so changes may be listed again.
    for _ in 0..2 {
        let changes = store.changes(since, 10).await.unwrap();
        let keys: Vec<&str> = changes.keys.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["key", "other"]);
        assert!(!changes.is_gap && !changes.has_more);
    }
    server.run_command::<()>("CONFIG SET maxmemory 0").await;
    store.write(&[put("key", b"newer")]).await.unwrap();
    let changes = store.changes(since, 10).await.unwrap();
    assert_eq!(changes.keys.len(), 3);
    assert_eq!(store.changes(changes.next, 10).await.unwrap().keys, []);
}

#[tokio::test]
async fn a_key_of_another_type_is_named_and_nothing_is_written() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    store.write(&[put("key", b"value")]).await.unwrap();
    for name in ["keys", "log", "state", "values"] {
        let names: Vec<String> = server.run_command(&format!("KEYS tg:1config{{*}}{name}")).await;
        let [key] = &names[..] else { panic!("{names:?}") };
        server.run_command::<()>(&format!("RENAME {key} saved")).await;
        server.run_command::<()>(&format!("SET {key} text")).await;
        let error = store.write(&[put("key", b"new")]).await.unwrap_err();
        let is_named = matches!(&error, ConfigStoreError::Broken(reason) if reason.contains(&**key));
        assert!(is_named, "{error}");
        server.run_command::<()>(&format!("RENAME saved {key}")).await;
        assert_eq!(*store.get("key").await.unwrap().unwrap().value, *b"value", "{name}");
    }
}

#[tokio::test]
async fn a_damaged_value_is_returned_as_it_is() {
    let server = RedisServer::start();
    let store = config_store(&server.url()).await;
    store.write(&[put("key", b"value")]).await.unwrap();
    let names: Vec<String> = server.run_command("KEYS tg:1config{*}values").await;
    server.run_command::<()>(&format!("HSET {} key not-a-version", names[0])).await;
    let entry = store.get("key").await.unwrap().unwrap();
    assert_eq!((&*entry.value, entry.version), (&b"not-a-version"[..], ConfigVersion::ZERO));
    let page = store.scan(Scan { prefix: "", after: None, entries_max: 10 }).await.unwrap();
    assert_eq!(page.entries, [entry]);
    store.write(&[put("key", b"repaired")]).await.unwrap();
    assert_eq!(*store.get("key").await.unwrap().unwrap().value, *b"repaired");
}

/// The rule in docs/fleet.md.
fn documented_acl() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rule =
        page.lines().map(str::trim).find(|line| line.starts_with("ACL SETUSER tidegate reset")).unwrap();
    rule.replace("PASSWORD", "secret")
}

#[tokio::test]
async fn the_documented_user_may_do_all_that_is_needed() {
    let server = RedisServer::start();
    server.run_command::<()>(&documented_acl()).await;
    let url = format!("redis://tidegate:secret@{}", server.address());
    let (one, two) = (config_store(&url).await, config_store(&url).await);
    assert!(one.persistence_warning().await.unwrap().is_some());
    check_config_store(std::sync::Arc::new(one), std::sync::Arc::new(two)).await;
    let log: Vec<redis::Value> = server.run_command("ACL LOG").await;
    assert_eq!(log, [], "Redis denied no command");
}

#[tokio::test]
async fn decisions_go_on_if_only_config_data_is_forbidden() {
    let server = RedisServer::start();
    let without = " -hget -hmget -hset -hdel -zrem -zrangebylex -xadd -xrange -xrevrange -info";
    server.run_command::<()>(&(documented_acl() + without)).await;
    let mut settings =
        RedisSettings::new(format!("redis://tidegate:secret@{}", server.address()).parse().unwrap());
    settings.timeout = super::super::setup::LONG;
    let store = RedisStore::connect(settings).await.unwrap();
    let config = store.config_store();
    for _ in 0..10 {
        let errors =
            [config.get("key").await.unwrap_err(), config.write(&[put("key", b"")]).await.unwrap_err()];
        for error in errors {
            let has_hint = matches!(&error, ConfigStoreError::Broken(reason) if reason.contains("+hget"));
            assert!(has_hint, "{error}");
        }
    }
    assert!(config.persistence_warning().await.unwrap().unwrap().contains("INFO"));
    assert_eq!(store.stats().servers.servers[0].breaker, BreakerState::Closed);
    assert!(check(&store, "ann", &counter("per-user", "5 per day"), 1).await.is_allowed());
}
