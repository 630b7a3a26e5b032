//! Calls that fail: the status is clear, and the connection stays open.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use tidegate::Clock as _;
use tidegate_server::serve::Bounds;
use tidegate_server::serve::rls::Details;
use tonic::Code;

use super::raw_client::{Call, RawClient, SHOULD_RATE_LIMIT, framed, framed_request};
use crate::grpc::server::{OK, OVER_LIMIT, Server, call_error, descriptor, request, send};

const RULES: &str = "
domain: api
rules:
  - { name: held, match: { do: wait }, limit: '{algorithm: gcra, limit: 1, per: 30m}', action: { delay: { max_wait: 1h } } }
  - { name: short, match: { do: nap }, limit: '{algorithm: gcra, limit: 1, per: 100ms}', action: { delay: { max_wait: 1h } } }
";

fn good() -> Bytes {
    framed_request(&request([descriptor(&[("user", "42")])]))
}

async fn assert_still_served(raw: &mut RawClient) {
    let answer = raw.call(Call { body: vec![good()], ..Call::default() }).await.unwrap();
    assert_eq!((answer.http.as_u16(), answer.status()), (200, ("0", "")), "{answer:?}");
    assert_eq!(answer.headers["content-type"], "application/grpc");
    assert_eq!(answer.body[..5], [0, 0, 0, 0, u8::try_from(answer.body.len() - 5).unwrap()]);
}

#[tokio::test]
async fn incomplete_requests() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let mut no_domain = request([descriptor(&[("user", "42")])]);
    no_domain.domain.clear();
    let status = call_error(&mut client, no_domain).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("rate limit domain must not be empty (hint: "));
    let status = call_error(&mut client, request([])).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().starts_with("rate limit descriptor list must not be empty (hint: "));
    let status = call_error(&mut client, request(vec![descriptor(&[]); 1_001])).await;
    assert_eq!((status.code(), status.message().contains("more than 1000")), (Code::InvalidArgument, true));
}

#[tokio::test]
async fn invalid_calls() {
    let server = Server::with_rules(RULES).await;
    let mut raw = RawClient::connect(server.address).await;
    let get = raw.call(Call { method: Method::GET, ..Call::default() }).await.unwrap();
    assert_eq!(get.http, 405);
    for headers in
        [vec![], vec![("content-type", "application/json")], vec![("content-type", "application/grpc-web")]]
    {
        let answer = raw.call(Call { headers, body: vec![good()], ..Call::default() }).await.unwrap();
        assert_eq!(answer.http, 415);
    }
    for path in ["/", "/envoy.service.ratelimit.v3.RateLimitService/Nope", "/nope.Service/ShouldRateLimit"] {
        let answer = raw.call(Call { path, body: vec![good()], ..Call::default() }).await.unwrap();
        assert_eq!(answer.http, 200);
        assert_eq!(answer.status().0, "12");
        assert!(answer.status().1.contains(path), "{answer:?}");
        assert!(answer.body.is_empty() && answer.trailers.is_empty(), "a response of headers only");
    }
    let headers = vec![("content-type", "application/grpc"), ("grpc-encoding", "gzip")];
    let answer = raw.call(Call { headers, body: vec![good()], ..Call::default() }).await.unwrap();
    assert_eq!(
        (answer.status().0, &answer.headers["grpc-accept-encoding"]),
        ("12", &"identity".parse().unwrap())
    );
    let page = server.app.metrics_page();
    for (reason, count) in [("not_grpc", 4), ("unimplemented", 4)] {
        let line = page.lines().find(|line| line.contains("rejected") && line.contains(reason));
        assert!(line.is_some_and(|line| line.ends_with(&format!(" {count}"))), "{line:?}");
    }
    assert_still_served(&mut raw).await;
}

#[tokio::test]
async fn invalid_bodies() {
    let server = Server::with_rules(RULES).await;
    let mut raw = RawClient::connect(server.address).await;
    let whole = good();
    let half = whole.slice(..whole.len() - 1);
    let twice = Bytes::from([&whole[..], &whole[..]].concat());
    let huge = Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 1]);
    let large = [0u8, 0, 0x40, 0, 1].iter().copied().chain(std::iter::repeat_n(1, 4 << 20)).chain([1]);
    let large: Vec<Bytes> = large.collect::<Vec<u8>>().chunks(10_000).map(Bytes::copy_from_slice).collect();
    for (body, code, message) in [
        (vec![], "13", "the body is not a gRPC message"),
        (vec![Bytes::from_static(b"\0\0\0")], "13", "the body is not a gRPC message"),
        (vec![half], "13", "the body ends in the middle of a message"),
        (vec![twice], "13", "the body has more than one message"),
        (vec![huge], "8", "a message of 4294967295 bytes is too large"),
        (large, "8", "too large"),
        (vec![Bytes::from_static(b"\x01\0\0\0\x01x")], "13", "the message is compressed"),
        (vec![Bytes::from_static(b"\x07\0\0\0\x01x")], "13", "the message is compressed"),
        (vec![framed(b"\x0a\x01\xff")], "3", "`domain` is not UTF-8"),
        (vec![framed(b"\xff\xff\xff\xff")], "3", "this is not a RateLimitRequest: "),
        (vec![framed(b"")], "3", "rate limit domain must not be empty"),
    ] {
        let answer = raw.call(Call { body, ..Call::default() }).await.unwrap();
        assert_eq!(answer.http, 200);
        assert_eq!(answer.status().0, code, "{answer:?}");
        assert!(answer.status().1.contains(message), "{answer:?}");
    }
    assert_still_served(&mut raw).await;
}

