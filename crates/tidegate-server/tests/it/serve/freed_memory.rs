//! Memory that a flood of requests used goes back to the system.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::serve::{Directory, Server, wait_until};

const CONNECTIONS: usize = 96;
/// As many as a connection decides at the same time.
const REQUESTS_PER_CONNECTION: usize = 256;
/// The first request of each connection is admitted, and another one every ten seconds.
const WAITING_MIN: usize = CONNECTIONS * REQUESTS_PER_CONNECTION * 9 / 10;

const RULES: &str = "
domain: api
rules:
  - { name: held, key: [user], limit: 1 per 10 seconds, action: { delay: { max_wait: 1h } } }
";

/// Sends the requests. They wait until the connections are dropped.
fn flood(server: &Server) -> Vec<TcpStream> {
    let connections = (0..CONNECTIONS).map(|user| {
        let mut stream = TcpStream::connect(server.address("resp")).unwrap();
        let command = format!("TIDEGATE.CHECK api user {user}\n");
        stream.write_all(command.repeat(REQUESTS_PER_CONNECTION).as_bytes()).unwrap();
        stream
    });
    connections.collect()
}

#[test]
fn memory_is_given_back_after_a_flood() {
    /// Less would not show whether it is given back. Each request that waits takes some kilobytes.
    const FLOOD_BYTES_MIN: u64 = 2_048 * WAITING_MIN as u64;
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", RULES);
    let server = Server::start(&["--rules", &rules]);
    let before = server.resident_bytes();
    let connections = flood(&server);
    wait_until("the requests wait", || server.metric("tidegate_waiting_requests") >= WAITING_MIN as u64);
    let flood_bytes = server.resident_bytes().saturating_sub(before);
    assert!(flood_bytes > FLOOD_BYTES_MIN, "{flood_bytes}");
    drop(connections);
    let mut least = u64::MAX;
    wait_until(&format!("three quarters of {flood_bytes} bytes are given back"), || {
        least = least.min(server.resident_bytes().saturating_sub(before));
        least < flood_bytes / 4
    });
    server.stop();
}

/// Opens a connection and queues commands in it.
fn queue_commands(server: &Server) -> TcpStream {
    const COMMANDS: usize = 900;
    let mut stream = TcpStream::connect(server.address("resp")).unwrap();
    let echo = format!("*2\r\n$4\r\nECHO\r\n$1000\r\n{}\r\n", "x".repeat(1_000));
    stream.write_all(format!("MULTI\r\n{}", echo.repeat(COMMANDS)).as_bytes()).unwrap();
    let replies = "+OK\r\n".len() + "+QUEUED\r\n".len() * COMMANDS;
    stream.read_exact(&mut vec![0; replies]).unwrap();
    stream
}

/// A server that looks at its memory while a flood lasts must not take the memory of the flood for its own.
#[test]
fn memory_is_given_back_after_a_flood_that_lasts() {
    const FLOOD_BYTES_MIN: u64 = 50 << 20;
    /// Longer than several looks of the server at its memory.
    const HELD_MS: u64 = 8_000;
    let server = Server::start(&[]);
    let before = server.resident_bytes();
    let connections: Vec<TcpStream> = (0..64).map(|_| queue_commands(&server)).collect();
    let flood_bytes = server.resident_bytes().saturating_sub(before);
    assert!(flood_bytes > FLOOD_BYTES_MIN, "{flood_bytes}");
    let uptime_ms = || server.health()["uptime_ms"].as_u64().unwrap();
    let held_until_ms = uptime_ms() + HELD_MS;
    wait_until("the flood lasts", || uptime_ms() >= held_until_ms);
    drop(connections);
    wait_until(&format!("half of {flood_bytes} bytes are given back"), || {
        server.resident_bytes().saturating_sub(before) < flood_bytes / 2
    });
    server.stop();
}
