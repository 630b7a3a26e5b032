//! Slots of concurrency limits: held until the response body ends or the client is gone, and renewed until then.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tidegate::tower::server::{OneKey, RateLimitLayer};
use tidegate::{Limiter, ManualClock, Timestamp};
use tokio::sync::mpsc;
use tower::{Layer, Service, service_fn};

use super::{EmptyRequest, call, get};

const LIMIT: &str = "{algorithm: concurrency, limit: 1, ttl: 30s}";
/// How often a test looks whether a background task has done its work.
const LOOKS_MAX: u32 = 10_000;

/// A body that ends when its sender is dropped.
#[derive(Debug)]
struct OpenBody(mpsc::Receiver<Bytes>);

impl Body for OpenBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

/// Senders of the bodies of all responses so far.
type Senders = Arc<Mutex<Vec<mpsc::Sender<Bytes>>>>;

fn open_responses(
    senders: &Senders,
) -> impl Service<EmptyRequest, Response = Response<OpenBody>, Error = Infallible, Future: Send> + Clone {
    let senders = Arc::clone(senders);
    service_fn(move |_: EmptyRequest| {
        let (sender, receiver) = mpsc::channel(8);
        senders.lock().unwrap().push(sender);
        std::future::ready(Ok(Response::new(OpenBody(receiver))))
    })
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_nanos(1_800_000_000_000_000_000))
}

fn limiter(clock: &ManualClock) -> Arc<Limiter<ManualClock>> {
    Arc::new(Limiter::builder().limit(LIMIT).clock(clock.clone()).build().unwrap())
}

#[tokio::test]
async fn a_slot_is_free_again_when_the_body_has_ended() {
    let senders = Senders::default();
    let service = RateLimitLayer::new(limiter(&clock()), OneKey).layer(open_responses(&senders));
    let mut first = call(&service, get("/")).await;
    assert_eq!(first.status(), 200);
    assert_eq!(call(&service, get("/")).await.status(), 429);
    let sender = senders.lock().unwrap().pop().unwrap();
    sender.send(Bytes::from_static(b"part")).await.unwrap();
    assert_eq!(first.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "part");
    assert_eq!(call(&service, get("/")).await.status(), 429, "the body goes on");
    drop(sender);
    assert!(first.body_mut().frame().await.is_none());
    assert_eq!(call(&service, get("/")).await.status(), 200, "although the response still exists");
}

#[tokio::test]
async fn a_slot_is_held_by_a_body_whose_type_is_kept() {
    let senders = Senders::default();
    let open = open_responses(&senders);
    let boxed = service_fn(move |request: EmptyRequest| {
        let mut open = open.clone();
        async move { open.call(request).await.map(|response| response.map(UnsyncBoxBody::new)) }
    });
    let layer = RateLimitLayer::new(limiter(&clock()), OneKey).keep_body(UnsyncBoxBody::new);
    let service = layer.layer(boxed);
    let mut first: Response<UnsyncBoxBody<Bytes, Infallible>> = call(&service, get("/")).await;
    assert_eq!(first.status(), 200);
    let denied = call(&service, get("/")).await;
    assert_eq!(denied.status(), 429);
    assert!(super::text(denied).await.contains(r#""status":429"#));
    senders.lock().unwrap().clear();
    assert!(first.body_mut().frame().await.is_none());
    assert_eq!(call(&service, get("/")).await.status(), 200, "although the response still exists");
}

#[tokio::test]
async fn a_slot_is_free_again_when_the_client_goes_away() {
    let senders = Senders::default();
    let service = RateLimitLayer::new(limiter(&clock()), OneKey).layer(open_responses(&senders));
    let response = call(&service, get("/")).await;
    assert_eq!(call(&service, get("/")).await.status(), 429);
    drop(response);
    assert_eq!(call(&service, get("/")).await.status(), 200);
}

#[tokio::test]
async fn a_slot_is_free_again_when_the_request_is_cancelled() {
    let service =
        service_fn(|_: EmptyRequest| std::future::pending::<Result<Response<OpenBody>, Infallible>>());
    let limiter = limiter(&clock());
    let mut service = RateLimitLayer::new(Arc::clone(&limiter), OneKey).layer(service);
    let request = tokio::spawn(service.call(get("/")));
    while limiter.peek("", 1).is_allowed() {
        tokio::task::yield_now().await;
    }
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    assert!(limiter.peek("", 1).is_allowed());
}

#[tokio::test]
async fn a_slot_is_renewed_for_as_long_as_the_body_lasts() {
    let (clock, senders) = (clock(), Senders::default());
    let limiter = limiter(&clock);
    let service = RateLimitLayer::new(Arc::clone(&limiter), OneKey).layer(open_responses(&senders));
    let response = call(&service, get("/")).await;
    // Three times its ttl, in steps after which the background task has renewed it.
    for step in 1..=10_u32 {
        let next = wait_for(|| clock.next_wake().filter(|_| clock.sleepers() == 1)).await;
        clock.set(next);
        wait_for(|| clock.next_wake().filter(|wake| *wake > next)).await;
        assert!(!limiter.peek("", 1).is_allowed(), "after renewal {step}");
    }
    drop(response);
    assert!(limiter.peek("", 1).is_allowed());
    // Without slots there is nothing to renew.
    clock.advance(Duration::from_secs(60));
    wait_for(|| (clock.sleepers() == 0).then_some(())).await;
}

async fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS_MAX {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it did not happen");
}

/// One request at a time for each path.
#[cfg(feature = "rules")]
fn layer_by_rules(clock: &ManualClock) -> RateLimitLayer<tidegate::tower::server::ByRules<ManualClock>> {
    use tidegate::{Engine, MemoryStore, rules};

    let rules = "
domain: api
rules:
  - { name: reports, key: [path], limit: { algorithm: concurrency, limit: 1, ttl: 30s } }
";
    let domains = rules::parse("api.yaml", rules).unwrap().domains;
    let engine = Engine::with_store(domains, Arc::new(MemoryStore::bounded(1 << 24)), clock.clone()).unwrap();
    RateLimitLayer::by_rules(engine, "api")
}

/// A server or an outer layer may drop a response future that it has never polled.
#[tokio::test]
async fn a_slot_is_free_again_when_a_request_is_dropped_before_its_first_poll() {
    let senders = Senders::default();
    let mut service = RateLimitLayer::new(limiter(&clock()), OneKey).layer(open_responses(&senders));
    drop(service.call(get("/a")));
    assert_eq!(call(&service, get("/a")).await.status(), 200);
    #[cfg(feature = "rules")]
    {
        let mut service = layer_by_rules(&clock()).layer(open_responses(&senders));
        drop(service.call(get("/a")));
        assert_eq!(call(&service, get("/a")).await.status(), 200);
    }
}

#[cfg(feature = "rules")]
#[tokio::test]
async fn slots_of_rules_are_held_and_renewed_too() {
    let (clock, senders) = (clock(), Senders::default());
    let service = layer_by_rules(&clock).layer(open_responses(&senders));
    let response = call(&service, get("/a")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(call(&service, get("/a")).await.status(), 429);
    assert_eq!(call(&service, get("/b")).await.status(), 200);
    for _ in 0..4 {
        let next = wait_for(|| clock.next_wake()).await;
        clock.set(next);
        wait_for(|| clock.next_wake().filter(|wake| *wake > next)).await;
    }
    assert_eq!(call(&service, get("/a")).await.status(), 429, "held for longer than its ttl");
    drop(response);
    assert_eq!(call(&service, get("/a")).await.status(), 200);
}
