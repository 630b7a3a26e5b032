//! `TIDEGATE.CHECK` and `TIDEGATE.PEEK`.

use std::time::Duration;

use crate::resp::server::encode_array;
use crate::resp::{Client, Server};

const RULES: &str = "
domain: api
rules:
  - { name: hard, match: { kind: hard }, key: [user], limit: 2 per 100 days }
  - { name: shadow, match: { kind: shadow }, limit: 1 per 100 days, action: shadow }
  - { name: quota, match: { kind: quota }, limit: 1 per 100 days, action: quota }
  - { name: soft, match: { kind: soft }, limit: 1 per 100 days, action: { soft: { margin: unlimited } } }
  - { name: ban, match: { kind: ban }, limit: 1 per 100 days, action: shadow_ban }
  - { name: paced, match: { kind: paced }, limit: { algorithm: leaky_bucket, limit: 1, per: 100d, queue: 5 } }
  - { name: closed, match: { kind: closed }, limit: 0 per day }
  - { name: held, match: { kind: held }, key: [user], limit: 1 per 100 ms, action: { delay: { max_wait: 1h } } }
  - { name: stuck, match: { kind: stuck }, key: [user], limit: 1 per 50 minutes, action: { delay: { max_wait: 1h } } }
";

/// The six elements of a reply. Times are rounded to days, because time passes during the test.
fn parse_reply(answer: &str) -> [String; 6] {
    let mut lines = answer.split("\r\n");
    assert_eq!(lines.next(), Some("*6"), "{answer}");
    std::array::from_fn(|index| {
        let line = lines.next().expect("six of them");
        match line.as_bytes()[0] {
            b'$' if line != "$-1" => lines.next().expect("its text").to_owned(),
            b':' if index > 1 => {
                const DAY_MS: i64 = 86_400_000;
                let number: i64 = line[1..].parse().expect("a number");
                if number > DAY_MS {
                    format!("{}d", (number + DAY_MS / 2) / DAY_MS)
                } else {
                    number.to_string()
                }
            }
            b':' => line[1..].to_owned(),
            _ => line.to_owned(),
        }
    })
}

#[track_caller]
fn assert_reply(client: &mut Client, command: &[&str], expected: [&str; 6]) {
    assert_eq!(parse_reply(&client.call(command)), expected.map(str::to_owned), "{command:?}");
}

#[test]
fn exact_replies() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let allowed = "*6\r\n$7\r\nallowed\r\n:-1\r\n:0\r\n:0\r\n:0\r\n";
    client.assert_reply(&["TIDEGATE.CHECK", "nosuch", "user", "1"], format!("{allowed}$-1\r\n"));
    client.assert_reply(&["tidegate.check", "api", "user", "1"], format!("{allowed}$-1\r\n"));
    client.assert_reply(
        &["TIDEGATE.CHECK", "api", "user", "1", "kind", "hard", "COST", "3"],
        "*6\r\n$6\r\ndenied\r\n:2\r\n:-1\r\n:0\r\n:0\r\n$4\r\nhard\r\n",
    );
    client.assert_reply(
        &["TIDEGATE.CHECK", "api", "kind", "closed"],
        "*6\r\n$6\r\ndenied\r\n:0\r\n:-1\r\n:0\r\n:0\r\n$6\r\nclosed\r\n",
    );
    client.assert_reply(
        &["TIDEGATE.CHECK", "api", "user", "1", "kind", "hard"],
        "*6\r\n$7\r\nallowed\r\n:1\r\n:0\r\n:4320000000\r\n:0\r\n$4\r\nhard\r\n",
    );
    client.call(&["HELLO", "3"]);
    client.assert_reply(&["TIDEGATE.CHECK", "nosuch", "user", "1"], format!("{allowed}_\r\n"));
    client.assert_reply(
        &["TIDEGATE.CHECK", "api", "kind", "hard", "user", "2"],
        "*6\r\n$7\r\nallowed\r\n:1\r\n:0\r\n:4320000000\r\n:0\r\n$4\r\nhard\r\n",
    );
}

#[test]
fn every_decision() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    for (kind, first, second) in [
        ("shadow", ["allowed", "0", "0", "100d", "0"], ["shadow_denied", "0", "0", "100d", "0"]),
        ("quota", ["allowed", "0", "0", "100d", "0"], ["over_quota", "0", "0", "100d", "0"]),
        ("soft", ["allowed", "0", "0", "100d", "0"], ["soft", "0", "0", "100d", "0"]),
        ("ban", ["allowed", "0", "0", "100d", "0"], ["shadow_banned", "0", "100d", "100d", "0"]),
        ("paced", ["allowed", "5", "0", "100d", "0"], ["delayed", "4", "0", "200d", "100d"]),
    ] {
        for [decision, remaining, retry_after, reset_after, delay] in [first, second] {
            let expected = [decision, remaining, retry_after, reset_after, delay, kind];
            assert_reply(&mut client, &["TIDEGATE.CHECK", "api", "kind", kind], expected);
        }
    }
}