/// A message that its first bytes make invalid is rejected immediately.
#[tokio::test]
async fn invalid_prefixes_are_rejected_early() {
    let server = Server::with_rules(RULES).await;
    let mut raw = RawClient::connect(server.address).await;
    for (start, code) in [(&[0, 0xff, 0xff, 0xff, 0xff, 1], "8"), (&[1, 0, 0, 0, 9, 1], "13")] {
        let call = Call { body: vec![Bytes::copy_from_slice(start)], ends: false, ..Call::default() };
        assert_eq!(raw.call(call).await.unwrap().status().0, code);
    }
    assert_still_served(&mut raw).await;
}

#[tokio::test]
async fn too_many_matched_limits() {
    let rule = |number: usize| format!("  - {{ name: r{number}, limit: 5 per day }}\n");
    let rules: String = (0..=tidegate_core::PLAN_CHARGES_MAX).map(rule).collect();
    let server = Server::with_rules(&format!("domain: api\nrules:\n{rules}")).await;
    let status = call_error(&mut server.client().await, request([descriptor(&[("user", "42")])])).await;
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(status.message(), "the request falls under too many limits; let fewer rules match it");
}

#[tokio::test]
async fn a_body_in_pieces() {
    let server = Server::with_rules(RULES).await;
    let mut raw = RawClient::connect(server.address).await;
    let whole = good();
    let bytes: Vec<Bytes> = whole.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
    let then_nothing = vec![whole.slice(..7), whole.slice(7..), Bytes::new()];
    for body in [bytes, then_nothing] {
        let answer = raw.call(Call { body, ..Call::default() }).await.unwrap();
        assert_eq!(answer.status(), ("0", ""), "{answer:?}");
    }
    let long = "x".repeat(1 << 19);
    let large = framed_request(&request([descriptor(&[("user", &long)])]));
    let body = large.chunks(100_000).map(Bytes::copy_from_slice).collect();
    let answer = raw.call(Call { body, ..Call::default() }).await.unwrap();
    assert_eq!(answer.status(), ("0", ""));
}

/// A connection that has answered a call. The client's first bytes have a timeout too, which a busy machine may miss,
/// so this retries.
async fn connect_and_call(server: &Server) -> RawClient {
    loop {
        let mut raw = RawClient::connect(server.address).await;
        if raw.call(Call { body: vec![good()], ..Call::default() }).await.is_ok() {
            return raw;
        }
    }
}

