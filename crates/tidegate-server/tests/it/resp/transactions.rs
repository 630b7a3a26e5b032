//! `MULTI`, `EXEC` and `DISCARD`, byte for byte.

use crate::resp::server::encode_array;
use crate::resp::{Client, Options, Server};

const OK: &str = "+OK\r\n";
const QUEUED: &str = "+QUEUED\r\n";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";
const THROTTLE: [&str; 5] = ["CL.THROTTLE", "k", "1", "1", "3600"];

const RULES: &str = "
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 1 per hour, action: reject }
";

/// The units that `CL.THROTTLE` has left for the key.
fn remaining(client: &mut Client) -> String {
    let reply = client.call(&[&THROTTLE[..], &["0"]].concat());
    reply.split("\r\n").nth(3).unwrap_or_default().to_owned()
}

#[test]
fn nothing_is_charged_before_exec() {
    let server = Server::with_rules(RULES);
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(remaining(&mut other), ":2");
    client.assert_reply(&["MULTI"], OK);
    for command in [&THROTTLE as &[&str], &["ping"], &THROTTLE, &THROTTLE] {
        client.assert_reply(command, QUEUED);
    }
    assert_eq!(remaining(&mut other), ":2");
    client.send(encode_array(&["EXEC"]));
    client.expect_reply(
        "*4\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:3600\r\n+PONG\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n",
    );
    assert_eq!(client.read_reply(), ":7200\r\n");
    assert!(client.read_reply().starts_with("*5\r\n:1\r\n:2\r\n:0\r\n"));
    assert_eq!(remaining(&mut other), ":0");
    // The connection is no longer in a transaction.
    client.assert_reply(&["PING"], "+PONG\r\n");
    client.assert_reply(&["EXEC"], "-ERR EXEC without MULTI\r\n");
}

#[test]
fn discard_drops_the_commands() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    client.assert_reply(&["DISCARD"], "-ERR DISCARD without MULTI\r\n");
    client.assert_reply(&["MULTI"], OK);
    client.assert_reply(&THROTTLE, QUEUED);
    client.assert_reply(&["DISCARD"], OK);
    client.assert_reply(&["EXEC"], "-ERR EXEC without MULTI\r\n");
    assert_eq!(remaining(&mut client), ":2");
    client.assert_reply(&["MULTI"], OK);
    client.assert_reply(&THROTTLE, QUEUED);
    client.assert_reply(&["RESET"], "+RESET\r\n");
    client.assert_reply(&["EXEC"], "-ERR EXEC without MULTI\r\n");
    assert_eq!(remaining(&mut client), ":2");
    client.assert_reply(&["MULTI"], OK);
    client.assert_reply(&["EXEC"], "*0\r\n");
}

/// A rejected command aborts the transaction. A command that fails when it runs does not.
#[test]
fn errors() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    for (command, error) in [
        (&["GET", "x"] as &[&str], "-ERR unknown command 'GET', with args beginning with: 'x' \r\n"),
        (&["ECHO"], "-ERR wrong number of arguments for 'echo' command\r\n"),
        (&["AUTH", "x"], "-ERR Command not allowed inside a transaction\r\n"),
        (&["HELLO", "3"], "-ERR Command not allowed inside a transaction\r\n"),
    ] {
        client.assert_reply(&["MULTI"], OK);
        client.assert_reply(&THROTTLE, QUEUED);
        client.assert_reply(command, error);
        client.assert_reply(&THROTTLE, QUEUED);
        client.assert_reply(&["EXEC"], ABORTED);
        client.assert_reply(&["EXEC"], "-ERR EXEC without MULTI\r\n");
    }
    assert_eq!(remaining(&mut client), ":2");

    client.assert_reply(&["MULTI"], OK);
    client.assert_reply(&["MULTI"], "-ERR MULTI calls can not be nested\r\n");
    client.assert_reply(&["WATCH", "k"], "-ERR WATCH inside MULTI is not allowed\r\n");
    client.assert_reply(&["CL.THROTTLE", "k"], QUEUED);
    client.assert_reply(&["TIDEGATE.CHECK", "", "user", "1"], QUEUED);
    client.assert_reply(&["PING"], QUEUED);
    client.assert_reply(
        &["EXEC"],
        "*3\r\n-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> \
         [<quantity>]\r\n-ERR the domain is empty (hint: use the name after `domain:` in a rules file)\r\n+PONG\r\n",
    );

    let unsupported =
        "-ERR WATCH is not supported: there are no keys to watch (hint: MULTI needs no WATCH)\r\n";
    client.assert_reply(&["WATCH", "k"], unsupported);
    client.assert_reply(&["UNWATCH"], OK);
}

