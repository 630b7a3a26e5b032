//! Connections without use: incomplete commands, and clients that do not authenticate.

use std::io::{ErrorKind, Read as _, Write as _};
use std::time::Duration;

use tidegate_server::serve::resp::RespBounds;

use crate::resp::server::encode_array;
use crate::resp::{Client, Options, Server};

const SHORT: Duration = Duration::from_millis(80);
const LONG: Duration = Duration::from_secs(3_600);

/// Only incomplete commands time out.
fn short_command_timeout() -> RespBounds {
    RespBounds {
        idle_timeout: Some(LONG),
        unused_timeout: Some(LONG),
        command_timeout: SHORT,
        ..RespBounds::default()
    }
}

/// Only unauthenticated connections time out.
fn short_unused_timeout() -> RespBounds {
    RespBounds {
        idle_timeout: Some(LONG),
        unused_timeout: Some(SHORT),
        command_timeout: LONG,
        ..RespBounds::default()
    }
}

/// Sends these bytes again and again, faster than any timeout, until the connection is closed.
#[track_caller]
pub fn send_until_closed(client: &mut Client, bytes: &[u8]) {
    /// Many times the longest timeout.
    const TIMES_MAX: usize = 10_000;
    let stream = client.stream();
    stream.set_read_timeout(Some(Duration::from_millis(2))).expect("a socket");
    for _ in 0..TIMES_MAX {
        if stream.write_all(bytes).is_err() {
            return;
        }
        match stream.read(&mut [0; 1024]) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
    panic!("the connection was never closed");
}

#[test]
fn a_partial_command_times_out() {
    let server = Server::start(&Options { bounds: short_command_timeout(), ..Options::default() });
    for half in ["*", "*2\r\n$4\r\nECHO\r\n$1\r\n", "PIN", "*1\r\n$4\r\nPING\r"] {
        let mut client = server.connect();
        client.assert_reply(&["PING"], "+PONG\r\n");
        client.send([&encode_array(&["ECHO", "a"])[..], half.as_bytes()].concat());
        client.expect_reply("$1\r\na\r\n");
        client.expect_end();
    }
}

/// More bytes do not extend the timeout.
#[test]
fn a_slow_command_times_out() {
    let server = Server::start(&Options { bounds: short_command_timeout(), ..Options::default() });
    let mut line = server.connect();
    send_until_closed(&mut line, b"x");
    let mut bulk = server.connect();
    bulk.send("*2\r\n$4\r\nECHO\r\n$1000000\r\n");
    send_until_closed(&mut bulk, b"x");
}

/// The timeout starts with each command.
#[test]
fn the_command_timeout_starts_with_the_command() {
    let bounds = RespBounds { command_timeout: LONG, ..short_command_timeout() };
    let server = Server::start(&Options { bounds, ..Options::default() });
    let mut client = server.connect();
    client.send("*1\r\n$4\r\nPI");
    client.send("NG\r\n*1\r\n$4\r\nPI");
    client.expect_reply("+PONG\r\n");
    client.send("NG\r\n");
    client.expect_reply("+PONG\r\n");
}

/// Whatever the client sends: nothing, rejected commands, empty lines, or commands that start where the last one ends,
/// so that there is always an incomplete one.
#[test]
fn unauthenticated_connections_time_out() {
    let bounds = short_unused_timeout();
    let server = Server::start(&Options { bounds, password: Some("s3cret"), ..Options::default() });
    let mut silent = server.connect();
    let mut half = server.connect();
    half.send("*2\r\n$4\r\nAUTH\r\n$6\r\ns3c");
    for words in ["*1\r\n$4\r\nPING\r\n", "\r\n", "*0\r\n", "AUTH guess\r\n", "HELLO 3\r\n", "nosuch\r\n"] {
        send_until_closed(&mut server.connect(), words.as_bytes());
    }
    for (start, on_and_on) in [("\r", "\n\r"), ("PI", "NG\r\nPI"), ("*1\r\n$4\r\n", "PING\r\n*1\r\n$4\r\n")] {
        let mut client = server.connect();
        client.send(start);
        send_until_closed(&mut client, on_and_on.as_bytes());
    }
    silent.expect_end();
    half.expect_end();
    server.wait_for_connections();
}

/// A client that never stops sending, so that there is always something to read, is closed too.
#[test]
fn a_flood_does_not_keep_unauthenticated_connections_open() {
    let bounds = short_unused_timeout();
    let server = Server::start(&Options { bounds, password: Some("s3cret"), ..Options::default() });
    let mut client = server.connect();
    let lines = b"\r\n".repeat(100_000);
    // Far more than fits into the timeout.
    let is_closed = (0..10_000).any(|_| client.stream().write_all(&lines).is_err());
    assert!(is_closed, "the connection was never closed");
}

#[test]
fn authenticated_connections_stay_open() {
    let bounds = short_unused_timeout();
    let server = Server::start(&Options { bounds, password: Some("s3cret"), ..Options::default() });
    // The connection may be closed before it authenticates, if the machine is busy. Then another one tries.
    let accepted = std::iter::repeat_with(|| {
        let mut client = server.connect();
        client.try_send(encode_array(&["AUTH", "s3cret"]));
        (client.stream().peek(&mut [0]).unwrap_or(0) > 0).then_some(client)
    });
    let mut client = accepted.take(1_000).flatten().next().expect("no connection was accepted");
    client.expect_reply("+OK\r\n");
    // Unauthenticated connections that were opened later are closed, and this one is not.
    server.connect().expect_end();
    server.connect().expect_end();
    client.assert_reply(&["PING"], "+PONG\r\n");
}