#[test]
fn a_peek_charges_nothing() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let peek = ["TIDEGATE.PEEK", "api", "kind", "hard", "user", "1"];
    for _ in 0..3 {
        assert_reply(&mut client, &peek, ["allowed", "1", "0", "50d", "0", "hard"]);
    }
    assert_reply(
        &mut client,
        &["TIDEGATE.CHECK", "api", "kind", "hard", "user", "1", "COST", "0"],
        ["allowed", "2", "0", "0", "0", "hard"],
    );
    assert_reply(
        &mut client,
        &["TIDEGATE.CHECK", "api", "kind", "hard", "user", "1", "cost", "2"],
        ["allowed", "0", "0", "100d", "0", "hard"],
    );
    assert_reply(&mut client, &peek, ["denied", "0", "50d", "100d", "0", "hard"]);
    // It does not wait either.
    for _ in 0..2 {
        assert_reply(
            &mut client,
            &["TIDEGATE.PEEK", "api", "kind", "stuck"],
            ["allowed", "0", "0", "3000000", "0", "stuck"],
        );
    }
}

/// An attribute named `cost` at the end needs a cost after it.
#[test]
fn an_attribute_named_cost() {
    let server = Server::with_rules(
        "domain: api\nrules:\n  - { name: dear, match: { COST: high }, limit: 100 per 100 days }",
    );
    let mut client = server.connect();
    for (command, remaining) in [
        (&["TIDEGATE.CHECK", "api", "COST", "high", "COST", "2"] as &[&str], "98"),
        (&["TIDEGATE.CHECK", "api", "COST", "high", "user", "1"], "97"),
        (&["TIDEGATE.CHECK", "api", "COST", "high", "user", "1", "COST", "3"], "94"),
    ] {
        assert_eq!(parse_reply(&client.call(command))[1], remaining, "{command:?}");
    }
}

#[test]
fn invalid_calls() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    for command in ["TIDEGATE.CHECK", "TIDEGATE.PEEK"] {
        let name = command.to_lowercase();
        for short in [&[command] as &[&str], &[command, "api"], &[command, "api", "user"]] {
            client.assert_reply(short, format!("-ERR wrong number of arguments for '{name}' command\r\n"));
        }
        let no_cost = |text: &str| {
            format!(
                "COST '{text}' is not a whole number from 0 to 18446744073709551615 (hint: if it is an attribute, \
                 add COST 1 after it)"
            )
        };
        let usage = "there is no attribute (hint: TIDEGATE.CHECK domain key value [key value ...] [COST n])";
        for (arguments, error) in [
            (
                &["", "user", "1"] as &[&str],
                "the domain is empty (hint: use the name after `domain:` in a rules file)".to_owned(),
            ),
            (
                &["api", "user", "1", "x"],
                "attribute 'x' has no value (hint: keys and values come in pairs; a value may be empty)"
                    .to_owned(),
            ),
            (
                &["api", "user", "1", "COST"],
                "attribute 'COST' has no value (hint: keys and values come in pairs; a value may be empty)"
                    .to_owned(),
            ),
            (&["api", "user", "1", "COST", "x"], no_cost("x")),
            (&["api", "user", "1", "COST", ""], no_cost("")),
            (&["api", "user", "1", "cost", "-1"], no_cost("-1")),
            (&["api", "user", "1", "COST", "1.5"], no_cost("1.5")),
            (&["api", "user", "1", "COST", "18446744073709551616"], no_cost("18446744073709551616")),
            (&["api", "COST", "5"], usage.to_owned()),
        ] {
            let whole: Vec<&str> = std::iter::once(command).chain(arguments.iter().copied()).collect();
            client.assert_reply(&whole, format!("-ERR {error}\r\n"));
        }
        for index in 1..=3 {
            let mut bytes = encode_array(&[command, "a?i", "b?i", "c?i"]);
            let at =
                bytes.iter().enumerate().filter(|(_, byte)| **byte == b'?').nth(index - 1).expect("it").0;
            bytes[at] = 0xff;
            client.send(bytes);
            client.expect_reply(format!(
                "-ERR argument {index} is not UTF-8 (hint: domains and attributes are text)\r\n"
            ));
        }
    }
    client.assert_reply(&["PING"], "+PONG\r\n");
}

#[test]
fn the_largest_cost_and_the_most_attributes() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let most = u64::MAX.to_string();
    assert_reply(
        &mut client,
        &["TIDEGATE.CHECK", "api", "kind", "hard", "COST", &most],
        ["denied", "2", "-1", "0", "0", "hard"],
    );
    let names: Vec<String> = (0..63).map(|number| format!("a{number}")).collect();
    let attributes = names.iter().flat_map(|name| [name.as_str(), "x"]);
    let mut command = vec!["TIDEGATE.CHECK", "api", "kind", "hard"];
    command.extend(attributes);
    command.extend(["COST", "1"]);
    assert_eq!(parse_reply(&client.call(&command))[1], "1");
    // A key of nearly a megabyte is valid.
    let long = "x".repeat(1_000_000);
    for left in ["1", "0"] {
        let answer = client.call(&["TIDEGATE.CHECK", "api", "kind", "hard", "user", &long]);
        assert_eq!(parse_reply(&answer)[1], left);
    }
}

