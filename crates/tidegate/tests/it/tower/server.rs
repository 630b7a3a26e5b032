//! What the layer does with requests: every action, over limits and over rules.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{Empty, Full};
use tidegate::identity::{ClientAddress, ForwardedHeader, Identity, SelfCheck, Source};
use tidegate::tower::AnswerKind;
use tidegate::tower::server::{
    HeaderDialect, OnMissingKey, OneKey, PeerAddress, PeerLookup, PerHeader, PerIp, PerUser, ProblemKind,
    RateLimitLayer, RequestAnswer, RequestHead, ShadowBan,
};
use tidegate::{Limiter, ManualClock, Timestamp};
use tower::{Layer, Service};

use super::{EmptyRequest, call, get, text, text_response};
use crate::executor::Executor;

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_nanos(1_800_000_000_000_000_000))
}

fn limiter(limit: &str, clock: &ManualClock) -> Limiter<ManualClock> {
    Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap()
}

/// Answers with the kind of answer that the request is marked with.
#[derive(Clone, Default)]
struct Handler {
    calls: Arc<AtomicUsize>,
}

impl<B> Service<Request<B>> for Handler {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mark =
            request.extensions().get::<RequestAnswer>().map_or("unmarked", |answer| answer.kind.as_str());
        std::future::ready(Ok(text_response(mark)))
    }
}

fn from_peer(address: &str) -> EmptyRequest {
    let mut request = get("/");
    request.extensions_mut().insert(PeerAddress(address.parse().unwrap()));
    request
}

fn headers<B>(response: &Response<B>) -> Vec<String> {
    let lines = response.headers().iter();
    lines.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}

