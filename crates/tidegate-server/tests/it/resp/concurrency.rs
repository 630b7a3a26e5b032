//! Limits are exact under concurrency.

use std::thread;

use crate::resp::Server;
use crate::resp::server::encode_array;

const CONNECTIONS: usize = 8;
const CALLS: usize = 500;
const PIPELINE: usize = 25;

/// Counts the replies for which `passes` is true, of calls that all connections make at the same time.
fn count_allowed(server: &Server, command: &[&str], passes: fn(&str) -> bool) -> usize {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    let pipeline = encode_array(command).repeat(PIPELINE);
                    let mut passing = 0;
                    for _ in 0..CALLS / PIPELINE {
                        client.send(&pipeline);
                        passing += (0..PIPELINE).filter(|_| passes(&client.read_reply())).count();
                    }
                    passing
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("a client failed")).sum()
    })
}

#[test]
fn throttle() {
    let server = Server::with_rules("");
    let command = ["CL.THROTTLE", "k", "1233", "1", "86400"];
    assert_eq!(count_allowed(&server, &command, |answer| answer.starts_with("*5\r\n:0\r\n")), 1_234);
}

#[test]
fn check() {
    let server =
        Server::with_rules("domain: api\nrules:\n  - { name: r, key: [user], limit: 1234 per 3650 days }");
    let command = ["TIDEGATE.CHECK", "api", "user", "1"];
    assert_eq!(count_allowed(&server, &command, |answer| answer.contains("allowed")), 1_234);
}
