//! Commands of one connection are in flight together and answered in order.

use std::fmt::Write as _;

use super::client::{Resp, check, post, request_body};
use crate::redis_fleet::{Redis, Server, wait_until};

const RULES: &str = "
domain: api
rules:
  - { name: per-user, key: [user], limit: { limit: 5000, per: day, algorithm: sliding_log } }
";

#[test]
fn pipelined_commands_are_batched_and_keep_their_order() {
    const COMMANDS: u64 = 1_000;
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, RULES);
    let mut client = Resp::connect(&server);
    let before = redis.script_calls();
    let mut commands = String::new();
    for number in 0..COMMANDS {
        let _ = write!(commands, "TIDEGATE.CHECK api user u{number} COST {}\r\n", number + 1);
    }
    client.send(&commands);
    for number in 0..COMMANDS {
        let answer = client.read_reply();
        assert!(answer.starts_with(&format!("allowed {} ", 5_000 - number - 1)), "{number}: {answer}");
    }
    let calls = redis.script_calls() - before;
    // This includes heartbeats.
    assert!(calls < COMMANDS / 4, "{calls} calls");
    assert_eq!(server.sample("tidegate_store_plans_total"), COMMANDS);
}

/// A transaction has more commands than may be in flight together.
#[test]
fn transactions_are_batched_and_keep_their_order() {
    const COMMANDS: u64 = 1_000;
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, RULES);
    let mut client = Resp::connect(&server);
    let before = redis.script_calls();
    let mut commands = "MULTI\r\n".to_owned();
    for number in 0..COMMANDS {
        let _ = write!(commands, "TIDEGATE.CHECK api user ann COST {}\r\n", number % 3);
    }
    client.send(&commands);
    assert_eq!(client.read_reply(), "OK");
    (0..COMMANDS).for_each(|_| assert_eq!(client.read_reply(), "QUEUED"));
    assert_eq!(server.sample("tidegate_store_plans_total"), 0);
    client.send("TIDEGATE.CHECK api user ann COST x\r\nEXEC\r\nPING\r\n");
    assert_eq!(client.read_reply(), "QUEUED");
    let replies = client.read_reply();
    let left = replies.split("allowed ").skip(1).map(|reply| reply.split(' ').next().unwrap_or_default());
    let expected = (0..COMMANDS).scan(5_000, |left, number| {
        *left -= number % 3;
        Some(left.to_string())
    });
    assert_eq!(left.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert!(replies.contains("-ERR COST 'x' is not a whole number"), "{replies}");
    assert_eq!(client.read_reply(), "PONG");
    let calls = redis.script_calls() - before;
    assert!(calls < COMMANDS / 4, "{calls} calls");
}

#[test]
fn leases_over_the_redis_protocol() {
    const LEASE_RULES: &str = "
domain: api
rules:
  - name: locks
    key: [user]
    limits: [ { algorithm: concurrency, limit: 1, ttl: 5m } ]
    on_store_failure: deny
";
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, LEASE_RULES);
    let mut client = Resp::connect(&server);
    let acquired = client.command("TIDEGATE.ACQUIRE api user ann TTL 1m");
    assert!(acquired.starts_with("allowed 0 "), "{acquired}");
    let token = acquired.split(' ').nth(6).unwrap_or_default().to_owned();
    assert!(client.command("TIDEGATE.ACQUIRE api user ann").starts_with("denied 0 "));
    assert!(client.command(&format!("TIDEGATE.RENEW {token} api user ann TTL 1m")).starts_with("renewed "));
    // A release and what comes after it, in flight together.
    client
        .send(&format!("TIDEGATE.RELEASE {token} api user ann\r\nTIDEGATE.ACQUIRE api user ann\r\nPING\r\n"));
    assert_eq!(client.read_reply(), "released");
    assert!(client.read_reply().starts_with("allowed 0 "));
    assert_eq!(client.read_reply(), "PONG");
    assert_eq!(client.command(&format!("TIDEGATE.RELEASE {token} api user ann")), "already_released");
}

#[test]
fn commands_of_one_key_are_charged_in_order() {
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, RULES);
    let mut client = Resp::connect(&server);
    let commands: String = (0..50)
        .map(|_| "TIDEGATE.CHECK api user ann\r\nTIDEGATE.PEEK api user ann COST 0\r\nCL.THROTTLE k 99 99 86400\r\n")
        .collect();
    client.send(&commands);
    for used in 1..=50 {
        let left = 5_000 - used;
        assert!(client.read_reply().starts_with(&format!("allowed {left} 0 ")), "{used}");
        assert!(client.read_reply().starts_with(&format!("allowed {left} 0 ")), "{used}");
        assert!(client.read_reply().starts_with(&format!("0 100 {} -1 ", 100 - used)), "{used}");
    }
}

