//! No more connections than there may be.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::server::{ask, connect};
use crate::{Server, wait_until};

#[test]
fn connections_beyond_the_bound_are_closed_at_once_and_room_comes_back() {
    let server = Server::start(&["--connections-max", "2"]);
    let open = || TcpStream::connect(server.address("http")).unwrap();
    let held = [open(), open()];
    let mut beyond = open();
    assert_eq!(beyond.read(&mut [0]).unwrap_or(0), 0, "it is closed");
    let metrics = ask(connect(server.address("admin")), "GET", "/metrics", "").body;
    let refused = r#"tidegate_connections_refused_total{protocol="http",reason="too_many"} 1"#;
    assert!(metrics.lines().any(|line| line == refused), "{metrics}");
    // Another listener has room of its own.
    let other = TcpStream::connect(server.address("resp")).unwrap();
    drop((held, other));
    wait_until("there is room again", || {
        let mut stream = open();
        let asked =
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
    });
}
