//! `TIDEGATE.ACQUIRE`, `TIDEGATE.RENEW`, `TIDEGATE.RELEASE`, and `TIDEGATE.REFUND` with the admin token.

use crate::resp::{Client, Options, Server};

const RULES: &str = "
domain: api
rules:
  - name: reports
    match: { tenant: { exists: true } }
    key: [tenant]
    limits:
      - { algorithm: concurrency, limit: 1, ttl: 5m }
      - 3 per hour
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 3 per hour }
";

const OK: &str = "+OK\r\n";

/// The elements of a reply, without their types.
fn elements(reply: &str) -> Vec<String> {
    let lines = reply.split("\r\n").skip(1).filter(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with('$') || *line == "$-1").map(|line| line.replace(':', "")).collect()
}

fn acquire(client: &mut Client, more: &[&str]) -> Vec<String> {
    elements(&client.call(&[&["TIDEGATE.ACQUIRE", "api", "tenant", "7"], more].concat()))
}

fn remaining(client: &mut Client) -> String {
    elements(&client.call(&["TIDEGATE.PEEK", "api", "user", "1", "COST", "0"]))[1].clone()
}

#[test]
fn acquire_renew_release() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let acquired = acquire(&mut client, &[]);
    assert_eq!((acquired.len(), acquired[0].as_str(), acquired[5].as_str()), (9, "allowed", "reports"));
    let (token, fence) = (acquired[6].as_str(), acquired[7].as_str());
    assert_eq!(token.len(), 80);
    assert!(fence.parse::<u64>().unwrap() > 1_700_000_000_000_000);
    assert!((1..=300_000).contains(&acquired[8].parse::<u64>().unwrap()), "{acquired:?}");

    let denied = acquire(&mut client, &[]);
    assert_eq!((denied[0].as_str(), &denied[6..]), ("denied", &["$-1"; 3].map(str::to_owned)[..]));

    let renewed = elements(&client.call(&["TIDEGATE.RENEW", token, "api", "tenant", "7", "TTL", "1m"]));
    assert_eq!((renewed.len(), renewed[0].as_str(), renewed[2].as_str()), (4, "renewed", fence));
    assert!((1..=60_000).contains(&renewed[3].parse::<u64>().unwrap()), "{renewed:?}");

    let release = ["TIDEGATE.RELEASE", token, "api", "tenant", "7"];
    client.assert_reply(&release, "$8\r\nreleased\r\n");
    client.assert_reply(&release, "$16\r\nalready_released\r\n");
    client.assert_reply(&["TIDEGATE.RELEASE", token, "api", "tenant", "8"], "$11\r\nwrong_owner\r\n");
    client.assert_reply(
        &["TIDEGATE.RENEW", token, "api", "tenant", "7"],
        "*4\r\n$16\r\nalready_released\r\n$-1\r\n$-1\r\n$-1\r\n",
    );
    assert_eq!(acquire(&mut client, &[])[0], "allowed");
}

#[test]
fn options_in_any_order() {
    let server = Server::with_rules(RULES);
    for options in
        [&["TTL", "30s"] as &[&str], &["ttl", "30000", "cost", "1"], &["COST", "1", "TTL", "30000ms"]]
    {
        let mut client = server.connect();
        let acquired = acquire(&mut client, options);
        assert!((1..=30_000).contains(&acquired[8].parse::<u64>().unwrap()), "{acquired:?}");
        client.assert_reply(&["TIDEGATE.RELEASE", &acquired[6], "api", "tenant", "7"], "$8\r\nreleased\r\n");
    }
}

/// Commands behind a release see its units, also if all arrive together.
#[test]
fn in_a_pipeline_and_a_transaction() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let token = acquire(&mut client, &[])[6].clone();
    let release = crate::resp::server::encode_array(&["TIDEGATE.RELEASE", &token, "api", "tenant", "7"]);
    let acquire = crate::resp::server::encode_array(&["TIDEGATE.ACQUIRE", "api", "tenant", "7"]);
    client.send([release, acquire].concat());
    client.expect_reply("$8\r\nreleased\r\n*9\r\n$7\r\nallowed\r\n");
    let rest: Vec<String> = (0..8).map(|_| client.read_reply()).collect();
    let token = rest[5].split("\r\n").nth(1).unwrap();
    client.assert_reply(&["MULTI"], OK);
    client.assert_reply(&["TIDEGATE.RELEASE", token, "api", "tenant", "7"], "+QUEUED\r\n");
    client.assert_reply(&["TIDEGATE.ACQUIRE", "api", "tenant", "7"], "+QUEUED\r\n");
    client.assert_reply(&["EXEC"], "*2\r\n$8\r\nreleased\r\n*9\r\n$7\r\nallowed\r\n");
}

