//! Connections that are kept open for nothing: those that never end what they begin, and strangers.

use std::io::{ErrorKind, Read as _, Write as _};
use std::time::Duration;

use tidegate_server::serve::resp::RespBounds;

use crate::resp::server::encode_array;
use crate::resp::{Client, Options, Server};

const SHORT: Duration = Duration::from_millis(80);
const LONG: Duration = Duration::from_secs(3_600);

/// Only commands that do not come to their end take too long.
fn short_command_timeout() -> RespBounds {
    RespBounds {
        idle_timeout: Some(LONG),
        unused_timeout: Some(LONG),
        command_timeout: SHORT,
        ..RespBounds::default()
    }
}

/// Only strangers take too long.
fn short_unused_timeout() -> RespBounds {
    RespBounds {
        idle_timeout: Some(LONG),
        unused_timeout: Some(SHORT),
        command_timeout: LONG,
        ..RespBounds::default()
    }
}

/// Says this over and over, faster than any of the timeouts, until the connection is closed.
#[track_caller]
pub fn send_until_closed(client: &mut Client, bytes: &[u8]) {
    /// Many times what any of the timeouts takes.
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
    panic!("it is never closed");
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

/// That there is a little more of it each time does not make it a command.
#[test]
fn a_slow_command_times_out() {
    let server = Server::start(&Options { bounds: short_command_timeout(), ..Options::default() });
    let mut line = server.connect();
    send_until_closed(&mut line, b"x");
    let mut bulk = server.connect();
    bulk.send("*2\r\n$4\r\nECHO\r\n$1000000\r\n");
    send_until_closed(&mut bulk, b"x");
}

/// A command that is late ends only its own connection's time: each has as long as any other.
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

/// Whatever they say: nothing at all, commands that are refused, empty lines, or one command that begins where the last
/// one ends, so that there always is one that has just begun.
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
    for (begun, on_and_on) in [("\r", "\n\r"), ("PI", "NG\r\nPI"), ("*1\r\n$4\r\n", "PING\r\n*1\r\n$4\r\n")] {
        let mut client = server.connect();
        client.send(begun);
        send_until_closed(&mut client, on_and_on.as_bytes());
    }
    silent.expect_end();
    half.expect_end();
    server.wait_for_connections();
}

/// Nor does one that never stops to send, so that there always is something to read.
#[test]
fn a_flood_does_not_keep_unauthenticated_connections_open() {
    let bounds = short_unused_timeout();
    let server = Server::start(&Options { bounds, password: Some("s3cret"), ..Options::default() });
    let mut client = server.connect();
    let lines = b"\r\n".repeat(100_000);
    // Far more than the time takes that it has.
    let is_closed = (0..10_000).any(|_| client.stream().write_all(&lines).is_err());
    assert!(is_closed, "it is never closed");
}

#[test]
fn authenticated_connections_stay_open() {
    let bounds = short_unused_timeout();
    let server = Server::start(&Options { bounds, password: Some("s3cret"), ..Options::default() });
    // It may be closed before it has said anything, if the machine has other things to do. Then another one tries.
    let known = std::iter::repeat_with(|| {
        let mut client = server.connect();
        client.try_send(encode_array(&["AUTH", "s3cret"]));
        (client.stream().peek(&mut [0]).unwrap_or(0) > 0).then_some(client)
    });
    let mut client = known.take(1_000).flatten().next().expect("one is let in");
    client.expect_reply("+OK\r\n");
    // Strangers that came after it are closed, and it is not.
    server.connect().expect_end();
    server.connect().expect_end();
    client.assert_reply(&["PING"], "+PONG\r\n");
}