/// A delayed request delays its reply and later replies. Earlier replies are sent immediately.
#[test]
fn a_waiting_request_delays_later_replies() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let check = ["TIDEGATE.CHECK", "api", "kind", "held"];
    client.send(
        [
            encode_array(&["PING"]),
            encode_array(&check),
            encode_array(&check),
            encode_array(&check),
            encode_array(&["ECHO", "end"]),
        ]
        .concat(),
    );
    client.expect_reply("+PONG\r\n");
    for _ in 0..3 {
        let answer = client.read_reply();
        assert!(answer.starts_with("*6\r\n$7\r\nallowed\r\n:0\r\n:0\r\n"), "{answer}");
        // Sent while the next request may wait.
        client.send(encode_array(&["ECHO", "more"]));
    }
    client.expect_reply("$3\r\nend\r\n");
    client.expect_reply("$4\r\nmore\r\n".repeat(3));
}

/// A client that disconnects while its request waits leaves the queue: its connection ends, although the request would
/// wait 50 minutes.
#[test]
fn a_disconnected_client_leaves_the_queue() {
    let server = Server::with_rules(RULES);
    let check = encode_array(&["TIDEGATE.CHECK", "api", "kind", "stuck"]);
    let mut client = server.connect();
    client.send(&check);
    assert!(client.read_reply().contains("allowed"));
    client.send([encode_array(&["PING"]), check, encode_array(&["PING"])].concat());
    // The command before it is answered, so it waits now or very soon.
    client.expect_reply("+PONG\r\n");
    assert_eq!(server.connections(), 1);
    drop(client);
    server.wait_for_connections();
}

/// A waiting request does not block other connections.
#[test]
fn other_connections_are_not_delayed() {
    let server = Server::with_rules(RULES);
    let check = encode_array(&["TIDEGATE.CHECK", "api", "kind", "stuck"]);
    let mut waiting = server.connect();
    waiting.send([check.clone(), check].concat());
    assert!(waiting.read_reply().contains("allowed"));
    let mut other = server.connect();
    other.assert_reply(&["PING"], "+PONG\r\n");
    waiting.stream().set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
    let mut byte = [0];
    assert!(std::io::Read::read(waiting.stream(), &mut byte).is_err(), "a reply arrived");
}

/// A unit comes back every microsecond, so each reading of the clock would show other units left.
#[test]
fn the_commands_of_a_pipeline_are_decided_at_one_instant() {
    let server = Server::with_rules("{ domain: api, rules: [ { name: all, limit: 1000000 per second } ] }");
    let mut client = server.connect();
    client.send(encode_array(&["TIDEGATE.CHECK", "api", "user", "1"]).repeat(16));
    for taken in 1..=16 {
        let left = 1_000_000 - taken;
        client.expect_reply(format!("*6\r\n$7\r\nallowed\r\n:{left}\r\n:0\r\n:1\r\n:0\r\n$3\r\nall\r\n"));
    }
}

/// Each command of a pipeline is text on its own, whatever surrounds it.
#[test]
fn commands_beside_bytes_that_are_not_text() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let check = |user: &[u8]| {
        let head = "*6\r\n$14\r\nTIDEGATE.CHECK\r\n$3\r\napi\r\n$4\r\nkind\r\n$6\r\nclosed\r\n$4\r\nuser\r\n";
        [head.as_bytes(), format!("${}\r\n", user.len()).as_bytes(), user, b"\r\n"].concat()
    };
    let long = "\u{e9}".repeat(3_000);
    let users = [&b"ann"[..], b"\xff", "\u{e9}".as_bytes(), b"\xc3", long.as_bytes(), b"bob"];
    client.send(users.map(check).concat());
    for user in users {
        let expected = match str::from_utf8(user) {
            Ok(_) => "*6\r\n$6\r\ndenied\r\n:0\r\n:-1\r\n:0\r\n:0\r\n$6\r\nclosed\r\n",
            Err(_) => "-ERR argument 5 is not UTF-8 (hint: domains and attributes are text)\r\n",
        };
        client.expect_reply(expected);
    }
}

/// As many as over the other protocols.
#[test]
fn a_request_with_many_attributes() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let names: Vec<String> = (0..998).map(|number| format!("a{number}")).collect();
    let mut command = vec!["TIDEGATE.CHECK", "api", "kind", "hard", "user", "many"];
    names.iter().for_each(|name| command.extend([name.as_str(), "x"]));
    assert_eq!(parse_reply(&client.call(&command))[0], "allowed");
    command.extend(["b", "x", "c", "x", "d", "x"]);
    assert!(client.call(&command).starts_with("-ERR Protocol error: invalid multibulk length"));
}
