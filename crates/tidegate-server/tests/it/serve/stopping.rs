//! The end, by signals.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::serve::server::{ask, connect};
use crate::serve::{Directory, Server, wait_until};

/// A request of a user whose first has passed waits for half an hour, or until somebody resets the user.
const DELAY_RULES: &str = "domain: api\nrules:\n  - name: held\n    key: [user]\n    limit: { limit: 1, per: 30m, burst: 1 }\n    \
     action: { delay: { max_wait: 1h } }\n";

const ANN: &str = r#"{"domain": "api", "attributes": {"user": "ann"}}"#;

#[test]
fn sigterm_and_sigint_stop_the_server() {
    for name in ["TERM", "INT"] {
        let server = Server::start(&[]);
        server.signal(name);
        let (status, _, log) = server.wait();
        assert_eq!(status.code(), Some(0), "{name}: {log}");
        assert!(log.contains("stopping") && log.contains("stopped"), "{log}");
    }
}

#[test]
fn idle_connections_are_closed() {
    let server = Server::start(&["--drain-timeout", "1h"]);
    let mut idle: Vec<TcpStream> = ["http", "grpc", "resp", "admin"]
        .iter()
        .map(|protocol| TcpStream::connect(server.address(protocol)).unwrap())
        .collect();
    server.stop();
    for stream in &mut idle {
        let mut rest = Vec::new();
        // A goodbye, or nothing at all.
        let _ = stream.read_to_end(&mut rest);
    }
}

/// Two requests are under way when it is told to stop: one that is held, and one of an operator who lets it go, of which
/// the server has read no more than the head.
#[test]
fn started_requests_are_finished() {
    let long = ["--drain-timeout", "1h", "--header-timeout", "1h"];
    let (server, mut held, _directory) = start_with_waiting_request(&long);
    let mut reset = TcpStream::connect(server.address("admin")).unwrap();
    let length = ANN.len();
    write!(
        reset,
        "POST /v1/reset HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    let asked_for_the_body = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut heard = vec![0; asked_for_the_body.len()];
    reset.read_exact(&mut heard).unwrap();
    assert_eq!(heard, asked_for_the_body);

    server.signal("TERM");
    server.wait_for_log("stopping");
    // It is waited for: for a while nothing is heard, and nothing is cut off.
    held.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(held.read(&mut [0]).is_err(), "it is held");
    held.set_read_timeout(None).unwrap();
    reset.write_all(ANN.as_bytes()).unwrap();
    for stream in [&mut reset, &mut held] {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let (status, _, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("cut off"), "{log}");
}

#[test]
fn drain_timeout_ends_connections() {
    let (server, mut held, _directory) = start_with_waiting_request(&["--drain-timeout", "50ms"]);
    let log = server.stop();
    assert!(log.contains("connections cut off"), "{log}");
    assert_eq!(held.read_to_end(&mut Vec::new()).unwrap_or_default(), 0);
}

#[test]
fn a_second_signal_skips_the_drain() {
    let directory = Directory::new();
    let data = format!("{}/data", directory.path());
    let (server, _held, _rules) =
        start_with_waiting_request(&["--drain-timeout", "1h", "--data-dir", &data]);
    server.signal("TERM");
    server.wait_for_log("stopping");
    let log = server.stop();
    assert!(log.contains("the last snapshot is written") && log.contains("connections cut off"), "{log}");
}

/// A server, and a connection on which something is asked that takes half an hour if nobody resets the user.
fn start_with_waiting_request(args: &[&str]) -> (Server, TcpStream, Directory) {
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", DELAY_RULES);
    let server = Server::start(&[&["--rules", &rules], args].concat());
    assert_eq!(server.check("ann"), 200);
    let mut held = TcpStream::connect(server.address("http")).unwrap();
    let length = ANN.len();
    write!(held, "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{ANN}")
        .unwrap();
    wait_until("the request is held", || has_waiting_request(&server));
    (server, held, directory)
}

/// Whether a rule holds a request.
fn has_waiting_request(server: &Server) -> bool {
    let metrics = ask(connect(server.address("admin")), "GET", "/metrics", "").body;
    metrics.lines().any(|line| line.starts_with("tidegate_held_requests ") && !line.ends_with(" 0"))
}

#[test]
fn new_connections_are_refused_during_drain() {
    let (server, _held, _directory) = start_with_waiting_request(&["--drain-timeout", "1h"]);
    let address = server.address("http").to_owned();
    server.signal("TERM");
    wait_until("nobody is let in", || TcpStream::connect(&address).is_err());
    server.stop();
}
