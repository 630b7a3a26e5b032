//! Waiting requests, and clients that misbehave meanwhile.

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use tidegate::rules::Entry;
use tidegate_server::serve::resp::RespBounds;

use crate::resp::server::encode_array;
use crate::resp::{Options, Server};
use crate::support::wait_until;

/// One request is allowed. The next one waits longer than any test, unless the test resets the key.
const RULES: &str = "
domain: api
rules:
  - { name: line, key: [line], limit: 1 per 20 minutes, action: { delay: { max_wait: 1h } } }
";
const QUEUE_KEY: [Entry<'static>; 1] = [Entry { key: "line", value: "1" }];
const CHECK: [&str; 4] = ["TIDEGATE.CHECK", "api", "line", "1"];
const ALLOWED: &str = "*6\r\n$7\r\nallowed\r\n:0\r\n:0\r\n:1200000\r\n:0\r\n$4\r\nline\r\n";

/// More than the system buffers between a server and a client on one machine.
const PAST_ALL_BUFFERS_BYTES: usize = 64 << 20;

/// The head of the queue must be decided before the others, even if its client does not read.
#[test]
fn a_waiting_client_that_does_not_read_does_not_block_the_queue() {
    let bounds = RespBounds {
        // So that the server reads on to the waiting request.
        output_bytes_max: 2 * PAST_ALL_BUFFERS_BYTES,
        write_timeout: Duration::from_secs(3_600),
        ..RespBounds::default()
    };
    let server = Server::start(&Options { rules: RULES, bounds, ..Options::default() });
    let mut first = server.connect();
    first.assert_reply(&CHECK, ALLOWED);

    let mut deaf = server.connect();
    let echo = encode_array(&["ECHO", &"x".repeat(1_000_000)]);
    for _ in 0..PAST_ALL_BUFFERS_BYTES / echo.len() {
        deaf.send(&echo);
    }
    deaf.send(encode_array(&CHECK));
    server.wait_until_waiting(1);
    let mut patient = server.connect();
    patient.send(encode_array(&CHECK));
    server.wait_until_waiting(2);

    server.reset("api", &QUEUE_KEY);
    server.wait_until_waiting(1);
    server.reset("api", &QUEUE_KEY);
    patient.expect_reply(ALLOWED);
}

/// The server reads from a waiting client to notice that it disconnects, but only up to a bound.
#[test]
fn input_of_a_waiting_client_is_bounded() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    client.assert_reply(&CHECK, ALLOWED);
    client.send(encode_array(&CHECK));
    server.wait_until_waiting(1);

    let ping = encode_array(&["PING"]);
    let many = ping.repeat(10_000);
    // If no byte was accepted for this long, the server does not read. A server without a bound would read everything.
    client.stream().set_write_timeout(Some(Duration::from_secs(1))).expect("a socket");
    let mut sent_bytes = 0;
    while sent_bytes < PAST_ALL_BUFFERS_BYTES {
        match client.stream().write(&many[sent_bytes % ping.len()..]) {
            Ok(sent) => sent_bytes += sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent_bytes < PAST_ALL_BUFFERS_BYTES, "all of {sent_bytes} bytes were read");

    // Nothing is lost, and nothing is answered too early.
    server.reset("api", &QUEUE_KEY);
    client.expect_reply(ALLOWED);
    client.expect_reply("+PONG\r\n".repeat(sent_bytes / ping.len()));
    client.send(&ping[sent_bytes % ping.len()..]);
    client.expect_reply("+PONG\r\n");
}

/// Commands on one connection wait in the queue one at a time, and input that is read meanwhile does not pile up.
#[test]
fn commands_after_a_waiting_one_are_answered_after_it() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    client.send([encode_array(&CHECK), encode_array(&CHECK), encode_array(&["ECHO", "a"])].concat());
    client.expect_reply(ALLOWED);
    for number in 0..50 {
        server.wait_until_waiting(1);
        client.send([encode_array(&CHECK), encode_array(&["ECHO", &number.to_string()])].concat());
        server.reset("api", &QUEUE_KEY);
        client.expect_reply(ALLOWED);
        client.read_reply();
    }
    // A disconnect is noticed even after all that.
    drop(client);
    wait_until("the queue is empty", || server.app.engine.waiting_requests() == 0);
    server.wait_for_connections();
}