#[test]
fn invalid_calls() {
    let server = Server::with_rules(RULES);
    let mut client = server.connect();
    let token = "0".repeat(64);
    for (command, error) in [
        (
            &["TIDEGATE.ACQUIRE", "api", "tenant", "7", "TTL", "0"] as &[&str],
            "TTL '0' is not a duration of at least 1 ms (hint: 30s, or a number of milliseconds)",
        ),
        (
            &["TIDEGATE.ACQUIRE", "api", "TTL", "1s"],
            "there is no attribute (hint: TIDEGATE.ACQUIRE domain key value [key value ...] [COST n] [TTL ttl])",
        ),
        (
            &["TIDEGATE.RENEW", "x", "api", "tenant", "7"],
            "the token is not one of 80 hexadecimal digits (hint: send the token of TIDEGATE.ACQUIRE)",
        ),
        (
            &["TIDEGATE.RELEASE", &token, "api", "tenant", "7", "COST"],
            "attribute 'COST' has no value (hint: keys and values come in pairs; a value may be empty)",
        ),
        (&["TIDEGATE.RELEASE", &token, "api"], "wrong number of arguments for 'tidegate.release' command"),
    ] {
        client.assert_reply(command, format!("-ERR {error}\r\n"));
    }
    client.assert_reply(&["TIDEGATE.RELEASE", &token, "api", "tenant", "7"], "$11\r\nwrong_owner\r\n");
}

#[test]
fn refunds_need_the_admin_token() {
    let refund = ["TIDEGATE.REFUND", "api", "user", "1", "COST", "2"];
    let server = Server::start(&Options { rules: RULES, ..Options::default() });
    let mut client = server.connect();
    client.assert_reply(
        &refund,
        "-NOPERM TIDEGATE.REFUND needs the admin token, and none is set (hint: set --admin-token)\r\n",
    );
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    client.assert_reply(&["AUTH", "admin", "x"], wrong);

    for password in [None, Some("pass")] {
        let server = Server::start(&Options {
            rules: RULES,
            password,
            admin_token: Some("t0ken"),
            ..Options::default()
        });
        let mut client = server.connect();
        let denied = "-NOPERM TIDEGATE.REFUND needs the admin token (hint: AUTH admin TOKEN)\r\n";
        match password {
            None => client.assert_reply(&refund, denied),
            Some(password) => {
                client.assert_reply(&refund, "-NOAUTH Authentication required.\r\n");
                client.assert_reply(&["AUTH", password], OK);
                client.assert_reply(&refund, denied);
                client.assert_reply(&["AUTH", "t0ken"], wrong);
            }
        }
        client.call(&["TIDEGATE.CHECK", "api", "user", "1", "COST", "3"]);
        assert_eq!(remaining(&mut client), "0");
        client.assert_reply(&["AUTH", "admin", "wrong"], wrong);
        client.assert_reply(&refund, denied);
        // The admin token also replaces the password.
        let mut operator = server.connect();
        operator.assert_reply(&["AUTH", "admin", "t0ken"], OK);
        assert!(operator.call(&["CLIENT", "INFO"]).contains(" user=admin "));
        operator.assert_reply(&refund, "*3\r\n$8\r\nrefunded\r\n:1\r\n:0\r\n");
        assert_eq!(remaining(&mut client), "2");
        let leased = ["TIDEGATE.REFUND", "api", "tenant", "7"];
        operator.assert_reply(&leased, "*3\r\n$8\r\nrefunded\r\n:1\r\n:1\r\n");
        operator
            .assert_reply(&["TIDEGATE.REFUND", "api", "plan", "x"], "*3\r\n$7\r\nnothing\r\n:0\r\n:0\r\n");
        operator.assert_reply(
            &["TIDEGATE.REFUND", "typo", "user", "1"],
            "-ERR the domain 'typo' has no rules (hint: use the name after `domain:` in a rules file)\r\n",
        );
        operator.assert_reply(&["RESET"], "+RESET\r\n");
        if password.is_none() {
            operator.assert_reply(&refund, denied);
        }
        let hello = operator.call(&["HELLO", "3", "AUTH", "admin", "t0ken"]);
        assert!(hello.starts_with("%7\r\n"), "{hello}");
        operator.assert_reply(&leased, "*3\r\n$8\r\nrefunded\r\n:1\r\n:1\r\n");
    }
}
