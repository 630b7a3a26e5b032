//! How connections end, and their bounds.

use std::io::Write as _;
use std::time::Duration;

use tidegate_server::serve::resp::RespBounds;

use crate::resp::server::encode_array;
use crate::resp::timeouts::send_until_closed;
use crate::resp::{Options, Server};

#[test]
fn idle_connections_are_closed() {
    let bounds = RespBounds {
        idle_timeout: Some(Duration::from_millis(80)),
        unused_timeout: Some(Duration::from_secs(3_600)),
        ..RespBounds::default()
    };
    let server = Server::start(&Options { bounds, ..Options::default() });
    let mut used = server.connect();
    let mut unused = server.connect();
    used.assert_reply(&["PING"], "+PONG\r\n");
    used.expect_end();
    unused.assert_reply(&["PING"], "+PONG\r\n");
    unused.expect_end();
}

/// Connections that send nothing, or never authenticate, or never finish a command.
#[test]
fn unused_connections_are_closed() {
    let bounds = RespBounds {
        idle_timeout: None,
        unused_timeout: Some(Duration::from_millis(80)),
        ..RespBounds::default()
    };
    let server = Server::start(&Options { bounds, password: Some("x"), ..Options::default() });
    let (mut silent, mut slow) = (server.connect(), server.connect());
    slow.try_send("*2\r\n$4\r\nAU");
    silent.expect_end();
    slow.expect_end();
    // A connection that sends a command gets a reply before it is closed, unless the machine is busy.
    let received = std::iter::repeat_with(|| {
        let mut stranger = server.connect();
        stranger.try_send(encode_array(&["PING"]));
        stranger.until_end()
    });
    let received = received.take(1_000).find(|received| !received.is_empty());
    assert_eq!(received.as_deref(), Some("-NOAUTH Authentication required.\r\n"));
}

#[test]
fn drain_answers_and_closes() {
    let bounds = RespBounds { command_timeout: Duration::from_millis(80), ..RespBounds::default() };
    let server = Server::start(&Options { bounds, ..Options::default() });
    let (mut idle, mut busy) = (server.connect(), server.connect());
    idle.assert_reply(&["PING"], "+PONG\r\n");
    busy.assert_reply(&["PING"], "+PONG\r\n");
    // An incomplete command gets its usual timeout.
    busy.send([encode_array(&["ECHO", "a"]), b"*1\r\n$4\r\nPI".to_vec()].concat());
    busy.expect_reply("$1\r\na\r\n");
    server.app.drain.begin();
    idle.expect_end();
    busy.expect_end();
    server.wait_for_connections();
}

/// A client that never stops sending is closed too, even if it is faster than the server and there is always an
/// incomplete command.
#[test]
fn drain_ends_a_client_that_never_stops() {
    let bounds = RespBounds { command_timeout: Duration::from_millis(80), ..RespBounds::default() };
    let server = Server::start(&Options { bounds, ..Options::default() });
    let mut client = server.connect();
    let mut sending = client.stream().try_clone().expect("a socket");
    let sender =
        std::thread::spawn(move || while sending.write_all(&encode_array(&["PING"]).repeat(100)).is_ok() {});
    client.expect_reply("+PONG\r\n".repeat(1_000));
    server.app.drain.begin();
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(client.stream(), &mut rest);
    drop(client);
    server.wait_for_connections();
    sender.join().expect("the sender did not end");
}

/// The same for a client that always has an incomplete command.
#[test]
fn drain_ends_a_client_with_partial_commands() {
    let bounds = RespBounds { command_timeout: Duration::from_millis(80), ..RespBounds::default() };
    let server = Server::start(&Options { bounds, ..Options::default() });
    let mut client = server.connect();
    client.send("PI");
    server.app.drain.begin();
    send_until_closed(&mut client, b"NG\r\nPI");
    server.wait_for_connections();
}

/// The server stops reading from a client that never reads replies, so pending output is bounded, and disconnects it in
/// the end.
#[test]
fn a_client_that_never_reads_is_disconnected() {
    let bounds = RespBounds {
        output_bytes_max: 1 << 16,
        write_timeout: Duration::from_millis(200),
        ..RespBounds::default()
    };
    let server = Server::start(&Options { bounds, ..Options::default() });
    let mut client = server.connect();
    let commands = encode_array(&["ECHO", &"x".repeat(10_000)]).repeat(100);
    // Far more than all buffers on the way hold.
    let sent = (0..1_000).take_while(|_| client.stream().write_all(&commands).is_ok()).count();
    assert!(sent < 1_000, "it was never disconnected");
    drop(client);
    server.wait_for_connections();
}

/// A reply in parts: each wait for room ends when the client reads.
#[test]
fn a_slow_reader_gets_every_reply() {
    let bounds = RespBounds { output_bytes_max: 1 << 12, ..RespBounds::default() };
    let server = Server::start(&Options { bounds, ..Options::default() });
    let mut client = server.connect();
    let text = "x".repeat(10_000);
    let answer = format!("${}\r\n{text}\r\n", text.len());
    let mut sending = client.stream().try_clone().expect("a socket");
    let commands = encode_array(&["ECHO", &text]);
    let sender =
        std::thread::spawn(move || (0..2_000).for_each(|_| sending.write_all(&commands).expect("it reads")));
    for _ in 0..2_000 {
        client.expect_reply(&answer);
    }
    sender.join().expect("all was sent");
}

/// More commands than one turn handles, next to a connection that sends one at a time.
#[test]
fn a_long_pipeline_does_not_block_others() {
    let bounds = RespBounds { commands_per_turn_max: 3, ..RespBounds::default() };
    let server = Server::start(&Options { bounds, ..Options::default() });
    let (mut long, mut short) = (server.connect(), server.connect());
    long.send(encode_array(&["PING"]).repeat(10_000));
    short.assert_reply(&["PING"], "+PONG\r\n");
    long.expect_reply("+PONG\r\n".repeat(10_000));
}

/// All decisions are counted, also those of a connection that is closed immediately, and all errors.
#[test]
fn counted_decisions_and_errors() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    let throttle = encode_array(&["CL.THROTTLE", "k", "1", "1", "86400"]);
    let commands =
        [encode_array(&["RESET"]), encode_array(&["CL.THROTTLE", "k"]), encode_array(&["nosuch"])].concat();
    client.send([throttle.repeat(5), commands, throttle, encode_array(&["QUIT"])].concat());
    (0..10).for_each(|_| drop(client.read_reply()));
    client.expect_end();
    let mut other = server.connect();
    other.send("*a\r\n");
    other.expect_reply("-ERR Protocol error: invalid multibulk length\r\n");
    let mut browser = server.connect();
    browser.send("GET / HTTP/1.1\r\n");
    browser.expect_end();
    drop(other);
    server.wait_for_connections();
    let page = server.app.metrics_page();
    let decisions = "tidegate_decisions_total{protocol=\"resp\",domain=\"\",rule=\"cl.throttle\"";
    let rejected = "tidegate_requests_rejected_total{protocol=\"resp\"";
    let refused = "tidegate_connections_refused_total{protocol=\"resp\"";
    for line in [
        format!("{decisions},decision=\"allowed\"}} 2\n"),
        format!("{decisions},decision=\"denied\"}} 4\n"),
        format!("{rejected},reason=\"bad_request\"}} 1\n"),
        format!("{rejected},reason=\"unknown_command\"}} 1\n"),
        format!("{rejected},reason=\"protocol_error\"}} 1\n"),
        format!("{refused},reason=\"http\"}} 1\n"),
    ] {
        assert!(page.contains(&line), "{line}{page}");
    }
}
