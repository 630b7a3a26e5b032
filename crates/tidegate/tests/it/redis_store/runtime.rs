//! The runtime of a store, and the replies when that runtime is missing, not driven or gone.

use std::time::Duration;

use tidegate::StoreError;
use tidegate::redis::{ConnectError, ConnectErrorKind, RedisSettings, RedisStore, StoreRuntime};
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "rules")]
use super::engine::{EngineDecision, RedisEngine};
use super::server::{RedisServer, wait_until};
use super::setup::{Cacheable, StoreExt, charge, counter, decision, plan, remaining, store, store_with};
use super::without_runtime::{block_on, runtime};

/// Short enough to wait for, long enough to connect.
const SHORT: Duration = Duration::from_millis(200);

/// A runtime that runs only within `block_on`.
fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn connecting_without_a_runtime_is_an_error() {
    let is_no_runtime = |error: ConnectError| {
        assert_eq!(error.kind(), ConnectErrorKind::NoRuntime);
        assert!(error.to_string().contains("redis://127.0.0.1:1 "), "{error}");
        assert!(error.hint().contains("StoreRuntime::Own"), "{error}");
    };
    is_no_runtime(block_on(RedisStore::connect("redis://127.0.0.1:1")).err().unwrap());
    is_no_runtime(RedisStore::connect_lazy("redis://127.0.0.1:1").err().unwrap());
}

#[test]
fn a_runtime_that_is_not_driven_delays_no_answer_beyond_its_deadline() {
    let (server, undriven, other) = (RedisServer::start(), current_thread(), runtime());
    let (store, counter) =
        (undriven.block_on(store_with(&server.url(), SHORT)), counter("undriven", "5 per 1000d"));
    let plan = plan(&[charge("key", &counter, 1)]);
    let check = || store.check(&plan, Cacheable::ALL);
    // Without a runtime, on another one, and on a thread that blocks the store's runtime.
    assert_eq!(block_on(check()).unwrap_err(), StoreError::TimedOut);
    assert_eq!(other.block_on(check()).unwrap_err(), StoreError::TimedOut);
    assert_eq!(undriven.block_on(async { block_on(check()) }).unwrap_err(), StoreError::TimedOut);
    assert_eq!(block_on(store.acquire(&plan, None)).unwrap_err(), StoreError::TimedOut);
    assert_eq!(block_on(store.refund(&plan)).unwrap_err(), StoreError::TimedOut);
    assert_eq!(store.stats().failures.timed_out, 5);
    // When the runtime is driven again, Redis is called again. A late plan is not charged.
    let empty_plan = super::setup::plan(&[charge("key", &counter, 0)]);
    let peeked = undriven.block_on(wait_until(async || store.peek(&empty_plan).await.ok()));
    assert_eq!(decision(Ok(peeked)).remaining, 5);
}

#[cfg(feature = "rules")]
#[test]
fn an_engine_decides_without_a_store_whose_runtime_is_not_driven() {
    let (server, undriven) = (RedisServer::start(), current_thread());
    let engine = RedisEngine::new(undriven.block_on(store_with(&server.url(), SHORT)));
    for passes in [true, true, true, true, true, false] {
        assert_eq!(engine.decide_blocking(), EngineDecision { passes, degraded: true });
    }
}

#[test]
fn a_runtime_that_was_dropped_is_an_error_of_its_own() {
    for runtime in [runtime(), current_thread()] {
        let server = RedisServer::start();
        let (store, counter) = (runtime.block_on(store(&server.url())), counter("gone", "5 per 1000d"));
        let check = || store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL);
        runtime.block_on(check()).unwrap();
        let pending = check();
        drop(runtime);
        // On a runtime with threads, this call may have completed before.
        if let Err(failure) = block_on(pending) {
            assert_eq!(failure, StoreError::RuntimeGone);
        }
        assert_eq!(block_on(check()).unwrap_err(), StoreError::RuntimeGone);
        assert_eq!(block_on(store.wait_for_refunds(SHORT)), 0);
        let failures = store.stats().failures;
        assert!(failures.runtime_gone >= 1 && failures.total() == failures.runtime_gone, "{failures:?}");
        assert!(failures.by_reason().contains(&("runtime_gone", failures.runtime_gone)));
        assert!(StoreError::RuntimeGone.to_string().contains("hint: "));
    }
}

#[test]
fn a_store_with_a_runtime_of_its_own_needs_no_other() {
    let (server, caller) = (RedisServer::start(), current_thread());
    let mut settings = RedisSettings::try_from(server.url()).unwrap();
    settings.timeout = Duration::from_secs(60);
    settings.runtime = StoreRuntime::Own;
    let connected = block_on(RedisStore::connect(settings.clone())).unwrap();
    let lazy = RedisStore::connect_lazy(settings).unwrap();
    let counter = counter("own", "5 per 1000d");
    let plan = plan(&[charge("key", &counter, 1)]);
    assert_eq!(decision(block_on(connected.check(&plan, Cacheable::ALL))).remaining, 4);
    caller.block_on(wait_until(async || lazy.check(&plan, Cacheable::ALL).await.ok()));
    assert_eq!(block_on(remaining(&lazy, "key", &counter)), 3);

    // Its tasks end with it.
    drop((connected, lazy));
    caller.block_on(wait_until(async || {
        let clients: String = server.run_command("CLIENT LIST TYPE normal").await;
        (clients.lines().count() == 1).then_some(())
    }));
}
