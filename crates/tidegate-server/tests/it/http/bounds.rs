//! Bounds of connections, and features of HTTP.

use std::time::Duration;

use tidegate::Clock as _;
use tidegate_server::serve::Bounds;

use super::server::{ServerOptions, TEST_TIMEOUT};
use super::*;

const BODY: &str = r#"{"domain": "api", "attributes": {"user": "42"}}"#;

fn request(more: &str) -> String {
    format!("POST /v1/check HTTP/1.1\r\nhost: x\r\n{more}content-length: {}\r\n\r\n{BODY}", BODY.len())
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(200);

/// A server with one [`SHORT`] timeout. All others are [`LONG`], because the machine may pause between any two lines of
/// a test.
fn server_with_bounds(bounds: Bounds) -> Server {
    Server::with(RULES, ServerOptions { bounds, ..ServerOptions::default() })
}

fn long_bounds() -> Bounds {
    Bounds { header_timeout: LONG, idle_timeout: LONG, ..Bounds::default() }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    client.send(
        [request(""), request(""), request(""), "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".into()].concat(),
    );
    let statuses: Vec<u16> = (0..4).map(|_| client.reply().status).collect();
    assert_eq!(statuses, [200, 200, 429, 200]);
    assert_eq!(client.get("/readyz").status, 200, "the connection stays open");
}

#[test]
fn half_closed_clients_are_answered_unless_waiting() {
    let server = Server::new(
        "
domain: api
rules:
  - name: held
    match: { user: { exists: true } }
    key: [user]
    limit: { limit: 1, per: 30m, burst: 1 }
    action: { delay: { max_wait: 1h } }
",
    );
    for _ in 0..100 {
        let mut client = Client::connect(server.http);
        client.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
        client.finish();
        assert_eq!(client.reply().status, 200);
        assert_eq!(client.read_to_end(), "");
    }
    let mut first = Client::connect(server.http);
    first.send(request(""));
    first.finish();
    assert_eq!(first.reply().json()["remaining"], 0, "it is charged and answered");
    let mut waiting = Client::connect(server.http);
    waiting.send(request(""));
    waiting.finish();
    assert_eq!(waiting.read_to_end(), "", "the client is treated as gone");
    wait_until(&server, "the queue is empty", || server.app.engine.waiting_requests() == 0);
}

#[test]
fn byte_by_byte() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    for byte in request("").bytes() {
        client.send([byte]);
    }
    assert_eq!(client.reply().json()["remaining"], 1);
}

#[test]
fn chunked_bodies() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    for part in BODY.as_bytes().chunks(10) {
        client.send(format!("{:x}\r\n{}\r\n", part.len(), std::str::from_utf8(part).unwrap()));
    }
    client.send("0\r\nx-trailer: 1\r\n\r\n");
    assert_eq!(client.reply().json()["remaining"], 1);
    // More than the maximum body, without a Content-Length.
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    client.send(chunk.repeat(65));
    client.send("0\r\n\r\n");
    client.reply().assert_problem(413, &[]);
}

#[test]
fn http_1_0() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    client.send(format!("POST /v1/check HTTP/1.0\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len()));
    assert_eq!(client.reply().status, 200);
    assert_eq!(client.read_to_end(), "", "closed after one request");
}

#[test]
fn expect_100_continue() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        BODY.len()
    );
    client.send(head);
    assert_eq!(client.reply().status, 100);
    client.send(BODY);
    assert_eq!(client.reply().status, 200);
    client.send(
        "POST /v1/check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9999999\r\n\r\n",
    );
    client.reply().assert_problem(413, &[]);
}

#[test]
fn an_unread_large_body_is_discarded() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 1099511627776\r\n\r\n{");
    client.reply().assert_problem(413, &[]);
    assert_eq!(client.read_to_end(), "");
}

#[test]
fn a_too_large_content_length_is_rejected_early() {
    let bounds = Bounds { header_timeout: TEST_TIMEOUT * 10, ..Bounds::default() };
    let server = Server::with(RULES, ServerOptions { bounds, ..ServerOptions::default() });
    let mut client = Client::connect(server.http);
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 7340032\r\n\r\n");
    let refused = client.reply();
    refused.assert_problem(413, &["the body is larger than 4194304 bytes"]);
    assert_eq!(refused.header("connection"), Some("close"));
    // What the client still sends is discarded, and the connection is not reset.
    client.try_send("x".repeat(7 << 20)).unwrap();
    assert_eq!(client.read_to_end(), "");
    drop(client);
    wait_until(&server, "all connections have ended", || server.tasks.is_empty());
}

