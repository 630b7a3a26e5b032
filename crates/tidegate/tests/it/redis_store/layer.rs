//! The layer for servers, over a store on Redis.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tidegate::redis::RedisStore;
use tidegate::store::Fallback;
use tidegate::tower::server::{OneKey, RateLimitLayer};
use tidegate::{Limiter, MemoryStore, OnStoreFailure};
use tower::{Layer, Service, service_fn};

use super::server::{RedisServer, wait_until};
use super::setup::stores;
use crate::tower::{EmptyRequest, call, get, text_response};

fn handler()
-> impl Service<EmptyRequest, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> + Clone {
    service_fn(|_: EmptyRequest| std::future::ready(Ok(text_response("ok"))))
}

fn by_limits(
    limit: &'static str,
    store: RedisStore,
) -> impl Service<EmptyRequest, Response: Into<Outcome>, Error = Infallible> + Clone {
    let store = Fallback::new(store, Arc::new(MemoryStore::bounded(1 << 20)));
    let builder = Limiter::builder().rule("layer").limit(limit).store(store);
    let limiter = builder.on_store_failure(OnStoreFailure::Deny).build().unwrap();
    RateLimitLayer::new(limiter, OneKey).layer(handler())
}

/// A response that is not over: as long as it exists, it holds its slot.
struct Outcome {
    status: u16,
    remaining: Option<String>,
    _body: Box<dyn Send>,
}

impl<B: Send + 'static> From<Response<B>> for Outcome {
    fn from(response: Response<B>) -> Self {
        let (head, body) = response.into_parts();
        let remaining = head.headers.get("x-ratelimit-remaining");
        let remaining = remaining.map(|value| value.to_str().unwrap().to_owned());
        Self { status: head.status.as_u16(), remaining, _body: Box::new(body) }
    }
}

async fn ask<S>(service: &S, uri: &str) -> Outcome
where
    S: Service<EmptyRequest, Response: Into<Outcome>, Error = Infallible> + Clone,
{
    call(service, get(uri)).await.into()
}

/// Asks two nodes in turn. Their limit admits three requests.
async fn assert_three_pass<S>(services: &[S], uri: &str)
where
    S: Service<EmptyRequest, Response: Into<Outcome>, Error = Infallible> + Clone,
{
    let mut outcomes = Vec::new();
    for index in 0..5 {
        let outcome = ask(&services[index % 2], uri).await;
        outcomes.push((outcome.status, outcome.remaining.unwrap()));
    }
    let expected = [(200, "2"), (200, "1"), (200, "0"), (429, "0"), (429, "0")];
    assert_eq!(outcomes, expected.map(|(status, remaining)| (status, remaining.to_owned())));
}

/// One request holds the only slot, which the other node gets when the response is over.
async fn assert_slot_is_shared<S>(services: &[S], uri: &str)
where
    S: Service<EmptyRequest, Response: Into<Outcome>, Error = Infallible> + Clone,
{
    let held = ask(&services[0], uri).await;
    assert_eq!(held.status, 200);
    assert_eq!(ask(&services[1], uri).await.status, 429);
    drop(held);
    // The release is sent in the background.
    wait_until(async || (ask(&services[1], uri).await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn nodes_share_limits_and_slots() {
    let server = RedisServer::start();
    let nodes = async |limit: &'static str| -> Vec<_> {
        let stores = stores(&server.url(), 2).await;
        stores.into_iter().map(|store| by_limits(limit, store)).collect()
    };
    assert_slot_is_shared(&nodes("{algorithm: concurrency, limit: 1, ttl: 60s}").await, "/").await;
    let (services, others) = (nodes("3 per 1000d").await, nodes("3 per 1000d").await);
    assert_three_pass(&services, "/").await;
    drop(server);
    assert_eq!(ask(&services[0], "/").await.status, 429, "the node remembers the denial");
    assert_eq!(ask(&others[0], "/").await.status, 503, "Redis is away, and the policy is to deny");
}

#[cfg(feature = "rules")]
#[tokio::test]
async fn nodes_share_limits_and_slots_of_rules() {
    use tidegate::{Engine, SystemClock, rules};

    const RULES: &str = "
domain: api
rules:
  - { name: pages, match: { path: / }, limit: 3 per 1000d }
  - { name: reports, match: { path: /report }, limit: { algorithm: concurrency, limit: 1, ttl: 60s } }
";
    let server = RedisServer::start();
    let by_rules = |store| {
        let domains = rules::parse("api.yaml", RULES).unwrap().domains;
        let store = Fallback::new(store, Arc::new(MemoryStore::bounded(1 << 20)));
        let engine = Engine::with_store(domains, store, SystemClock::default()).unwrap();
        RateLimitLayer::by_rules(engine, "api").layer(handler())
    };
    let services: Vec<_> = stores(&server.url(), 2).await.into_iter().map(by_rules).collect();
    assert_three_pass(&services, "/").await;
    assert_slot_is_shared(&services, "/report").await;
}
