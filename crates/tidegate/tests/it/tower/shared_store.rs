//! Servers whose limits are in a shared store, which answers immediately, later, or not at all.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use tidegate::store::Fallback;
use tidegate::tower::server::{OneKey, RateLimitLayer, RequestAnswer};
use tidegate::{Limiter, ManualClock, MemoryStore, OnStoreFailure, StoreError, Timestamp};
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};
use tower::{Layer, Service, service_fn};

use super::{EmptyRequest, call, get, text, text_response};
use crate::executor::Executor;

const STORE_DOWN: StoreBehavior = StoreBehavior::Fail(StoreError::TimedOut);

type SharedStore = Fallback<FakeStore<ManualClock>>;

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_nanos(1_800_000_000_000_000_000))
}

/// This node, as it uses the store.
fn node(remote: &FakeStore<ManualClock>) -> SharedStore {
    Fallback::new(remote.clone(), Arc::new(MemoryStore::bounded(1 << 20)))
}

fn limiter(
    limit: &str,
    on_failure: OnStoreFailure,
    remote: &FakeStore<ManualClock>,
    clock: &ManualClock,
) -> Limiter<ManualClock, SharedStore> {
    let builder = Limiter::builder().store(node(remote)).clock(clock.clone()).limit(limit);
    builder.on_store_failure(on_failure).build().unwrap()
}

/// Answers `degraded` if the request is marked so, and else `ok`.
fn handler()
-> impl Service<EmptyRequest, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> + Clone {
    service_fn(|request: EmptyRequest| {
        let is_degraded = request.extensions().get::<RequestAnswer>().is_some_and(|answer| answer.degraded);
        std::future::ready(Ok(text_response(if is_degraded { "degraded" } else { "ok" })))
    })
}

fn grpc_call(path: &str) -> EmptyRequest {
    let request = Request::post(path).header("content-type", "application/grpc");
    request.body(Empty::<Bytes>::new()).unwrap()
}

/// Makes two requests before the store replies to the first. The limit admits one.
fn assert_one_of_two_passes<S>(service: &S, remote: &FakeStore<ManualClock>, clock: &ManualClock)
where
    S: Service<EmptyRequest, Error = Infallible> + Clone,
    S::Response: Into<Status>,
{
    remote.set_behavior(StoreBehavior::ReplyLater);
    let mut executor = Executor::new(clock);
    let tasks = [(); 2].map(|()| executor.spawn(async { call(service, get("/")).await.into() }));
    executor.run_woken();
    assert!(tasks.iter().all(|task| executor.finished(*task).is_none()), "the store has not replied");
    remote.release_replies();
    executor.run_woken();
    assert_eq!(tasks.map(|task| executor.take(task)), [Some(Status(200)), Some(Status(429))]);
    remote.set_behavior(StoreBehavior::Reply);
}

#[derive(Debug, PartialEq, Eq)]
struct Status(u16);

impl<B> From<Response<B>> for Status {
    fn from(response: Response<B>) -> Self {
        Self(response.status().as_u16())
    }
}

#[test]
fn a_request_waits_for_the_reply_of_the_store() {
    let (clock, remote) = (clock(), FakeStore::new(clock()));
    let limiter = limiter("1 per minute", OnStoreFailure::Local, &remote, &clock);
    let service = RateLimitLayer::new(limiter, OneKey).layer(handler());
    assert_one_of_two_passes(&service, &remote, &clock);
}

