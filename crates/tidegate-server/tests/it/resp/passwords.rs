//! With and without a password.

use std::time::Duration;

use crate::resp::{Options, Server};
use crate::support::wait_until;

const OK: &str = "+OK\r\n";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
const NO_AUTH: &str = "-NOAUTH Authentication required.\r\n";

#[test]
fn commands_need_the_password() {
    let server = Server::start(&Options { password: Some("s3cret"), ..Options::default() });
    let mut client = server.connect();
    for command in [
        &["PING"] as &[&str],
        &["CL.THROTTLE", "k", "1", "1", "60"],
        &["TIDEGATE.CHECK", "api", "user", "1"],
        &["TIDEGATE.PEEK", "api", "user", "1"],
        &["INFO"],
        &["CLIENT", "ID"],
        &["COMMAND"],
        &["CONFIG", "GET", "save"],
        &["ECHO", "a"],
        &["SELECT", "0"],
    ] {
        client.assert_reply(command, NO_AUTH);
    }
    client.assert_reply(&["nosuch"], "-ERR unknown command 'nosuch', with args beginning with: \r\n");
    for hello in [&["HELLO"] as &[&str], &["HELLO", "3"]] {
        assert!(client.call(hello).starts_with("-NOAUTH HELLO must be called with the client already "));
    }
    for guess in ["", "s3cre", "s3cret1", "S3CRET"] {
        client.assert_reply(&["AUTH", guess], WRONG);
        client.assert_reply(&["AUTH", "default", guess], WRONG);
        client.assert_reply(&["HELLO", "3", "AUTH", "default", guess], WRONG);
    }
    client.assert_reply(&["AUTH", "bob", "s3cret"], WRONG);
    client.assert_reply(&["AUTH", "a", "b", "c"], "-ERR syntax error\r\n");
    client.assert_reply(&["PING"], NO_AUTH);
    client.assert_reply(&["AUTH", "s3cret"], OK);
    client.assert_reply(&["PING"], "+PONG\r\n");
    // A wrong password does not end the authentication.
    client.assert_reply(&["AUTH", "x"], WRONG);
    client.assert_reply(&["PING"], "+PONG\r\n");
    client.assert_reply(&["RESET"], "+RESET\r\n");
    client.assert_reply(&["PING"], NO_AUTH);
    client.assert_reply(&["AUTH", "default", "s3cret"], OK);
    client.assert_reply(&["PING"], "+PONG\r\n");
    let mut other = server.connect();
    other.assert_reply(&["PING"], NO_AUTH);
    assert!(other.call(&["HELLO", "3", "AUTH", "default", "s3cret"]).starts_with("%7\r\n"));
    other.assert_reply(&["PING"], "+PONG\r\n");
}

/// A connection has one guess at a time, and the answer is late. Other connections are not affected.
#[test]
fn failed_logins_are_delayed_and_counted() {
    const NEVER: Duration = Duration::from_secs(3_600);
    let options = Options { password: Some("s3cret"), failed_login_delay: NEVER, ..Options::default() };
    let server = Server::start(&options);
    let failed = || {
        let page = server.app.metrics_page();
        let sample = r#"tidegate_failed_logins_total{protocol="resp"} "#;
        page.lines()
            .find_map(|line| line.strip_prefix(sample))
            .expect("a sample")
            .parse::<u64>()
            .expect("a number")
    };
    for (index, guess) in
        ["AUTH x\r\n", "AUTH default x\r\n", "HELLO 3 AUTH default x\r\n"].iter().enumerate()
    {
        let mut client = server.connect();
        client.send(guess.repeat(3));
        wait_until("a failed login", || failed() == index as u64 + 1);
        client.assert_silent();
        let mut other = server.connect();
        other.assert_reply(&["AUTH", "s3cret"], OK);
    }
    assert_eq!(failed(), 3, "the other guesses of each connection wait");
}

/// As in the pipeline of a client that connects: commands after AUTH are answered.
#[test]
fn auth_in_a_pipeline() {
    let server = Server::start(&Options { password: Some("s3cret"), ..Options::default() });
    let mut client = server.connect();
    client.send("AUTH s3cret\r\n*11\r\n");
    client.send("$1\r\na\r\n".repeat(11));
    client.expect_reply("+OK\r\n-ERR unknown command 'a'");
}

#[test]
fn unauthenticated_clients_have_lower_limits() {
    let server = Server::start(&Options { password: Some("s3cret"), ..Options::default() });
    for (bytes, error) in
        [("*11\r\n", "unauthenticated multibulk length"), ("*1\r\n$16385\r\n", "unauthenticated bulk length")]
    {
        let mut client = server.connect();
        client.send(bytes);
        client.expect_reply(format!("-ERR Protocol error: {error}\r\n"));
        client.expect_end();
    }
}

#[test]
fn auth_without_a_password_set() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    client.assert_reply(
        &["AUTH", "x"],
        "-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
         configuration is correct?\r\n",
    );
    client.assert_reply(&["AUTH", "default", "x"], OK);
    client.assert_reply(&["AUTH", "bob", "x"], WRONG);
}
