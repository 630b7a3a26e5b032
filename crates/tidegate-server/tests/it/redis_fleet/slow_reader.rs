//! A client that does not read its answers while one of its requests is at the head of a wait queue.

use std::time::Duration;

use tidegate_server::serve::resp::RespBounds;

use super::client::{Resp, post, request_body};
use crate::redis_fleet::server::{LONG_TIMEOUT, Options, domains};
use crate::redis_fleet::{Redis, Server, wait_until};

/// One request per queue passes. The next one waits longer than any test runs, unless the test resets the user.
const RULES: &str = "
domain: api
rules:
  - { name: fast, match: { user: bob }, key: [user], limit: { limit: 1000, per: day, algorithm: sliding_log } }
  - { name: line, match: { user: { prefix: line } }, key: [user],
      limit: { limit: 1, per: 30m, algorithm: sliding_log }, action: { delay: { max_wait: 1h } } }
";
/// The number and size of the answers that follow the first one: together more than the socket buffers hold.
const ANSWERS: usize = 200;
const ANSWER_BYTES: usize = 400_000;

const QUEUED_CHECK: &str = "TIDEGATE.CHECK api user line\r\n";

/// A server, and a client that does not read. The client's request is at the head of the queue `line`. The answers before
/// it are too large for the buffers, so the server cannot write more until the client reads.
fn start_with_slow_reader(redis: &Redis, output_bytes_max: usize) -> (Server, Resp) {
    let mut domains = domains(RULES);
    // Answers contain the rule name.
    domains[0].rules[0].name = "x".repeat(ANSWER_BYTES).into();
    let resp =
        RespBounds { output_bytes_max, write_timeout: Duration::from_secs(3_600), ..RespBounds::default() };
    let server = Server::with(redis, Options { domains, resp, ..Options::new(RULES, LONG_TIMEOUT) });
    let mut first = Resp::connect(&server);
    for line in ["line", "line-before"] {
        assert!(first.command(&format!("TIDEGATE.CHECK api user {line}")).starts_with("allowed "));
    }
    let mut deaf = Resp::connect(&server);
    deaf.send("TIDEGATE.CHECK api user line-before\r\n");
    deaf.send(&"TIDEGATE.CHECK api user bob\r\n".repeat(ANSWERS));
    deaf.send(QUEUED_CHECK);
    wait_until("the first and the last request wait", || server.app.engine.waiting_requests() == 2);
    let free_of_cost = request_body("bob").replace("}}", "}, \"cost\": 0}");
    wait_until("the requests between them are decided", || {
        post(server.http, "/v1/check", &free_of_cost).json()["remaining"] == 1_000 - ANSWERS
    });
    (server, deaf)
}

fn reset(server: &Server, user: &str) {
    assert_eq!(post(server.admin, "/v1/reset", &request_body(user)).status, 200);
}

/// The client keeps sending: more commands than are in flight together, so that there is always one more to send.
#[test]
fn a_client_that_does_not_read_does_not_block_the_queue() {
    let redis = Redis::start(&[]);
    let (server, mut deaf) = start_with_slow_reader(&redis, 1_024);
    deaf.send(&"TIDEGATE.CHECK api user bob COST 0\r\n".repeat(256));
    reset(&server, "line-before");
    wait_until("the first request is answered", || server.app.engine.waiting_requests() == 1);
    let mut patient = Resp::connect(&server);
    patient.send(QUEUED_CHECK);
    wait_until("both requests wait", || server.app.engine.waiting_requests() == 2);
    reset(&server, "line");
    wait_until("the head leaves the queue", || server.app.engine.waiting_requests() == 1);
    reset(&server, "line");
    assert!(patient.read_reply().starts_with("allowed 0 "));
}

/// After the client closes its sending side, its request leaves the queue, even if answers stay unread.
#[test]
fn a_half_closed_client_that_does_not_read_leaves_the_queue() {
    let redis = Redis::start(&[]);
    let (server, mut deaf) = start_with_slow_reader(&redis, usize::MAX);
    reset(&server, "line-before");
    wait_until("the first request is answered", || server.app.engine.waiting_requests() == 1);
    deaf.stop_sending();
    wait_until("the queue is empty", || server.app.engine.waiting_requests() == 0);
    // The answers that were written can still be read.
    assert_eq!(deaf.until_end().matches("allowed").count(), 1 + ANSWERS);
}