#[test]
fn commands_and_bytes_are_bounded() {
    let server = Server::start(&Options::default());
    let full = "-ERR the transaction has more than 1024 commands or 1048576 bytes (hint: send a pipeline without MULTI)\r\n";
    let mut client = server.connect();
    client.assert_reply(&["MULTI"], OK);
    for _ in 0..1_024 {
        client.assert_reply(&["PING"], QUEUED);
    }
    client.assert_reply(&["PING"], full);
    client.assert_reply(&["PING"], QUEUED);
    client.assert_reply(&["EXEC"], ABORTED);

    client.assert_reply(&["MULTI"], OK);
    let quarter = "x".repeat(256 << 10);
    for _ in 0..3 {
        client.assert_reply(&["ECHO", &quarter], QUEUED);
    }
    client.assert_reply(&["ECHO", &quarter], full);
    client.assert_reply(&["EXEC"], ABORTED);
}

/// As redis-py sends it: everything in one write. The replies are longer than the output may be.
#[test]
fn in_one_write() {
    let server = Server::start(&Options::default());
    for version in ["2", "3"] {
        let mut client = server.connect();
        client.call(&["HELLO", version]);
        let commands = 1_000;
        let mut bytes = encode_array(&["MULTI"]);
        (0..commands).for_each(|_| bytes.extend(encode_array(&["COMMAND", "DOCS"])));
        bytes.extend(encode_array(&["EXEC"]));
        bytes.extend(encode_array(&["PING"]));
        client.send(bytes);
        client.expect_reply(format!("{OK}{}*{commands}\r\n", QUEUED.repeat(commands)));
        let documents: Vec<String> = (0..commands).map(|_| client.read_reply()).collect();
        assert!(documents.iter().all(|each| *each == documents[0] && each.contains("tidegate.check")));
        client.expect_reply("+PONG\r\n");
    }
}

/// A rule with `delay` holds its reply; the commands behind it are decided meanwhile.
#[test]
fn a_held_command_in_a_transaction() {
    let server = Server::with_rules(
        "
domain: api
rules:
  - { name: held, match: { user: { exists: true } }, key: [user], limit: 1 per 20 minutes, action: { delay: { max_wait: 1h } } }
",
    );
    let mut client = server.connect();
    client.send(
        [
            encode_array(&["MULTI"]),
            encode_array(&["TIDEGATE.CHECK", "api", "user", "1"]),
            encode_array(&["TIDEGATE.CHECK", "api", "user", "1"]),
            encode_array(&["TIDEGATE.CHECK", "api", "plan", "1"]),
            encode_array(&["EXEC"]),
            encode_array(&["PING"]),
        ]
        .concat(),
    );
    client.expect_reply(format!("{OK}{}*3\r\n*6\r\n$7\r\nallowed\r\n", QUEUED.repeat(3)));
    server.wait_until_waiting(1);
    server.reset("api", &[tidegate::rules::Entry { key: "user", value: "1" }]);
    for _ in 0..5 {
        client.read_reply();
    }
    assert!(client.read_reply().starts_with("*6\r\n$7\r\nallowed\r\n"));
    assert!(client.read_reply().starts_with("*6\r\n$7\r\nallowed\r\n:-1\r\n"));
    client.expect_reply("+PONG\r\n");
}
