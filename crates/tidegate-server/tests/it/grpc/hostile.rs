//! Hostile clients: they are disconnected, and others are served.

use std::time::Duration;

use h2::{Reason, RecvStream};
use http::Request;
use tidegate_server::serve::Bounds;
use tidegate_server::serve::grpc::KEPT_BYTES_MAX;
use tidegate_server::serve::rls::Details;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::raw_client::{Call, LONG, RawClient, SHOULD_RATE_LIMIT, framed_request};
use crate::grpc::server::{OK, Server, descriptor, request, send};

const RULES: &str = "
domain: api
rules:
  - { name: all, key: [user], limit: 1_000_000 per day }
  - { name: four, match: { do: wait }, limit: '{algorithm: gcra, limit: 1, per: 14m}', action: { delay: { max_wait: 1h } } }
  - { name: many, match: { do: queue }, limit: '{algorithm: gcra, limit: 1, per: 35s}', action: { delay: { max_wait: 1h } } }
";

async fn assert_others_are_served(server: &Server) {
    let mut client = server.client().await;
    assert_eq!(send(&mut client, request([descriptor(&[("user", "42")])])).await.overall_code, OK);
}

/// Sends these bytes, and waits until the server closes the connection.
async fn assert_closed(server: &Server, bytes: &[u8]) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The server may have closed the connection already.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let ended = timeout(LONG, stream.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the connection was not closed");
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[tokio::test]
async fn other_protocols_are_closed() {
    let server = Server::with_rules(RULES).await;
    let garbage: Vec<u8> = (0..=255).cycle().take(5_000).collect();
    let unsettled = [PREFACE, &[0, 0, 0, 0xff, 0, 0, 0, 0, 0]].concat();
    let huge_frame = [PREFACE, &[0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0]].concat();
    let after_settings = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0], &garbage].concat();
    let no_stream = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0], &[0, 0, 1, 0, 0, 0, 0, 0, 0, 1]].concat();
    for bytes in
        [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &garbage, &huge_frame, &after_settings, &no_stream]
    {
        assert_closed(&server, bytes).await;
    }
    // A frame of an unknown type may come before any other except the settings.
    drop(unsettled);
    assert_others_are_served(&server).await;
}

/// A very short time.
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn silent_connections_time_out() {
    let bounds = Bounds { header_timeout: SHORT, idle_timeout: SHORT, ..Bounds::default() };
    let server = Server::with(RULES, bounds, Details::default()).await;
    assert_closed(&server, b"").await;
    assert_closed(&server, &PREFACE[..10]).await;
    // A client that ignores GOAWAY is disconnected.
    let settings = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    assert_closed(&server, &settings).await;
}

#[tokio::test]
async fn idle_clients_get_goaway() {
    // After GOAWAY the client has plenty of time.
    let bounds =
        Bounds { header_timeout: Duration::from_secs(3_600), idle_timeout: SHORT, ..Bounds::default() };
    let server = Server::with(RULES, bounds, Details::default()).await;
    let raw = loop {
        let mut raw = RawClient::connect(server.address).await;
        let body = vec![framed_request(&request([descriptor(&[("user", "42")])]))];
        // It fails if the machine was busy: then the connection was idle before the first call.
        if let Ok(answer) = raw.call(Call { body, ..Call::default() }).await {
            assert_eq!(answer.status().0, "0");
            break raw;
        }
    };
    let closed = timeout(LONG, raw.closed).await.expect("the connection was not closed").unwrap();
    assert!(closed.is_ok(), "{closed:?}");
}