/// Every failed call is counted once, whatever its method.
#[tokio::test]
async fn failed_calls_are_counted() {
    let limits = "10 per day, ".repeat(30);
    let rules = format!("domain: api\nrules: [ {{ name: many, key: [user], limits: [ {limits} ] }} ]");
    let server = Server::with_rules(&rules).await;
    let mut raw = RawClient::connect(server.address).await;
    let (check, watch) = ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch");
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    // 1,050 limits.
    let many: Vec<_> = (0..35).map(|user| descriptor(&[("user", &*user.to_string())])).collect();
    for (path, body, code) in [
        (SHOULD_RATE_LIMIT, framed(b""), "3"),
        (SHOULD_RATE_LIMIT, framed_request(&request(many)), "13"),
        (check, framed(b"\x0a\x04nope"), "5"),
        (check, framed(b"\x0a\x09nope"), "3"),
        (watch, framed(b"\x0a\x09nope"), "3"),
        (watch, Bytes::from_static(b"\x01\0\0\0\0"), "13"),
        (reflection, Bytes::from_static(b"\x01\0\0\0\0"), "13"),
        (reflection, Bytes::from_static(b"\0\x01\0\0\0"), "8"),
    ] {
        let answer = raw.call(Call { path, body: vec![body], ..Call::default() }).await.unwrap();
        assert_eq!(answer.status().0, code, "{path} {answer:?}");
    }
    let line = |reason, count| {
        format!(r#"tidegate_requests_rejected_total{{protocol="grpc",reason="{reason}"}} {count}"#)
    };
    assert_eq!(
        server.metric_lines("tidegate_requests_rejected_total"),
        [
            line("internal", 2),
            line("invalid_argument", 3),
            line("not_found", 1),
            line("resource_exhausted", 1),
            line("too_many_limits", 1)
        ]
    );
}

#[tokio::test]
async fn an_incomplete_message_times_out() {
    let bounds = Bounds { header_timeout: Duration::from_millis(100), ..Bounds::default() };
    let server = Server::with(RULES, bounds, Details::default()).await;
    let mut raw = connect_and_call(&server).await;
    let half = || Call { body: vec![good().slice(..9)], ends: false, ..Call::default() };
    let answer = raw.call(half()).await.unwrap();
    assert_eq!(answer.status(), ("4", "the body took too long to arrive"));
    let answer = raw.call(Call { body: vec![], ..half() }).await.unwrap();
    assert_eq!(answer.status().0, "4");
    assert_still_served(&mut raw).await;
}

#[tokio::test]
async fn a_request_waits_until_the_client_deadline() {
    let server = Server::with_rules(RULES).await;
    let mut raw = RawClient::connect(server.address).await;
    let body = || vec![framed_request(&request([descriptor(&[("do", "wait")])]))];
    let first = raw.call(Call { body: body(), ..Call::default() }).await.unwrap();
    assert_eq!(first.status().0, "0");
    let headers = vec![("content-type", "application/grpc"), ("grpc-timeout", "50m")];
    let waiting = raw.call(Call { headers, body: body(), ..Call::default() }).await.unwrap();
    assert_eq!(waiting.status().0, "4");
    assert!(waiting.status().1.starts_with("a rule delayed the request past the client's deadline"));
    assert_still_served(&mut raw).await;
}

/// Waiting requests are admitted in the end.
#[tokio::test]
async fn waiting_requests_are_admitted() {
    let server = Server::with_rules(RULES).await;
    let client = server.client().await;
    let now_ns = || server.app.engine.clock().now().as_nanos();
    let from_ns = now_ns();
    let waiting = (0..5).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move { send(&mut client, request([descriptor(&[("do", "nap")])])).await })
    });
    for waiting in waiting.collect::<Vec<_>>() {
        assert_eq!(waiting.await.unwrap().overall_code, OK);
    }
    let took_ns = now_ns() - from_ns;
    assert!(took_ns >= 400_000_000, "four of them waited for 100 ms each: {took_ns} ns");
}

/// Other calls pass waiting ones on the same connection.
#[tokio::test]
async fn waiting_requests_do_not_block_others() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let waiting_request = || request([descriptor(&[("do", "wait")])]);
    assert_eq!(send(&mut client, waiting_request()).await.overall_code, OK);
    let mut other = client.clone();
    let waiting = tokio::spawn(async move { send(&mut other, waiting_request()).await.overall_code });
    server.wait_until_waiting(1).await;
    assert_eq!(send(&mut client, request([descriptor(&[("user", "42")])])).await.overall_code, OK);
    assert_eq!(server.app.engine.waiting_requests(), 1);
    server.release_all();
    assert_eq!(waiting.await.unwrap(), OK);
}

/// A client that disconnects leaves the wait queue, so it does not delay later requests.
#[tokio::test]
async fn a_disconnected_client_leaves_the_queue() {
    let rules = "
domain: api
rules:
  - { name: one, key: [user], limit: '{algorithm: gcra, limit: 1, per: 40m}', action: { delay: { max_wait: 1h } } }
";
    let server = Server::with_rules(rules).await;
    let mut client = server.client().await;
    let waiting_request = || request([descriptor(&[("user", "42")])]);
    assert_eq!(send(&mut client, waiting_request()).await.overall_code, OK);
    let mut gone = RawClient::connect(server.address).await;
    let body = vec![framed_request(&waiting_request())];
    let waiting = tokio::spawn(async move {
        let _ = gone.call(Call { path: SHOULD_RATE_LIMIT, body, ..Call::default() }).await;
    });
    server.wait_until_waiting(1).await;
    // Behind it, the wait would be two times 40 minutes, more than the maximum of an hour.
    assert_eq!(send(&mut client, waiting_request()).await.overall_code, OVER_LIMIT);
    waiting.abort();
    server.wait_until_waiting(0).await;
    let next = tokio::spawn(async move { send(&mut client, waiting_request()).await.overall_code });
    server.wait_until_waiting(1).await;
    server.release_all();
    assert_eq!(next.await.unwrap(), OK);
}