/// Commands that need no store, and invalid commands, are answered in their order too.
#[test]
fn other_commands_keep_their_order() {
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, RULES);
    let mut client = Resp::connect(&server);
    client.send(
        "TIDEGATE.CHECK api user a\r\nPING\r\nTIDEGATE.CHECK api\r\nTIDEGATE.CHECK api user b COST x\r\nECHO hello\r\n\
         TIDEGATE.CHECK api user c\r\nHELLO 2\r\nTIDEGATE.CHECK api user d\r\nNOPE\r\nTIDEGATE.CHECK api user e\r\nQUIT\r\n",
    );
    let expected = [
        "allowed 4999 ",
        "PONG",
        "-ERR wrong number of arguments",
        "-ERR COST 'x' is not a whole number",
        "hello",
        "allowed 4999 ",
        "server tidegate",
        "allowed 4999 ",
        "-ERR unknown command 'NOPE'",
        "allowed 4999 ",
        "OK",
    ];
    for expected in expected {
        let answer = client.read_reply();
        assert!(answer.starts_with(expected), "{expected}: {answer}");
    }
}

#[test]
fn a_half_closed_client_gets_its_replies() {
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, RULES);
    let mut client = Resp::connect(&server);
    client.send("TIDEGATE.CHECK api user a\r\nTIDEGATE.CHECK api user b\r\n");
    client.stop_sending();
    assert!(client.read_reply().starts_with("allowed 4999 "));
    assert!(client.read_reply().starts_with("allowed 4999 "));
}

/// The client closes its sending side while its first commands are in flight: either the commands behind them need no
/// store, or there are more commands than may be in flight together.
#[test]
fn a_client_that_half_closes_early_gets_all_replies() {
    const TIMES: usize = 20;
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, RULES);
    for time in 0..TIMES {
        let mut client = Resp::connect(&server);
        client
            .send(&format!("TIDEGATE.CHECK api user a{time}\r\nPING\r\nTIDEGATE.CHECK api user b{time}\r\n"));
        client.stop_sending();
        assert!(client.read_reply().starts_with("allowed 4999 "));
        assert_eq!(client.read_reply(), "PONG");
        assert!(client.read_reply().starts_with("allowed 4999 "));
        client.expect_end();
    }
    // A pipeline that is sent to the store in several portions.
    const COMMANDS: usize = 600;
    for time in 0..TIMES {
        let mut client = Resp::connect(&server);
        let command = format!("TIDEGATE.CHECK api user c{time}\r\n");
        client.send(&command.repeat(COMMANDS));
        client.stop_sending();
        for used in 1..=COMMANDS {
            let answer = client.read_reply();
            assert!(answer.starts_with(&format!("allowed {} ", 5_000 - used)), "{used}: {answer}");
        }
        client.expect_end();
    }
}

/// Their answers wait for the answer of the first, but their decisions do not.
#[test]
fn commands_after_a_waiting_one_are_decided() {
    let rules = "
domain: api
rules:
  - { name: slow, match: { user: ann }, key: [user], limit: { limit: 1, per: 30m, algorithm: sliding_log },
      action: { delay: { max_wait: 1h } } }
  - { name: per-user, match: { user: bob }, key: [user], limit: { limit: 9, per: day, algorithm: sliding_log } }
";
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, rules);
    let mut client = Resp::connect(&server);
    client.send(
        "TIDEGATE.CHECK api user ann\r\nTIDEGATE.CHECK api user ann\r\nTIDEGATE.CHECK api user bob\r\n",
    );
    assert!(client.read_reply().starts_with("allowed 0 "));
    let free_of_cost = request_body("bob").replace("}}", "}, \"cost\": 0}");
    wait_until("the last request is decided", || {
        post(server.http, "/v1/check", &free_of_cost).json()["remaining"] == 8
    });
    wait_until("the second request waits", || server.app.engine.waiting_requests() == 1);
    assert_eq!(post(server.admin, "/v1/reset", &request_body("ann")).status, 200);
    assert!(client.read_reply().starts_with("allowed 0 "));
    assert!(client.read_reply().starts_with("allowed 8 "));
    assert_eq!(check(&server, "bob").json()["remaining"], 7);
}

/// The request of a client that disconnects leaves its wait queue.
#[test]
fn a_disconnected_client_stops_waiting() {
    let rules = "
domain: api
rules:
  - { name: slow, key: [user], limit: { limit: 1, per: 30m, algorithm: sliding_log }, action: { delay: { max_wait: 1h } } }
";
    let redis = Redis::start(&[]);
    let server = Server::start_with_long_timeout(&redis, rules);
    let mut client = Resp::connect(&server);
    client.send("TIDEGATE.CHECK api user ann\r\nTIDEGATE.CHECK api user ann\r\nPING\r\n");
    wait_until("the request waits", || server.app.engine.waiting_requests() == 1);
    drop(client);
    wait_until("it has left the queue", || server.app.engine.waiting_requests() == 0);
}
