//! Invalid input: an error with the text of Redis, then the connection is closed.

use crate::resp::{Options, Server};

#[test]
fn protocol_errors_end_the_connection() {
    let server = Server::start(&Options::default());
    let endless = format!("*{}", "1".repeat(100));
    let long = "a".repeat((64 << 10) + 1);
    for (bytes, error) in [
        ("*3000000000\r\n", "invalid multibulk length"),
        ("*2008\r\n", "invalid multibulk length"),
        ("*-9999999999999999999\r\n", "invalid multibulk length"),
        (&endless, "too big mbulk count string"),
        ("*1\r\n$1048577\r\n", "invalid bulk length"),
        ("*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*2\r\n$4\r\nECHO\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n+PING\r\n", "expected '$', got '+'"),
        ("*1\r\n\n", "expected '$', got '?'"),
        ("*1\r\n$4\r\nPINGPONG", "bulk string without CRLF at its end"),
        ("ECHO \"a\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
    ] {
        let mut client = server.connect();
        // Earlier commands are answered.
        client.send(format!("PING\r\n{bytes}"));
        client.expect_reply(format!("+PONG\r\n-ERR Protocol error: {error}\r\n"));
        client.expect_end();
    }
}

/// A web page can make a browser send a form to a port on its machine. No line of it is run.
#[test]
fn http_is_disconnected() {
    let server = Server::start(&Options::default());
    for head in [
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nCL.THROTTLE k 0 1 60\r\n",
        "Host: 127.0.0.1\r\nPING\r\n",
        "GET / HTTP/1.1\r\n\r\nPING\r\n",
        "PUT /x HTTP/1.1\r\nPING\r\n",
        "OPTIONS * HTTP/1.1\r\nPING\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "*1\r\n$4\r\nPOST\r\n*1\r\n$4\r\nPING\r\n",
    ] {
        let mut client = server.connect();
        client.send(head);
        client.expect_end();
    }
    // Nothing was charged.
    server
        .connect()
        .assert_reply(&["CL.THROTTLE", "k", "0", "1", "60"], "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
}

#[test]
fn tls_on_the_plain_port_is_disconnected() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    client.send([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]);
    client.expect_end();
}

/// An HTTP method that a Redis client may send is just an unknown command.
#[test]
fn get_is_an_unknown_command() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    client.assert_reply(&["GET", "key"], "-ERR unknown command 'GET', with args beginning with: 'key' \r\n");
    client.assert_reply(&["PING"], "+PONG\r\n");
}

#[test]
fn unknown_commands_are_shown_in_part() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    let (a, b) = ("a".repeat(100), "b".repeat(100));
    let start = "-ERR unknown command";
    client.assert_reply(&["foo"], format!("{start} 'foo', with args beginning with: \r\n"));
    client.assert_reply(&["foo", "a", "b"], format!("{start} 'foo', with args beginning with: 'a' 'b' \r\n"));
    client.assert_reply(&[""], format!("{start} '', with args beginning with: \r\n"));
    client.assert_reply(
        &["foo", &a, &b, "c"],
        format!("{start} 'foo', with args beginning with: '{a}' '{}' \r\n", &b[..25]),
    );
    client.assert_reply(
        &[&"f".repeat(200), "b"],
        format!("{start} '{}', with args beginning with: 'b' \r\n", "f".repeat(128)),
    );
    client.assert_reply(
        &["f\r\no", "b\r\nc"],
        format!("{start} 'f  o', with args beginning with: 'b  c' \r\n"),
    );
}