#[test]
fn heads_that_are_too_large() {
    let server = Server::new(RULES);
    let many: String = (0..65).map(|number| format!("x-{number}: 1\r\n")).collect();
    let mut client = Client::connect(server.http);
    client.send(request(&many));
    client.reply().assert_problem(431, &["more than 64 headers"]);
    for header in [format!("x-long: {}\r\n", "x".repeat(16 << 10)), "a: 1\r\n".repeat(200)] {
        let mut client = Client::connect(server.http);
        client.send(request(&header));
        assert_eq!(client.reply().status, 431);
        assert_eq!(client.read_to_end(), "");
    }
    let mut client = Client::connect(server.http);
    client.send(format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(70_000)));
    assert!(matches!(client.reply().status, 414 | 431));
}

#[test]
fn a_head_that_comes_too_slowly() {
    let server = server_with_bounds(Bounds { header_timeout: SHORT, ..long_bounds() });
    let mut client = Client::connect(server.http);
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\nx-slow: ");
    assert_eq!(client.read_to_end(), "", "closed without a response");
}

/// A byte now and then does not extend the timeout.
#[test]
fn a_slow_head_times_out() {
    let server = server_with_bounds(Bounds { header_timeout: SHORT, ..long_bounds() });
    let mut client = Client::connect(server.http);
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\nx-slow: ");
    // So rarely that the head does not become too large before the test ends.
    let every = Duration::from_millis(20);
    let dripping = async {
        while !client.is_closed() {
            client.send("x");
            tokio::time::sleep(every).await;
        }
    };
    server
        .runtime
        .block_on(async { tokio::time::timeout(TEST_TIMEOUT, dripping).await })
        .expect("not closed");
    assert_eq!(client.read_to_end(), "");
}

#[test]
fn a_body_that_comes_too_slowly() {
    let server = server_with_bounds(Bounds { header_timeout: SHORT, ..long_bounds() });
    let mut client = Client::connect(server.http);
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
    client.reply().assert_problem(408, &["the request did not arrive within 200ms"]);
    assert_eq!(client.read_to_end(), "");
}

#[test]
fn a_truncated_body() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
    drop(client);
    wait_until(&server, "the connection is gone", || server.tasks.is_empty());
    assert_eq!(post(&server, "/v1/peek", BODY).json()["remaining"], 1);
}

#[test]
fn only_idle_connections_are_closed() {
    let server = server_with_bounds(Bounds { idle_timeout: SHORT, ..long_bounds() });
    let now = || Duration::from_nanos(server.app.engine.clock().now().as_nanos());
    let mut never = Client::connect(server.http);
    let closed = std::thread::spawn(move || never.read_to_end());
    // One connection sends requests until the other is closed. If it is closed as well, the machine was busy and it
    // sent nothing for that long.
    let mut asked_at = now();
    let mut busy = Client::connect(server.http);
    while !closed.is_finished() {
        let asked_before_at = std::mem::replace(&mut asked_at, now());
        busy.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
        match busy.reply_if_open() {
            Some(reply) => assert_eq!(reply.status, 200),
            None => {
                let silent = now() - asked_before_at;
                assert!(silent >= SHORT * 9 / 10, "closed after {silent:?}");
                (asked_at, busy) = (now(), Client::connect(server.http));
            }
        }
    }
    assert_eq!(closed.join().unwrap(), "");
    assert_eq!(busy.read_to_end(), "", "it is closed too when it is idle");
}

#[test]
fn a_waiting_request_is_not_idle() {
    let rules = "
domain: api
rules:
  - { name: held, key: [user], limit: { limit: 1, per: 30m, burst: 1 }, action: { delay: { max_wait: 1h } } }
";
    let bounds = Bounds { header_timeout: SHORT, idle_timeout: SHORT, ..Bounds::default() };
    let server = Server::with(rules, ServerOptions { bounds, ..ServerOptions::default() });
    // The connection may be closed before it sends its request, if the machine is busy. Then it retries.
    let send_check = || {
        let mut client = Client::connect(server.http);
        client.send(request(""));
        client
    };
    while send_check().reply_if_open().is_none_or(|reply| reply.status != 200) {}
    let mut waiting = send_check();
    wait_until(&server, "the request waits", || {
        if waiting.is_closed() {
            waiting = send_check();
        }
        server.app.engine.waiting_requests() == 1
    });
    // These connections are idle, one after the other, and are closed.
    for _ in 0..2 {
        assert_eq!(Client::connect(server.http).read_to_end(), "");
    }
    assert_eq!(server.app.engine.waiting_requests(), 1);
    server.release_all();
    assert_eq!(waiting.reply().status, 200);
}