#[tokio::test]
async fn allowed_and_denied_responses_have_headers() {
    let layer = RateLimitLayer::new(limiter("{limit: 1, per: 60s, name: api}", &clock()), OneKey);
    let service = layer.layer(Handler::default());
    let allowed = call(&service, get("/")).await;
    assert_eq!(allowed.status(), 200);
    assert_eq!(
        headers(&allowed),
        [
            "x-ratelimit-limit: 1",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 60",
            r#"ratelimit-policy: "api";q=1;w=60"#,
            r#"ratelimit: "api";r=0;t=60"#,
        ]
    );
    let denied = call(&service, get("/")).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(
        headers(&denied),
        [
            "content-type: application/problem+json",
            "retry-after: 60",
            "x-ratelimit-retry-after: 60",
            "x-ratelimit-limit: 1",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 60",
            r#"ratelimit-policy: "api";q=1;w=60"#,
            r#"ratelimit: "api";r=0;t=60"#,
        ]
    );
    let problem = text(denied).await;
    assert!(problem.contains(r#""status":429"#), "{problem}");
    assert!(
        problem
            .ends_with(r#""detail":"the limit is exceeded; try again in 60 s","violated-policies":["api"]}"#),
        "{problem}"
    );
}

#[tokio::test]
async fn other_dialects_have_other_headers() {
    for (dialect, expected) in [
        (HeaderDialect::None, vec![]),
        (
            HeaderDialect::XRateLimit,
            vec!["x-ratelimit-limit: 5", "x-ratelimit-remaining: 4", "x-ratelimit-reset: 12"],
        ),
        (
            HeaderDialect::Draft03,
            vec![
                r#"x-ratelimit-limit: 5, 5;w=60;name="1""#,
                "x-ratelimit-remaining: 4",
                "x-ratelimit-reset: 12",
            ],
        ),
    ] {
        let layer = RateLimitLayer::new(limiter("5 per minute", &clock()), OneKey).headers(dialect);
        assert_eq!(headers(&call(&layer.layer(Handler::default()), get("/")).await), expected, "{dialect:?}");
    }
}

#[tokio::test]
async fn headers_are_those_of_the_limit_that_decides() {
    let limits = ["{limit: 2, per: 1s, name: burst}", "{limit: 4, per: 60s, name: minute}"];
    let clock = clock();
    let limiter =
        || Limiter::builder().limit(limits[0]).limit(limits[1]).clock(clock.clone()).build().unwrap();
    let (service, twin) = (RateLimitLayer::new(limiter(), OneKey).layer(Handler::default()), limiter());
    let mut deciders = Vec::new();
    for wait_ms in [0, 0, 1_200, 1_200, 1_200, 0] {
        let decision = twin.check("", 1);
        let expected = decision.headers(twin.limits());
        let expected: Vec<String> = expected.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let mut lines = headers(&call(&service, get("/")).await);
        lines.retain(|line| !line.starts_with("content-type"));
        assert_eq!(lines, expected);
        deciders.push((decision.is_allowed(), decision.decided_by));
        clock.advance(Duration::from_millis(wait_ms));
    }
    for decider in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        assert!(deciders.contains(&decider), "{deciders:?}");
    }
}

#[tokio::test]
async fn headers_list_a_superseded_limit_until_it_expires() {
    let clock = clock();
    let old = limiter("{algorithm: fixed_window, limit: 5, per: 10s, name: api}", &clock);
    assert!(old.check("", 1).is_allowed());
    let new = old.with_limits(["{algorithm: sliding_log, limit: 7, per: 10s, name: api}"]).unwrap();
    let service = RateLimitLayer::new(new, OneKey).layer(Handler::default());
    let policies = async || {
        let response = call(&service, get("/")).await;
        response.headers()["ratelimit-policy"].to_str().unwrap().split(", ").count()
    };
    assert_eq!(policies().await, 2);
    clock.advance(Duration::from_secs(20));
    assert_eq!(policies().await, 1);
}

#[tokio::test]
async fn a_client_address_is_the_key() {
    let layer =
        RateLimitLayer::new(limiter("1 per minute", &clock()), PerIp::with_peer(PeerLookup::default()));
    let service = layer.layer(Handler::default());
    let status = async |address| call(&service, from_peer(address)).await.status().as_u16();
    assert_eq!(status("192.0.2.1").await, 200);
    assert_eq!(status("192.0.2.1").await, 429);
    assert_eq!(status("::ffff:192.0.2.1").await, 429, "the same address");
    assert_eq!(status("192.0.2.2").await, 200);
    assert_eq!(status("2001:db8::1").await, 200);
    assert_eq!(status("2001:db8::2").await, 429, "the same /64");
}

#[tokio::test]
async fn only_trusted_proxies_name_the_client() {
    let identity = Identity::default()
        .with_client_address(ClientAddress::trusted_hops(ForwardedHeader::XForwardedFor, 1));
    let per_ip = PerIp::of(|peer: &PeerAddress| peer.0).identity(identity);
    let service = RateLimitLayer::new(limiter("1 per minute", &clock()), per_ip).layer(Handler::default());
    let status = async |forwarded: &'static str| {
        let mut request = from_peer("10.0.0.1");
        request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        call(&service, request).await.status().as_u16()
    };
    assert_eq!(status("192.0.2.1").await, 200);
    assert_eq!(status("198.51.100.9, 192.0.2.1").await, 429, "the client wrote the first entry");
    assert_eq!(status("192.0.2.1, 192.0.2.2").await, 200);
}

#[tokio::test]
async fn a_request_without_a_key_is_never_let_through_silently() {
    let per_key = |request: &RequestHead<'_>| request.header("x-api-key").map(str::to_owned);
    let layer = RateLimitLayer::new(limiter("1 per minute", &clock()), per_key);
    let denied = call(&layer.layer(Handler::default()), get("/")).await;
    assert_eq!((denied.status().as_u16(), denied.headers().get("retry-after")), (429, None));
    assert!(text(denied).await.contains("lacks the key"));

    let shared = layer.clone().on_missing_key(OnMissingKey::Shared).layer(Handler::default());
    assert_eq!(call(&shared, get("/")).await.status(), 200);
    assert_eq!(call(&shared, get("/")).await.status(), 429);

    let skipped = layer.on_missing_key(OnMissingKey::Skip).layer(Handler::default());
    for _ in 0..3 {
        let response = call(&skipped, get("/")).await;
        assert_eq!(response.status(), 200);
        assert!(response.headers().is_empty(), "no limit applies");
    }
}

#[tokio::test]
async fn a_header_that_is_repeated_is_no_key() {
    let service = RateLimitLayer::new(limiter("9 per minute", &clock()), PerHeader::new("X-Api-Key"))
        .layer(Handler::default());
    let mut request = get("/");
    request.headers_mut().insert("x-api-key", "a".parse().unwrap());
    assert_eq!(call(&service, request.clone()).await.status(), 200);
    request.headers_mut().append("x-api-key", "b".parse().unwrap());
    assert_eq!(call(&service, request).await.status(), 429);
}

#[tokio::test]
async fn users_have_a_limit_each() {
    let key = PerUser::new(Identity::default().with_user(Source::header("x-user")));
    let service = RateLimitLayer::new(limiter("1 per minute", &clock()), key).layer(Handler::default());
    let status = async |user: Option<&str>| {
        let mut request = get("/");
        if let Some(user) = user {
            request.headers_mut().insert("x-user", user.parse().unwrap());
        }
        call(&service, request).await.status().as_u16()
    };
    assert_eq!(
        [status(Some("ann")).await, status(Some("ann")).await, status(Some("bob")).await],
        [200, 429, 200]
    );
    assert_eq!(status(None).await, 429);
}

#[tokio::test]
async fn ipv6_prefixes_can_be_shorter() {
    let statuses = async |key: PerIp| {
        let service = RateLimitLayer::new(limiter("1 per minute", &clock()), key).layer(Handler::default());
        let mut statuses = Vec::new();
        // The same /64, the same /56, another /56.
        for address in ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db8:0:100::1"] {
            statuses.push(call(&service, from_peer(address)).await.status().as_u16());
        }
        statuses
    };
    let per_ip = PerIp::with_peer(PeerLookup::default());
    assert_eq!(statuses(per_ip.clone()).await, [200, 429, 200, 200]);
    assert_eq!(statuses(per_ip.v6_prefix(56)).await, [200, 429, 429, 200]);
}