#[tokio::test]
async fn without_the_store_the_policy_decides() {
    let (clock, remote) = (clock(), FakeStore::new(clock()));
    let service = |on_failure| {
        let limiter = limiter("2 per minute", on_failure, &remote, &clock);
        RateLimitLayer::new(limiter, OneKey).layer(handler())
    };
    remote.set_behavior(STORE_DOWN);

    let denies = service(OnStoreFailure::Deny);
    let refused = call(&denies, get("/")).await;
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    assert!(refused.extensions().get::<RequestAnswer>().unwrap().degraded);
    assert!(text(refused).await.contains(r#""status":503"#));
    let refused = call(&denies, grpc_call("/shop.Shop/Buy")).await;
    assert_eq!(refused.headers()["grpc-status"], "14");
    assert_eq!(refused.headers()["grpc-retry-pushback-ms"], "1000");

    let local = service(OnStoreFailure::Local);
    let passed = call(&local, get("/")).await;
    assert!(passed.extensions().get::<RequestAnswer>().unwrap().degraded);
    assert_eq!(text(passed).await, "degraded");
    assert_eq!(call(&local, get("/")).await.status(), 200);
    let denied = call(&local, get("/")).await;
    assert_eq!(denied.status(), 429);
    assert!(denied.extensions().get::<RequestAnswer>().unwrap().degraded);

    let allows = service(OnStoreFailure::Allow);
    for _ in 0..3 {
        assert_eq!(text(call(&allows, get("/")).await).await, "degraded");
    }
}

#[tokio::test]
async fn slots_are_held_in_the_store() {
    let (clock, remote) = (clock(), FakeStore::new(clock()));
    let concurrency = "{algorithm: concurrency, limit: 1, ttl: 30s}";
    let services = [(); 2].map(|()| {
        let limiter = limiter(concurrency, OnStoreFailure::Deny, &remote, &clock);
        RateLimitLayer::new(limiter, OneKey).layer(handler())
    });
    let held = call(&services[0], get("/")).await;
    assert_eq!(held.status(), 200);
    assert_eq!(call(&services[1], get("/")).await.status(), 429, "the other node");
    drop(held);
    let mut status = 429;
    // The lease is released in the background.
    while status == 429 {
        tokio::task::yield_now().await;
        status = call(&services[1], get("/")).await.status().as_u16();
    }
    assert_eq!(status, 200);
}

#[cfg(feature = "rules")]
mod by_rules {
    use tidegate::config::MemoryConfigStore;
    use tidegate::overrides::{OverrideCache, OverrideChange, OverrideEditor, OverridePlace};
    use tidegate::rules::{Access, BlockStatus};
    use tidegate::tower::server::ByRules;
    use tidegate::{Clock as _, Engine, rules};

    use super::*;

    const RULES: &str = "
domain: api
rules:
  - { name: all, match: { path: / }, limit: 1 per minute }
  - { name: strict, match: { path: /strict }, limit: 9 per minute, on_store_failure: deny }
  - { name: open, match: { path: /open }, limit: 1 per minute, on_store_failure: allow }
  - { name: hosts, match: { path: /hosts }, key: [host], limit: 9 per minute }
  - { name: reports, match: { path: /report }, limit: { algorithm: concurrency, limit: 1, ttl: 30s } }
";

    fn engine(remote: &FakeStore<ManualClock>, clock: &ManualClock) -> Engine<ManualClock, SharedStore> {
        let domains = rules::parse("api.yaml", RULES).unwrap().domains;
        Engine::with_store(domains, node(remote), clock.clone()).unwrap()
    }

    fn layer(
        remote: &FakeStore<ManualClock>,
        clock: &ManualClock,
    ) -> RateLimitLayer<ByRules<ManualClock, SharedStore>> {
        RateLimitLayer::by_rules(engine(remote, clock), "api")
    }

    #[test]
    fn a_request_waits_for_the_reply_of_the_store() {
        let (clock, remote) = (clock(), FakeStore::new(clock()));
        let service = layer(&remote, &clock).layer(handler());
        assert_one_of_two_passes(&service, &remote, &clock);
    }

    #[tokio::test]
    async fn without_the_store_the_policy_decides() {
        let (clock, remote) = (clock(), FakeStore::new(clock()));
        let service = layer(&remote, &clock).layer(handler());
        remote.set_behavior(STORE_DOWN);
        let refused = call(&service, get("/strict")).await;
        assert_eq!(refused.status(), 503);
        assert!(refused.headers().contains_key("retry-after"));
        assert!(text(refused).await.contains(r#""status":503"#));
        assert_eq!(call(&service, grpc_call("/strict")).await.headers()["grpc-status"], "14");
        for _ in 0..3 {
            assert_eq!(text(call(&service, get("/open")).await).await, "degraded");
        }
        assert_eq!(text(call(&service, get("/")).await).await, "degraded");
        assert_eq!(call(&service, get("/")).await.status(), 429, "its share, in memory");
    }

    #[tokio::test]
    async fn slots_are_held_in_the_store() {
        let (clock, remote) = (clock(), FakeStore::new(clock()));
        let services = [(); 2].map(|()| layer(&remote, &clock).layer(handler()));
        let held = call(&services[0], get("/report")).await;
        assert_eq!(held.status(), 200);
        assert_eq!(call(&services[1], get("/report")).await.status(), 429, "the other node");
        drop(held);
        let mut status = 429;
        while status == 429 {
            tokio::task::yield_now().await;
            status = call(&services[1], get("/report")).await.status().as_u16();
        }
        assert_eq!(status, 200);
    }

    #[tokio::test]
    async fn a_key_that_an_override_forbids() {
        let (clock, remote) = (clock(), FakeStore::new(clock()));
        let spawn = Arc::new(|_| panic!("a store in memory answers immediately"));
        let overrides = OverrideCache::builder().build(Arc::new(MemoryConfigStore::bounded(1 << 20)), spawn);
        let overrides = Arc::new(overrides);
        overrides.tick(clock.now());
        let engine = engine(&remote, &clock).with_overrides(Arc::clone(&overrides));
        let place = OverridePlace {
            domain: "api".into(),
            rule: "hosts".into(),
            limit_name: None,
            key: vec![("host".into(), "evil.example".into())],
        };
        let access = Access::Blocked(BlockStatus::Forbidden);
        let change = OverrideChange { access, ..OverrideChange::default() };
        let active = engine.rules();
        OverrideEditor::new(&overrides, &active).set(&place, &change, None, clock.now()).await.unwrap();
        while overrides.follow_changes().await.unwrap().has_more {}

        let service = RateLimitLayer::by_rules(engine, "api").layer(handler());
        assert_eq!(call(&service, get("http://good.example/hosts")).await.status(), 200);
        let forbidden = call(&service, get("http://evil.example/hosts")).await;
        assert_eq!(forbidden.status(), 403);
        assert!(text(forbidden).await.contains(r#""status":403"#));
        let forbidden = call(&service, grpc_call("http://evil.example/hosts")).await;
        assert_eq!(forbidden.headers()["grpc-status"], "7");
    }
}
