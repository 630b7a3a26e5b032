//! Commands in pieces, in pipelines, and typed by hand.

use crate::resp::server::encode_array;
use crate::resp::{Client, Options, Server};

#[test]
fn byte_by_byte() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    for command in [&["PING"] as &[&str], &["ECHO", "a\r\nb"], &["CL.THROTTLE", "k", "1", "1", "60"]] {
        for byte in encode_array(command) {
            client.send([byte]);
        }
    }
    client.expect_reply("+PONG\r\n$4\r\na\r\nb\r\n*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60\r\n");
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    let numbers = 0..5_000;
    let commands: Vec<u8> = numbers.clone().flat_map(|n| encode_array(&["ECHO", &n.to_string()])).collect();
    client.send(commands);
    for number in numbers {
        let text = number.to_string();
        client.expect_reply(format!("${}\r\n{text}\r\n", text.len()));
    }
}

/// A client that sends a million bytes of commands and only then reads, as some clients do.
#[test]
fn a_pipeline_larger_than_any_buffer() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    let mut listener = ClientStream(&mut client).stream();
    let value = "x".repeat(20_000);
    let commands = encode_array(&["ECHO", &value]).repeat(500);
    let sending =
        std::thread::spawn(move || std::io::Write::write_all(&mut listener, &commands).expect("it reads"));
    let answer = format!("${}\r\n{value}\r\n", value.len());
    for _ in 0..500 {
        client.expect_reply(&answer);
    }
    sending.join().expect("all is sent");
}

/// Another handle of a client's connection.
struct ClientStream<'a>(&'a mut Client);

impl ClientStream<'_> {
    fn stream(self) -> std::net::TcpStream {
        self.0.stream().try_clone().expect("a socket")
    }
}

#[test]
fn inline_and_array_commands() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    client
        .send("PING\r\n*1\r\n$4\r\nPING\r\nECHO \"a b\"\r\n\r\n\nping hello\n*0\r\nCL.THROTTLE k 0 1 60\r\n");
    client
        .expect_reply("+PONG\r\n+PONG\r\n$3\r\na b\r\n$5\r\nhello\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
}

/// The largest command, and one that is a byte too large.
#[test]
fn the_largest_command() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    let text = "x".repeat((1 << 20) - "ECHO".len());
    client.assert_reply(&["ECHO", &text], format!("${}\r\n{text}\r\n", text.len()));
    // The memory is released.
    for _ in 0..500 {
        client.assert_reply(&["PING"], "+PONG\r\n");
    }
    client.send(
        encode_array(&["ECHO", &"x".repeat((1 << 20) - "ECHO".len() + 1)]).get(..64).expect("the head"),
    );
    client.expect_reply("-ERR Protocol error: invalid bulk length\r\n");
    client.expect_end();
}

/// All commands are answered although the client has closed its sending side.
#[test]
fn half_closed_clients_are_answered() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    client.send("PING\r\nPING\r\n");
    client.stop_sending();
    client.expect_reply("+PONG\r\n+PONG\r\n");
    client.expect_end();
}
