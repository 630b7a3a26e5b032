//! The cache of a client, on a manual clock.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Empty, Full};
use tidegate::tower::client::CacheLayer;
use tidegate::{ManualClock, Timestamp};
use tower::{Layer, service_fn};

use super::{EmptyRequest, call, get, text};

type Lines = &'static [(&'static str, &'static str)];

/// A server that counts its requests and answers each with its number, or 304 if the ETag is still `"1"`.
fn server(
    lines: Lines,
) -> (
    impl tower::Service<EmptyRequest, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static,
    Arc<Mutex<u32>>,
) {
    let requests = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&requests);
    let service = service_fn(move |request: EmptyRequest| {
        let mut requests = counted.lock().unwrap();
        *requests += 1;
        let mut response = Response::builder();
        for (name, value) in lines {
            response = response.header(*name, *value);
        }
        let is_known = request.headers().get("if-none-match").is_some_and(|etag| etag == "\"1\"");
        let response = match is_known {
            true => response.status(304).body(Full::default()),
            false => response.body(Full::from(requests.to_string())),
        };
        std::future::ready(Ok(response.unwrap()))
    });
    (service, requests)
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_nanos(1_800_000_000_000_000_000))
}

/// The texts of responses to requests with these seconds between them.
async fn texts_with(lines: Lines, pauses: &[u64], request: impl Fn() -> EmptyRequest) -> (Vec<String>, u32) {
    let clock = clock();
    let (service, requests) = server(lines);
    let service = CacheLayer::new().clock(clock.clone()).layer(service);
    let mut texts = Vec::new();
    for pause in pauses {
        clock.advance(Duration::from_secs(*pause));
        texts.push(text(call(&service, request()).await).await);
    }
    let requests = *requests.lock().unwrap();
    (texts, requests)
}

async fn texts(lines: Lines, pauses: &[u64]) -> (Vec<String>, u32) {
    texts_with(lines, pauses, || get("http://api/x")).await
}

#[tokio::test]
async fn a_fresh_response_is_used_again() {
    assert_eq!(
        texts(&[("cache-control", "max-age=60")], &[0, 0, 59, 1, 0]).await,
        (owned(["1", "1", "1", "2", "2"]), 2)
    );
    // It was 50 seconds old when it came.
    let aged = &[("cache-control", "max-age=60"), ("age", "50")];
    assert_eq!(texts(aged, &[0, 9, 1]).await, (owned(["1", "1", "2"]), 2));
}

#[tokio::test]
async fn what_must_not_be_stored_is_not() {
    for lines in [
        &[][..],
        &[("cache-control", "no-store, max-age=60")],
        &[("cache-control", "max-age=0")],
        &[("cache-control", "max-age=60"), ("vary", "*")],
        &[("cache-control", "max-age=60"), ("set-cookie", "a=1")],
        &[("expires", "0")],
        &[("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")],
    ] {
        // Leaked, because the lines of a test are constant.
        let lines: Lines = lines.to_vec().leak();
        assert_eq!(texts(lines, &[0, 0]).await, (owned(["1", "2"]), 2), "{lines:?}");
    }
}

#[tokio::test]
async fn a_stale_response_is_asked_for_by_its_etag() {
    let lines = &[("cache-control", "max-age=10"), ("etag", "\"1\"")];
    // The second is fresh, the third is confirmed, the fourth is fresh again.
    assert_eq!(texts(lines, &[0, 5, 6, 5]).await, (owned(["1", "1", "1", "1"]), 2));
    let no_cache = &[("cache-control", "no-cache"), ("etag", "\"1\"")];
    assert_eq!(texts(no_cache, &[0, 0, 0]).await, (owned(["1", "1", "1"]), 3));
}

#[tokio::test]
async fn a_request_can_demand_more() {
    let lines: Lines = &[("cache-control", "max-age=60")];
    for (directive, requests) in [
        ("max-age=5", 2),
        ("no-cache", 2),
        ("no-store", 2),
        ("min-fresh=55", 2),
        ("max-age=20", 1),
        ("max-stale", 1),
    ] {
        let clock = clock();
        let (service, counted) = server(lines);
        let service = CacheLayer::new().clock(clock.clone()).layer(service);
        text(call(&service, get("http://api/x")).await).await;
        clock.advance(Duration::from_secs(10));
        let mut request = get("http://api/x");
        request.headers_mut().insert("cache-control", directive.parse().unwrap());
        text(call(&service, request).await).await;
        assert_eq!(*counted.lock().unwrap(), requests, "{directive}");
    }
    let mut request = get("http://api/x");
    request.headers_mut().insert("cache-control", "only-if-cached".parse().unwrap());
    let (service, _) = server(lines);
    let service = CacheLayer::new().clock(clock()).layer(service);
    assert_eq!(call(&service, request).await.status(), 504);
}

