//! Stores that connect in the background.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::StoreError;
use tidegate::redis::{ConnectErrorKind, EventHook, RedisSettings, RedisStore, StoreEvent, StoreUrl};
use tidegate::store::Store as _;

#[cfg(feature = "rules")]
use super::engine::{EngineDecision, RedisEngine};
use super::server::{RedisServer, wait_until};
use super::setup::{Cacheable, LONG, StoreExt, charge, check, counter, plan};
#[cfg(feature = "rules")]
use super::without_runtime::runtime;

fn settings(url: &str) -> RedisSettings {
    let mut settings = RedisSettings::try_from(url).unwrap();
    settings.timeout = LONG;
    settings
}

#[tokio::test]
async fn local_errors_are_reported_at_once() {
    let error = RedisStore::connect_lazy("redis://:s3cret@host:port").err().unwrap();
    assert_eq!(error.kind(), ConnectErrorKind::BadUrl);
    assert!(error.to_string().contains("hint: ") && !error.to_string().contains("s3cret"), "{error}");
    let error = RedisStore::connect("http://10.0.0.7".to_owned()).await.err().unwrap();
    assert_eq!(error.kind(), ConnectErrorKind::BadUrl);

    let mut tls = settings("rediss://127.0.0.1:1");
    tls.ca_file = Some("no/such/file.pem".into());
    let error = RedisStore::connect_lazy(tls).err().unwrap();
    assert_eq!(error.kind(), ConnectErrorKind::Tls);
    assert!(error.message().contains("no/such/file.pem"), "{error}");

    let url: StoreUrl = "redis://127.0.0.1:1".parse().unwrap();
    assert!(RedisStore::connect_lazy(url).is_ok());
}

#[tokio::test]
async fn a_lazy_store_is_used_once_redis_starts() {
    let mut server = RedisServer::start();
    server.kill();
    let store = RedisStore::connect_lazy(settings(&server.url())).unwrap();
    let counter = counter("lazy", "5 per 1000d");
    let check_one = || store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL);
    for _ in 0..10 {
        assert_eq!(check_one().await.unwrap_err(), StoreError::BreakerOpen);
    }
    assert_eq!((store.stats().failures.away, store.live_nodes().get()), (10, 1));

    server.restart();
    wait_until(async || check_one().await.ok()).await;
    assert_eq!(check(&store, "key", &counter, 1).await.remaining, 3);
    // Other nodes count it too, although its first heartbeats were lost.
    let other = RedisStore::connect(settings(&server.url())).await.unwrap();
    wait_until(async || (other.live_nodes().get() == 2 && store.live_nodes().get() == 2).then_some(())).await;
    assert_eq!(check(&other, "key", &counter, 1).await.remaining, 2);
}

#[cfg(feature = "rules")]
#[test]
fn an_engine_is_degraded_until_redis_starts() {
    let (mut server, runtime) = (RedisServer::start(), runtime());
    server.kill();
    let store = {
        let _entered = runtime.enter();
        RedisStore::connect_lazy(settings(&server.url())).unwrap()
    };
    let engine = RedisEngine::new(store.clone());
    assert_eq!(engine.decide_blocking(), EngineDecision { passes: true, degraded: true });
    server.restart();
    let is_connected = || store.stats().servers.servers[0].breaker == tidegate::redis::BreakerState::Closed;
    runtime.block_on(wait_until(async || is_connected().then_some(())));
    for passes in [true, true, true, true, true, false] {
        assert_eq!(engine.decide_blocking(), EngineDecision { passes, degraded: false });
    }
}

#[tokio::test]
async fn a_wrong_password_is_in_the_events_and_in_the_stats() {
    let server = RedisServer::start_with(&["--requirepass", "right"]);
    let events: Arc<Mutex<Vec<StoreEvent>>> = Arc::default();
    let mut settings = settings(&format!("redis://:wr0ng@{}", server.address()));
    settings.timeout = Duration::from_secs(5);
    let hook = events.clone();
    settings.on_event = Some(EventHook::new(move |event| hook.lock().unwrap().push(event)));
    let store = RedisStore::connect_lazy(settings).unwrap();
    let error = wait_until(async || store.stats().servers.servers[0].connect_error.clone()).await;
    assert_eq!(error.kind(), ConnectErrorKind::AccessDenied);
    let event = wait_until(async || events.lock().unwrap().first().map(ToString::to_string)).await;
    assert!(event.contains(&server.address()) && event.contains("WRONGPASS"), "{event}");
    assert!(!event.contains("wr0ng") && !error.to_string().contains("wr0ng"), "{event} {error}");
    let counter = counter("denied", "5 per 1000d");
    let result = store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL).await;
    assert_eq!(result.unwrap_err(), StoreError::BreakerOpen);
}
