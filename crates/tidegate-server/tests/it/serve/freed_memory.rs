//! Memory that a flood of requests used goes back to the system.

use std::io::Write as _;
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