#[tokio::test]
async fn users_and_variants_are_kept_apart() {
    for (lines, header) in [
        (&[("cache-control", "max-age=60")][..], "authorization"),
        (&[("cache-control", "max-age=60")], "cookie"),
        (&[("cache-control", "max-age=60"), ("vary", "Accept, X-Plan")], "x-plan"),
    ] {
        let (service, _) = server(lines.to_vec().leak());
        let service = CacheLayer::new().clock(clock()).layer(service);
        let read = async |value: &'static str| {
            let mut request = get("http://api/x");
            request.headers_mut().insert(header, value.parse().unwrap());
            text(call(&service, request).await).await
        };
        assert_eq!(
            (read("ann").await, read("ann").await, read("bob").await),
            owned3("1", "1", "2"),
            "{header}"
        );
    }
}

#[tokio::test]
async fn a_change_removes_the_response() {
    let (service, _) = server(&[("cache-control", "max-age=60")]);
    let service = CacheLayer::new().clock(clock()).layer(service);
    let read = async || text(call(&service, get("http://api/x")).await).await;
    assert_eq!(read().await, "1");
    let change = Request::builder().method(Method::PUT).uri("http://api/x").body(Empty::new()).unwrap();
    call(&service, change).await;
    assert_eq!(read().await, "3");
}

#[tokio::test]
async fn a_response_that_is_not_read_to_the_end_is_not_stored() {
    let (service, _) = server(&[("cache-control", "max-age=60")]);
    let service = CacheLayer::new().clock(clock()).layer(service);
    drop(call(&service, get("http://api/x")).await);
    assert_eq!(text(call(&service, get("http://api/x")).await).await, "2");
    // One that is shorter than it says is not either.
    let (service, _) = server(&[("cache-control", "max-age=60"), ("content-length", "100")]);
    let service = CacheLayer::new().clock(clock()).layer(service);
    for expected in ["1", "2"] {
        assert_eq!(text(call(&service, get("http://api/x")).await).await, expected);
    }
}

/// A body of these frames.
struct Frames(VecDeque<io::Result<Frame<Bytes>>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.pop_front())
    }
}

#[tokio::test]
async fn a_response_whose_body_fails_is_not_stored() {
    let failing = service_fn(|_: EmptyRequest| {
        let frames = [Ok(Frame::data(Bytes::from("half"))), Err(io::Error::other("reset"))];
        let response = Response::builder().header("cache-control", "max-age=60");
        std::future::ready(Ok::<_, Infallible>(response.body(Frames(frames.into())).unwrap()))
    });
    let service = CacheLayer::new().clock(clock()).layer(failing);
    for _ in 0..2 {
        let mut body = call(&service, get("http://api/x")).await.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
        assert!(body.frame().await.unwrap().is_err(), "from the server, not from the cache");
        assert!(body.frame().await.is_none());
    }
}

/// The headers of a 304 are for the caller, also if they forbid to store the response.
#[tokio::test]
async fn a_304_passes_on_its_headers() {
    for more in ["x-more", "set-cookie"] {
        let service = service_fn(move |request: EmptyRequest| {
            let response = Response::builder().header("etag", "\"1\"").header("connection", "close");
            let response = match request.headers().contains_key("if-none-match") {
                true => response.status(304).header(more, "two").body(Full::<Bytes>::default()),
                false => response.header("x-more", "one").body(Full::from("text")),
            };
            std::future::ready(Ok::<_, Infallible>(response.unwrap()))
        });
        let service = CacheLayer::new().clock(clock()).layer(service);
        text(call(&service, get("http://api/x")).await).await;
        let confirmed = call(&service, get("http://api/x")).await;
        assert_eq!(
            (confirmed.status(), &confirmed.headers()[more]),
            (StatusCode::OK, &HeaderValue::from_static("two"))
        );
        assert!(!confirmed.headers().contains_key("connection"));
        assert_eq!(text(confirmed).await, "text");
    }
}

fn owned<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

fn owned3(one: &str, two: &str, three: &str) -> (String, String, String) {
    (one.to_owned(), two.to_owned(), three.to_owned())
}
