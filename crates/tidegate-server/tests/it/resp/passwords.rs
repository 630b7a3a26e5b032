//! A password, and none.

use crate::resp::{Options, Server};

const OK: &str = "+OK\r\n";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
const NO_AUTH: &str = "-NOAUTH Authentication required.\r\n";

#[test]
fn nothing_without_the_password() {
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
        client.ask(command, NO_AUTH);
    }
    client.ask(&["nosuch"], "-ERR unknown command 'nosuch', with args beginning with: \r\n");
    for hello in [&["HELLO"] as &[&str], &["HELLO", "3"]] {
        assert!(client.answer(hello).starts_with("-NOAUTH HELLO must be called with the client already "));
    }
    for guess in ["", "s3cre", "s3cret1", "S3CRET"] {
        client.ask(&["AUTH", guess], WRONG);
        client.ask(&["AUTH", "default", guess], WRONG);
        client.ask(&["HELLO", "3", "AUTH", "default", guess], WRONG);
    }
    client.ask(&["AUTH", "bob", "s3cret"], WRONG);
    client.ask(&["AUTH", "a", "b", "c"], "-ERR syntax error\r\n");
    client.ask(&["PING"], NO_AUTH);
    client.ask(&["AUTH", "s3cret"], OK);
    client.ask(&["PING"], "+PONG\r\n");
    // A wrong guess takes nothing away.
    client.ask(&["AUTH", "x"], WRONG);
    client.ask(&["PING"], "+PONG\r\n");
    client.ask(&["RESET"], "+RESET\r\n");
    client.ask(&["PING"], NO_AUTH);
    client.ask(&["AUTH", "default", "s3cret"], OK);
    client.ask(&["PING"], "+PONG\r\n");
    let mut other = server.connect();
    other.ask(&["PING"], NO_AUTH);
    assert!(other.answer(&["HELLO", "3", "AUTH", "default", "s3cret"]).starts_with("%7\r\n"));
    other.ask(&["PING"], "+PONG\r\n");
}

/// As in a pipeline of a client that connects: what comes behind the password is answered.
#[test]
fn the_password_and_more_at_once() {
    let server = Server::start(&Options { password: Some("s3cret"), ..Options::default() });
    let mut client = server.connect();
    client.send("AUTH s3cret\r\n*11\r\n");
    client.send("$1\r\na\r\n".repeat(11));
    client.expect("+OK\r\n-ERR unknown command 'a'");
}

#[test]
fn strangers_may_not_send_much() {
    let server = Server::start(&Options { password: Some("s3cret"), ..Options::default() });
    for (bytes, error) in
        [("*11\r\n", "unauthenticated multibulk length"), ("*1\r\n$16385\r\n", "unauthenticated bulk length")]
    {
        let mut client = server.connect();
        client.send(bytes);
        client.expect(format!("-ERR Protocol error: {error}\r\n"));
        client.expect_end();
    }
}

#[test]
fn a_password_where_there_is_none() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    client.ask(
        &["AUTH", "x"],
        "-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
         configuration is correct?\r\n",
    );
    client.ask(&["AUTH", "default", "x"], OK);
    client.ask(&["AUTH", "bob", "x"], WRONG);
}
