//! The store lives on one runtime, and is asked by a thread that is on none.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tidegate::{Cacheable, SharedStore, StoreFailure};
use tokio::runtime::Runtime;

use super::cluster::RedisCluster;
use super::server::RedisServer;
use super::setup::{charge, counter, decision, plan, remaining, store, store_with};

/// What stores live on. The thread of the test is not on it.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Waits with nothing but the thread at hand.
fn block_on<F: Future>(future: F) -> F::Output {
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
fn a_thread_without_a_runtime_is_answered() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let (store, counter) = (runtime.block_on(store(&server.url())), counter("plain", "5 per 1000d"));
    let plan = plan(&[charge("key", &counter, 2)]);
    assert_eq!(decision(block_on(store.check(&plan, Cacheable::ALL))).remaining, 3);
    block_on(store.refund(&plan)).unwrap();
    assert_eq!(block_on(remaining(&store, "key", &counter)), 5);
    block_on(store.reset(&plan)).unwrap();
}

#[test]
fn a_thread_without_a_runtime_is_told_when_its_time_is_over() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let store = runtime.block_on(store_with(&server.url(), Duration::from_millis(200)));
    let counter = counter("late", "5 per 1000d");
    server.stop();
    let failed = block_on(store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL)).unwrap_err();
    assert!(matches!(failed, StoreFailure::TimedOut | StoreFailure::Away), "{failed}");
}

#[test]
fn a_store_whose_runtime_has_ended_answers_that_it_cannot() {
    let (server, runtime) = (RedisServer::start(), runtime());
    let (store, counter) = (runtime.block_on(store(&server.url())), counter("gone", "5 per 1000d"));
    let check = || store.check(&plan(&[charge("key", &counter, 1)]), Cacheable::ALL);
    block_on(check()).unwrap();
    let asked = check();
    drop(runtime);
    // This one may have been answered before.
    let _ = block_on(asked);
    block_on(check()).unwrap_err();
}

#[test]
fn a_thread_without_a_runtime_asks_for_keys_in_several_places() {
    let runtime = runtime();
    let cluster = runtime.block_on(RedisCluster::start());
    let store = runtime.block_on(store(&cluster.url()));
    let counter = counter("spread", "5 per 1000d");
    let plan = plan(&[charge("a", &counter, 1), charge("b", &counter, 2)]);
    assert_eq!(decision(block_on(store.check(&plan, Cacheable::ALL))).remaining, 3);
    assert_eq!(store.stats().splits, 1);
    block_on(store.refund(&plan)).unwrap();
    assert_eq!(block_on(remaining(&store, "b", &counter)), 5);
}

#[cfg(feature = "rules")]
#[test]
fn an_engine_blocks_a_thread_without_a_runtime() {
    use tidegate::rules::{self, Descriptor, Entry, Request};
    use tidegate::{Engine, MemoryStore, SystemClock};

    let (server, runtime) = (RedisServer::start(), runtime());
    let file = "domain: api\nrules:\n  - name: one\n    key: [user]\n    limits: [5 per day]\n";
    let domains = rules::parse("rules.yaml", file).unwrap_or_else(|report| panic!("{report}")).domains;
    let store = runtime.block_on(store(&server.url()));
    let engine = Engine::over(domains, Arc::new(MemoryStore::bounded(1 << 20)), SystemClock::default());
    let engine = engine.unwrap().sharing(Arc::new(store));
    let entries = [Entry { key: "user", value: "ann" }];
    let descriptors = [Descriptor::new(&entries, 1)];
    let request = Request { domain: "api", descriptors: &descriptors };
    for passes in [true, true, true, true, true, false] {
        let decided = engine.decide_blocking(&request, |decided| {
            assert!(!decided.answer.degraded);
            decided.answer.fate.passes()
        });
        assert_eq!(decided.unwrap(), passes);
    }
}
