//! A client that does not read its answers, while one of its requests stands first in a line.

use std::time::Duration;

use tidegate_server::serve::resp::RespBounds;

use crate::redis_fleet::asking::{Resp, request_body, post};
use crate::redis_fleet::server::{Options, LONG_TIMEOUT, domains};
use crate::redis_fleet::{Redis, Server, wait_until};

/// One of each line passes, and no test lives to see the turn of the next, unless it gives it to them.
const RULES: &str = "
domain: api
rules:
  - { name: fast, match: { user: bob }, key: [user], limit: { limit: 1000, per: day, algorithm: sliding_log } }
  - { name: line, match: { user: { prefix: line } }, key: [user],
      limit: { limit: 1, per: 30m, algorithm: sliding_log }, action: { delay: { max_wait: 1h } } }
";
/// Answers that are given when the first one is, and how large each is: together more than the buffers of the system hold
/// between a server and a client on one machine.
const ANSWERS: usize = 200;
const ANSWER_BYTES: usize = 400_000;

const QUEUED_CHECK: &str = "TIDEGATE.CHECK api user line\r\n";

/// A server, and a client that does not read and whose request is in front of `line`, behind so many answers that it would have
/// to read before more is written.
fn start_with_slow_reader(redis: &Redis, output_bytes_max: usize) -> (Server, Resp) {
    let mut domains = domains(RULES);
    // Which is part of its answers.
    domains[0].rules[0].name = "x".repeat(ANSWER_BYTES).into();
    let resp =
        RespBounds { output_bytes_max, write_timeout: Duration::from_secs(3_600), ..RespBounds::default() };
    let server = Server::with(redis, Options { domains, timeout: LONG_TIMEOUT, resp });
    let mut first = Resp::connect(&server);
    for line in ["line", "line-before"] {
        assert!(first.ask(&format!("TIDEGATE.CHECK api user {line}")).starts_with("allowed "));
    }
    let mut deaf = Resp::connect(&server);
    deaf.send("TIDEGATE.CHECK api user line-before\r\n");
    deaf.send(&"TIDEGATE.CHECK api user bob\r\n".repeat(ANSWERS));
    deaf.send(QUEUED_CHECK);
    wait_until("the first and the last are held", || server.app.engine.waiting_requests() == 2);
    let free_of_cost = request_body("bob").replace("}}", "}, \"cost\": 0}");
    wait_until("those between them are decided", || {
        post(server.http, "/v1/check", &free_of_cost).json()["remaining"] == 1_000 - ANSWERS
    });
    (server, deaf)
}

fn reset(server: &Server, user: &str) {
    assert_eq!(post(server.admin, "/v1/reset", &request_body(user)).status, 200);
}

/// While it goes on sending: more than is asked at once, so that there is always one more to be asked.
#[test]
fn a_client_that_does_not_read_does_not_block_the_queue() {
    let redis = Redis::start(&[]);
    let (server, mut deaf) = start_with_slow_reader(&redis, 1_024);
    deaf.send(&"TIDEGATE.CHECK api user bob COST 0\r\n".repeat(256));
    reset(&server, "line-before");
    wait_until("its first request is answered", || server.app.engine.waiting_requests() == 1);
    let mut patient = Resp::connect(&server);
    patient.send(QUEUED_CHECK);
    wait_until("both stand in line", || server.app.engine.waiting_requests() == 2);
    reset(&server, "line");
    wait_until("who is in front leaves", || server.app.engine.waiting_requests() == 1);
    reset(&server, "line");
    assert!(patient.read_reply().starts_with("allowed 0 "));
}

/// When it sends no more, it is soon not waited for, however long it leaves unread what there is.
#[test]
fn a_half_closed_client_that_does_not_read_leaves_the_queue() {
    let redis = Redis::start(&[]);
    let (server, mut deaf) = start_with_slow_reader(&redis, usize::MAX);
    reset(&server, "line-before");
    wait_until("its first request is answered", || server.app.engine.waiting_requests() == 1);
    deaf.stop_sending();
    wait_until("nobody stands in line", || server.app.engine.waiting_requests() == 0);
    // What was answered is there to be read.
    assert_eq!(deaf.until_end().matches("allowed").count(), 1 + ANSWERS);
}
