//! Commands of one connection that are asked together, and answered in their order.

use std::fmt::Write as _;

use crate::redis_fleet::asking::{Resp, check, request_body, post};
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
    // Heartbeats are among them.
    assert!(calls < COMMANDS / 4, "{calls} calls");
    assert_eq!(server.sample("tidegate_store_orders_total"), COMMANDS);
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

/// What needs no store waits for what came before it; so does what is wrong.
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
        "-ERR COST 'x' is no whole number",
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

/// It says so while the first of them are waited for, because there are more than are asked together, or because what comes
/// behind them is answered at once.
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
    // A pipeline that is asked for in several portions.
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

/// Their answers wait for its, and their decisions do not.
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
    wait_until("the last one is decided", || {
        post(server.http, "/v1/check", &free_of_cost).json()["remaining"] == 8
    });
    wait_until("the second is held", || server.app.engine.waiting_requests() == 1);
    assert_eq!(post(server.admin, "/v1/reset", &request_body("ann")).status, 200);
    assert!(client.read_reply().starts_with("allowed 0 "));
    assert!(client.read_reply().starts_with("allowed 8 "));
    assert_eq!(check(&server, "bob").json()["remaining"], 7);
}

/// A client that goes away while it is held leaves its line.
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
    wait_until("it is held", || server.app.engine.waiting_requests() == 1);
    drop(client);
    wait_until("it is not", || server.app.engine.waiting_requests() == 0);
}
