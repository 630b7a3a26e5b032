//! Shutdown by signals.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::serve::server::{connect, http_request};
use crate::serve::{Directory, Server, wait_until};

/// The second request of a user waits for half an hour, or until the user is reset.
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
        // Some protocols send a goodbye, others nothing.
        let _ = stream.read_to_end(&mut rest);
    }
}

/// Two requests are in flight at the signal: one that waits, and a reset that lets the first one pass. The server has
/// read only the head of the reset.
#[test]
fn started_requests_are_finished() {
    let long = ["--drain-timeout", "1h", "--header-timeout", "1h"];
    let (server, mut waiting, _directory) = start_with_waiting_request(&long);
    let mut reset = TcpStream::connect(server.address("admin")).unwrap();
    let length = ANN.len();
    write!(
        reset,
        "POST /v1/reset HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    let continue_reply = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut received = vec![0; continue_reply.len()];
    reset.read_exact(&mut received).unwrap();
    assert_eq!(received, continue_reply);

    server.signal("TERM");
    server.wait_for_log("stopping");
    // The server waits for the requests: nothing arrives for a while, and no connection is cut off.
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.read(&mut [0]).is_err(), "the request still waits");
    waiting.set_read_timeout(None).unwrap();
    reset.write_all(ANN.as_bytes()).unwrap();
    for stream in [&mut reset, &mut waiting] {
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
    let (server, mut waiting, _directory) = start_with_waiting_request(&["--drain-timeout", "50ms"]);
    let log = server.stop();
    assert!(log.contains("connections cut off"), "{log}");
    assert_eq!(waiting.read_to_end(&mut Vec::new()).unwrap_or_default(), 0);
}

#[test]
fn a_second_signal_skips_the_drain() {
    let directory = Directory::new();
    let data = format!("{}/data", directory.path());
    let (server, _held, _rules) = start_with_waiting_request(&["--drain-timeout", "1h", "--data-dir", &data]);
    server.signal("TERM");
    server.wait_for_log("stopping");
    let log = server.stop();
    assert!(log.contains("wrote the last snapshot") && log.contains("connections cut off"), "{log}");
}

/// A server, and a connection with a request that waits for half an hour unless the user is reset.
fn start_with_waiting_request(args: &[&str]) -> (Server, TcpStream, Directory) {
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", DELAY_RULES);
    let server = Server::start(&[&["--rules", &rules], args].concat());
    assert_eq!(server.check("ann"), 200);
    let mut waiting = TcpStream::connect(server.address("http")).unwrap();
    let length = ANN.len();
    write!(waiting, "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{ANN}")
        .unwrap();
    wait_until("the request waits", || has_waiting_request(&server));
    (server, waiting, directory)
}

/// Whether a request waits because of a rule.
fn has_waiting_request(server: &Server) -> bool {
    let metrics = http_request(connect(server.address("admin")), "GET", "/metrics", "").body;
    metrics.lines().any(|line| line.starts_with("tidegate_waiting_requests ") && !line.ends_with(" 0"))
}

#[test]
fn new_connections_are_refused_during_drain() {
    let (server, _held, _directory) = start_with_waiting_request(&["--drain-timeout", "1h"]);
    let address = server.address("http").to_owned();
    server.signal("TERM");
    wait_until("new connections are refused", || TcpStream::connect(&address).is_err());
    server.stop();
}