/// Collects what a layer reports: codes, each with the limit.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<String>>>);

impl Reports {
    fn add(&self, found: SelfCheck, limit: Option<&str>) {
        self.0.lock().unwrap().push(format!("{} {}", found.code(), limit.unwrap_or("-")));
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// More than the requests after which one key for all is reported.
const MANY_REQUESTS: usize = 64 * 1_000;

#[tokio::test]
async fn signs_of_a_wrong_configuration_are_reported_once() {
    let (reports, limiter) = (Reports::default(), limiter("1 per minute", &clock()));
    let report = reports.clone();
    let layer = RateLimitLayer::new(limiter, PerIp::with_peer(PeerLookup::default()));
    let layer = layer.on_self_check(move |found, limit| report.add(found, limit));
    let service = layer.layer(Handler::default());
    for _ in 0..=MANY_REQUESTS {
        let mut request = from_peer("10.0.0.1");
        request.headers_mut().insert("x-forwarded-for", "192.0.2.1".parse().unwrap());
        call(&service, request).await;
    }
    assert_eq!(reports.all(), ["forwarded-untrusted -", "one-key -"]);
}

fn grpc_call(path: &str) -> EmptyRequest {
    let request = Request::post(path).header("content-type", "application/grpc+proto");
    request.body(Empty::<Bytes>::new()).unwrap()
}

#[tokio::test]
async fn grpc_callers_get_a_status_without_a_body() {
    let service = RateLimitLayer::new(limiter("1 per minute", &clock()), OneKey).layer(Handler::default());
    let request = || grpc_call("/shop.Shop/Buy");
    assert_eq!(call(&service, request()).await.headers().get("grpc-status"), None);
    let denied = call(&service, request()).await;
    assert_eq!(denied.status(), 200);
    assert_eq!(denied.headers()["grpc-status"], "8");
    assert_eq!(denied.headers()["grpc-message"], "the limit is exceeded; try again in 60 s");
    assert_eq!(denied.headers()["grpc-retry-pushback-ms"], "60000");
    assert_eq!(denied.headers()["retry-after"], "60");
    assert!(denied.body().is_end_stream(), "HTTP/2 sends the headers as trailers");
}

#[tokio::test]
async fn a_hook_builds_the_denied_response() {
    let layer = RateLimitLayer::new(limiter("1 per minute", &clock()), OneKey).on_denied(|answer| {
        assert_eq!((answer.kind, answer.problem), (AnswerKind::Denied, Some(ProblemKind::QuotaExceeded)));
        let mut response = Response::new(Bytes::from("slow down"));
        *response.status_mut() = http::StatusCode::IM_A_TEAPOT;
        response
    });
    let service = layer.layer(Handler::default());
    call(&service, get("/")).await;
    let denied = call(&service, get("/")).await;
    assert_eq!((denied.status().as_u16(), &denied.headers()["retry-after"]), (418, &"60".parse().unwrap()));
    assert_eq!(text(denied).await, "slow down");
}

#[test]
fn requests_over_a_limit_can_wait_in_order() {
    let clock = clock();
    let layer = RateLimitLayer::new(limiter("1 per second", &clock), OneKey).max_wait(Duration::from_secs(2));
    let service = layer.layer(Handler::default());
    let mut executor = Executor::new(&clock);
    let started = clock.clone();
    let tasks: Vec<_> =
        (0..4).map(|_| executor.spawn(async { call(&service, get("/")).await.status().as_u16() })).collect();
    executor.run();
    let results: Vec<(u64, u16)> = tasks
        .iter()
        .map(|task| {
            let finished = executor.finished(*task).unwrap();
            ((finished.at.as_nanos() - 1_800_000_000_000_000_000) / 1_000_000_000, finished.output)
        })
        .collect();
    assert_eq!(results, [(0, 200), (1, 200), (2, 200), (0, 429)]);
    drop(started);
}

#[test]
fn a_leaky_bucket_holds_requests_for_their_delay() {
    let clock = clock();
    let limiter = limiter("{algorithm: leaky_bucket, limit: 1, per: 1s, queue: 2}", &clock);
    let handler = Handler::default();
    let service = RateLimitLayer::new(limiter, OneKey).layer(handler.clone());
    let mut executor = Executor::new(&clock);
    for _ in 0..4 {
        executor.spawn(async { call(&service, get("/")).await.status().as_u16() });
    }
    executor.run_woken();
    assert_eq!(handler.calls.load(Ordering::Relaxed), 1);
    clock.advance(Duration::from_secs(1));
    executor.run_woken();
    assert_eq!(handler.calls.load(Ordering::Relaxed), 2);
    executor.run();
    assert_eq!(handler.calls.load(Ordering::Relaxed), 3, "the fourth was denied");
}

#[cfg(feature = "rules")]
mod by_rules {
    use tidegate::config::{ConfigStore, MemoryConfigStore};
    use tidegate::overrides::{OverrideCache, OverrideChange, OverrideEditor, OverridePlace};
    use tidegate::rules::{Access, BlockStatus};
    use tidegate::{Clock as _, Engine, MemoryStore, rules};

    use super::*;

    const RULES: &str = "
domain: api
rules:
  - { name: login, match: { path: /login }, key: [ip], limit: 1 per minute }
  - { name: soft, match: { path: /soft }, key: [ip], limit: 1 per minute, action: { soft: { margin: 100% } } }
  - { name: dry, match: { path: /dry }, key: [ip], limit: 1 per minute, action: shadow }
  - { name: ban, match: { path: /ban }, key: [ip], limit: 1 per minute, action: shadow_ban }
  - { name: slow, match: { path: /slow }, key: [ip], limit: 1 per second, action: { delay: { max_wait: 5s } } }
  - { name: plans, match: { header.x-plan: free }, key: [user], missing: deny, limit: 1 per minute }
  - { name: shop, match: { host: shop.example }, limit: 1 per minute }
";

    fn layer(clock: &ManualClock) -> RateLimitLayer<tidegate::tower::server::ByRules<ManualClock>> {
        let domains = rules::parse("api.yaml", RULES).unwrap().domains;
        let store = Arc::new(MemoryStore::bounded(1 << 24));
        let engine = Engine::with_store(domains, store, clock.clone()).unwrap();
        let peer = PeerLookup::by(|_| Some(IpAddr::from([192, 0, 2, 1])));
        RateLimitLayer::by_rules(engine, "api").peer(peer)
    }

    #[tokio::test]
    async fn every_action() {
        let handler = Handler::default();
        let service = layer(&clock()).layer(handler.clone());
        let second = async |path: &str| {
            assert_eq!(call(&service, get(path)).await.status(), 200);
            call(&service, get(path)).await
        };
        let denied = second("/login").await;
        assert_eq!(denied.status(), 429);
        assert!(text(denied).await.contains(r#""violated-policies":["login/1"]"#));

        let soft = second("/soft").await;
        assert_eq!(soft.headers()["x-tidegate-decision"], "soft");
        assert_eq!(soft.extensions().get::<RequestAnswer>().unwrap().kind, AnswerKind::Soft);
        assert_eq!(text(soft).await, "soft");

        let dry = second("/dry").await;
        assert!(!dry.headers().contains_key("x-tidegate-decision"), "clients do not notice a dry run");
        assert_eq!(text(dry).await, "shadow_denied");

        let calls = handler.calls.load(Ordering::Relaxed);
        let banned = second("/ban").await;
        assert_eq!(banned.status(), 200);
        assert!(banned.headers().is_empty(), "{:?}", banned.headers());
        assert_eq!(text(banned).await, "");
        assert_eq!(handler.calls.load(Ordering::Relaxed), calls + 1);
    }

    /// A ban has the status that the operator chose.
    #[tokio::test]
    async fn a_banned_address() {
        let clock = clock();
        let store: Arc<dyn ConfigStore> = Arc::new(MemoryConfigStore::bounded(1 << 20));
        let overrides = Arc::new(OverrideCache::builder().build(store, Arc::new(|_| ())));
        let domains = rules::parse("api.yaml", RULES).unwrap().domains;
        let counters = Arc::new(MemoryStore::bounded(1 << 24));
        let engine = Engine::with_store(domains, counters, clock.clone()).unwrap();
        let engine = engine.with_overrides(Arc::clone(&overrides));
        let active = engine.rules().clone();
        let key = vec![("ip".into(), "192.0.2.1".into())];
        let place = OverridePlace { domain: "api".into(), rule: "login".into(), limit_name: None, key };
        let peer = PeerLookup::by(|_| Some(IpAddr::from([192, 0, 2, 1])));
        let service = RateLimitLayer::by_rules(engine, "api").peer(peer).layer(Handler::default());
        for (block, status) in [(BlockStatus::Forbidden, 403), (BlockStatus::TooManyRequests, 429)] {
            let change = OverrideChange {
                access: Access::Blocked(block),
                expires_at: Some(Timestamp::from_nanos(clock.now().as_nanos() + 60_000_000_000)),
                ..OverrideChange::default()
            };
            OverrideEditor::new(&overrides, &active).set(&place, &change, None, clock.now()).await.unwrap();
            let denied = call(&service, get("/login")).await;
            assert_eq!(denied.status(), status);
            assert_eq!(denied.headers()["retry-after"], "60");
            assert!(text(denied).await.contains("is blocked"));
            assert_eq!(call(&service, get("/soft")).await.status(), 200);
        }
    }

    #[tokio::test]
    async fn a_shadow_ban_can_mark_the_request() {
        let service = layer(&clock()).shadow_ban(ShadowBan::Mark).layer(Handler::default());
        call(&service, get("/ban")).await;
        assert_eq!(text(call(&service, get("/ban")).await).await, "shadow_banned");
    }

    #[tokio::test]
    async fn signs_of_a_wrong_configuration_name_the_limit() {
        let (reports, identity) =
            (Reports::default(), Identity::default().with_user(Source::header("x-user")));
        let report = reports.clone();
        let layer = layer(&clock()).identity(identity);
        let layer = layer.on_self_check(move |found, limit| report.add(found, limit));
        let service = layer.layer(Handler::default());
        let mut request = get("/");
        request.headers_mut().insert("x-plan", "free".parse().unwrap());
        request.headers_mut().insert("x-user", "2001:db8::1".parse().unwrap());
        call(&service, request).await;
        assert_eq!(reports.all(), ["raw-ipv6-key plans/1"]);
    }

    #[tokio::test]
    async fn grpc_callers_get_a_status() {
        let layer = layer(&clock());
        let service = layer.clone().layer(Handler::default());
        let status = async |path: &str| {
            let response = call(&service, grpc_call(path)).await;
            response.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
        };
        assert_eq!(status("/a%2flogin").await.as_deref(), Some("3"));
        assert_eq!(status("/login").await, None);
        assert_eq!(status("/login").await.as_deref(), Some("8"));
        // A success without a message, which a client takes for an error.
        assert_eq!(status("/ban").await, None);
        assert_eq!(status("/ban").await.as_deref(), Some("0"));
        let marks = layer.shadow_ban(ShadowBan::Mark).layer(Handler::default());
        let banned = call(&marks, grpc_call("/ban")).await;
        assert_eq!(banned.headers().get("grpc-status"), None);
        assert_eq!(text(banned).await, "shadow_banned");
    }

    #[tokio::test]
    async fn no_spelling_of_a_path_escapes_its_rule() {
        let service = layer(&clock()).layer(Handler::default());
        call(&service, get("/login")).await;
        for path in [
            "/login",
            "//login",
            "/login/",
            "/%6Cogin",
            "/a/../login",
            "/login;x=1",
            "/login?a=1",
            "/./login",
        ] {
            assert_eq!(call(&service, get(path)).await.status(), 429, "{path}");
        }
        for path in ["/%2flogin", "/login%00", "/a%5c..%5clogin", "/%e0%81%acogin", "/%f0%80%81%acogin"] {
            let refused = call(&service, get(path)).await;
            assert_eq!(refused.status(), 400, "{path}");
            assert!(text(refused).await.contains("Bad Request"));
        }
    }

    /// HTTP/2 allows a `Host` beside `:authority`, and HTTP/1.1 an absolute target.
    #[tokio::test]
    async fn the_authority_is_the_host_whatever_the_header_says() {
        let service = layer(&clock()).layer(Handler::default());
        let with_host = |uri: &str, host: &str| {
            let mut request = get(uri);
            request.headers_mut().insert("host", host.parse().unwrap());
            request
        };
        assert_eq!(call(&service, with_host("/", "shop.example")).await.status(), 200);
        assert_eq!(call(&service, with_host("http://shop.example/", "other.example")).await.status(), 429);
        assert_eq!(call(&service, with_host("http://other.example/", "shop.example")).await.status(), 200);
    }

    #[tokio::test]
    async fn a_missing_attribute_follows_the_rule() {
        let service = layer(&clock()).layer(Handler::default());
        let mut request = get("/");
        request.headers_mut().insert("x-plan", "free".parse().unwrap());
        let denied = call(&service, request).await;
        assert_eq!(denied.status(), 429);
        assert!(text(denied).await.contains("lacks a part of the key of plans/1"));
    }

    #[test]
    fn delayed_requests_are_held() {
        let clock = clock();
        let service = layer(&clock).layer(Handler::default());
        let mut executor = Executor::new(&clock);
        let tasks: Vec<_> = (0..3)
            .map(|_| executor.spawn(async { text(call(&service, get("/slow")).await).await }))
            .collect();
        executor.run();
        let finished: Vec<u64> = tasks
            .iter()
            .map(|task| {
                (executor.finished(*task).unwrap().at.as_nanos() - 1_800_000_000_000_000_000) / 1_000_000_000
            })
            .collect();
        assert_eq!(finished, [0, 1, 2]);
    }
}
