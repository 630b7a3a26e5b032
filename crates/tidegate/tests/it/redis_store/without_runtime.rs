//! The store runs on one runtime, and a thread without a runtime calls it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tidegate::StoreError;
use tokio::runtime::Runtime;

use super::cluster::RedisCluster;
#[cfg(feature = "rules")]
use super::engine::{EngineDecision, RedisEngine};
use super::server::RedisServer;
use super::setup::{Cacheable, StoreExt, charge, counter, decision, plan, remaining, store, store_with};

/// The runtime of the stores. The test thread is not on it.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Blocks without a runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_thread_without_a_runtime_gets_a_reply() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let (store, counter) = (runtime.block_on(store(&server.url())), counter("plain", "5 per 1000d"));
    let plan = plan(&[charge("key", &counter, 2)]);
    assert_eq!(decision(block_on(store.check(&plan, Cacheable::ALL))).remaining, 3);
    block_on(store.refund(&plan)).unwrap();
    assert_eq!(block_on(remaining(&store, "key", &counter)), 5);
    block_on(store.reset(&plan)).unwrap();
}

#[test]
fn a_thread_without_a_runtime_gets_a_timeout() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let store = runtime.block_on(store_with(&server.url(), Duration::from_millis(200)));
    let counter = counter("late", "5 per 1000d");
    server.pause();
    let failed = block_on(store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL)).unwrap_err();
    assert!(matches!(failed, StoreError::TimedOut | StoreError::BreakerOpen), "{failed}");
}

#[test]
fn a_thread_without_a_runtime_checks_a_split_plan() {
    let runtime = runtime();
    let cluster = runtime.block_on(RedisCluster::start());
    let store = runtime.block_on(store(&cluster.url()));
    let counter = counter("spread", "5 per 1000d");
    let plan = plan(&[charge("a", &counter, 1), charge("b", &counter, 2)]);
    assert_eq!(decision(block_on(store.check(&plan, Cacheable::ALL))).remaining, 3);
    assert_eq!(store.stats().splits, 1);
    block_on(store.refund(&plan)).unwrap();
    assert_eq!(block_on(remaining(&store, "b", &counter)), 5);
    drop(runtime);
    for failure in [
        block_on(store.check(&plan, Cacheable::ALL)).unwrap_err(),
        block_on(store.refund(&plan)).unwrap_err(),
    ] {
        assert_eq!(failure, StoreError::RuntimeGone);
    }
}

#[cfg(feature = "rules")]
#[test]
fn an_engine_blocks_a_thread_without_a_runtime() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let engine = RedisEngine::new(runtime.block_on(store(&server.url())));
    for passes in [true, true, true, true, true, false] {
        assert_eq!(engine.decide_blocking(), EngineDecision { passes, degraded: false });
    }
}