#[tokio::test]
async fn reset_streams() {
    let server = Server::with_rules(RULES).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (h2, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let body = framed_request(&request([descriptor(&[("user", "42")])]));
    for number in 0..5_000u32 {
        let Ok(mut h2) = h2.clone().ready().await else { break };
        let request = Request::post(format!("http://localhost{SHOULD_RATE_LIMIT}"))
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        let Ok((_response, mut stream)) = h2.send_request(request, false) else { break };
        match number % 3 {
            0 => stream.send_reset(Reason::CANCEL),
            1 => {
                let _ = stream.send_data(body.slice(..5), false);
                stream.send_reset(Reason::CANCEL);
            }
            _ => {
                let _ = stream.send_data(body.clone(), true);
            }
        }
        if number % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_others_are_served(&server).await;
    connection.abort();
}

/// Endless bodies use a bounded amount of memory.
#[tokio::test]
async fn endless_bodies_use_bounded_memory() {
    // No call times out.
    let bounds = Bounds { header_timeout: Duration::from_secs(3_600), ..Bounds::default() };
    let server = Server::with(RULES, bounds, Details::default()).await;
    let raw = RawClient::connect(server.address).await;
    // Each body has all but the last byte of the largest message.
    let start = [0, 0, 0x10, 0, 0].into_iter().chain(std::iter::repeat_n(b'x', (1 << 20) - 1));
    let start = bytes::Bytes::from(start.collect::<Vec<u8>>());
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let mut raw = raw.clone_connection();
        let call = Call { body: vec![start.clone()], ends: false, ..Call::default() };
        calls.spawn(async move { raw.call(call).await });
    }
    // Four of them fit. The others wait for their timeout.
    let first = timeout(LONG, calls.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(first.status().0, "8", "{first:?}");
    calls.abort_all();
    assert_others_are_served(&server).await;
}

/// Waiting requests use a bounded amount of memory, and release it when they are cancelled.
#[tokio::test]
async fn waiting_requests_use_bounded_memory() {
    let server = Server::with_rules(RULES).await;
    let raw = RawClient::connect(server.address).await;
    let long = "x".repeat(900_000);
    let large = |entry| vec![framed_request(&request([descriptor(&[("user", &long), entry])]))];
    let mut answers = Vec::new();
    let mut waiting = tokio::task::JoinSet::new();
    while answers.len() < 2 {
        let (mut raw, held_before) = (raw.clone_connection(), server.app.engine.waiting_requests());
        let call = Call { body: large(("do", "wait")), ..Call::default() };
        waiting.spawn(async move { raw.call(call).await.unwrap() });
        // It waits or is answered.
        let decided = async {
            while server.app.engine.waiting_requests() == held_before {
                if let Some(answer) = waiting.try_join_next() {
                    answers.push(answer.unwrap());
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, decided).await.expect("it neither waits nor is answered");
    }
    assert_eq!(answers[0].status(), ("0", ""), "the first one is allowed");
    assert_eq!(waiting.len(), 4, "there is room for four");
    let (code, message) = answers[1].status();
    assert!(code == "8" && message.starts_with("unfinished calls on this connection"), "{code} {message}");
    // Without them there is room again.
    waiting.shutdown().await;
    let room = async {
        while raw
            .clone_connection()
            .call(Call { body: large(("do", "pass")), ..Call::default() })
            .await
            .unwrap()
            .status()
            != ("0", "")
        {}
    };
    timeout(LONG, room).await.expect("there is no room again");
}

/// A parsed request may be larger than its message, and counts too.
#[tokio::test]
async fn waiting_requests_with_many_entries() {
    let server = Server::with_rules(RULES).await;
    let raw = RawClient::connect(server.address).await;
    let parts = [("", ""); 64];
    let many = std::iter::repeat_n(descriptor(&parts), 63).chain([descriptor(&[("do", "queue")])]);
    let body = framed_request(&request(many));
    assert!(100 * body.len() < KEPT_BYTES_MAX, "the messages alone would fit");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let mut raw = raw.clone_connection();
        let call = Call { body: vec![body.clone()], ..Call::default() };
        calls.spawn(async move { raw.call(call).await });
    }
    // One is allowed, and at most a third of the others wait.
    let mut codes = Vec::new();
    while codes.len() < 60 {
        let answer = timeout(LONG, calls.join_next()).await.unwrap().unwrap().unwrap().unwrap();
        codes.push(answer.status().0.to_owned());
    }
    assert!(codes.iter().filter(|code| *code == "8").count() >= 50, "{codes:?}");
}

/// A client that does not read responses gets a bounded amount of data, and blocks no other client.
#[tokio::test]
async fn a_client_that_does_not_read() {
    let server = Server::with_rules(RULES).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (h2, connection) =
        h2::client::Builder::new().initial_window_size(0).handshake::<_, bytes::Bytes>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut waiting: Vec<h2::client::ResponseFuture> = Vec::new();
    for _ in 0..200 {
        let mut h2 = h2.clone().ready().await.unwrap();
        let request = Request::post(format!("http://localhost{SHOULD_RATE_LIMIT}"))
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        let (response, mut stream) = h2.send_request(request, false).unwrap();
        stream
            .send_data(framed_request(&super::server::request([descriptor(&[("user", "1")])])), true)
            .unwrap();
        waiting.push(response);
    }
    let mut bodies: Vec<RecvStream> = Vec::new();
    for response in waiting {
        bodies.push(timeout(LONG, response).await.unwrap().unwrap().into_body());
    }
    assert_others_are_served(&server).await;
    drop(bodies);
    connection.abort();
}
