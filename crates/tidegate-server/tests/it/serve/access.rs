//! Which clients may do what: host names, metrics, negative hits.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::server::{connect, http_request};
use super::{Directory, RULES, Server};

/// The response to a request with these headers.
fn send(address: &str, method: &str, path: &str, headers: &[&str]) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let mut connection = TcpStream::connect(address).expect("the server listens");
    write!(connection, "{method} {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    response
}

#[track_caller]
fn status(address: &str, method: &str, path: &str, headers: &[&str]) -> u16 {
    let response = send(address, method, path, headers);
    response.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{response}"))
}

/// A page can make its host name resolve to this machine (DNS rebinding).
#[test]
fn a_listener_on_loopback_refuses_foreign_host_names() {
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", RULES);
    let server = Server::start(&["--rules", &rules, "--http-hosts", "limits.internal,other.internal"]);
    let http = server.address("http");
    for path in ["/healthz?verbose", "/metrics", "/", "/openapi.json"] {
        let response = send(http, "GET", path, &["host: evil.example"]);
        assert!(response.starts_with("HTTP/1.1 421 ") && response.contains("--http-hosts"), "{response}");
    }
    for path in ["/v1/check", "/v1/acquire", "/json"] {
        assert_eq!(status(http, "POST", path, &["host: evil.example", "content-length: 0"]), 421, "{path}");
    }
    for host in ["localhost", "127.0.0.1", "[::1]:8080", "limits.internal:8080", "OTHER.internal"] {
        assert_eq!(status(http, "GET", "/metrics", &[&format!("host: {host}")]), 200, "{host}");
    }
    // Probes of load balancers use any name.
    for path in ["/readyz", "/healthcheck"] {
        assert_eq!(status(http, "GET", path, &["host: evil.example"]), 200, "{path}");
    }
    server.stop();
}

#[test]
fn a_public_listener_accepts_all_host_names() {
    let server = Server::start(&["--http", "0.0.0.0:0"]);
    let http = server.address("http").replace("0.0.0.0", "127.0.0.1");
    assert_eq!(status(&http, "GET", "/healthz?verbose", &["host: limits.example.org"]), 200);
    server.stop();
}

#[test]
fn metrics_follow_the_admin_token() {
    let directory = Directory::new();
    let token = directory.write("token", "a-long-token-for-the-tests-of-metrics\n");
    let with_token = ["host: localhost", "authorization: Bearer a-long-token-for-the-tests-of-metrics"];
    let without = ["host: localhost"];
    let server = Server::start(&["--admin-token-file", &token]);
    for protocol in ["http", "admin"] {
        let address = server.address(protocol);
        assert_eq!(status(address, "GET", "/metrics", &without), 401, "{protocol}");
        assert_eq!(status(address, "GET", "/metrics", &with_token), 200, "{protocol}");
        assert_eq!(status(address, "GET", "/healthz", &without), 200, "{protocol}");
    }
    server.stop();
    let server = Server::start(&["--admin-token-file", &token, "--metrics-access", "open"]);
    for protocol in ["http", "admin"] {
        assert_eq!(status(server.address(protocol), "GET", "/metrics", &without), 200, "{protocol}");
    }
    assert_eq!(status(server.address("admin"), "GET", "/v1/rules", &without), 401);
    server.stop();
}

#[test]
fn negative_hits_need_a_setting() {
    const REFUND: &str = r#"{"domain": "api", "descriptors": [
        {"entries": [{"key": "user", "value": "ann"}], "hitsAddend": 3, "isNegativeHits": true}]}"#;
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", RULES);
    for (how, status, then) in [("reject", 400, 429), ("refund", 200, 200)] {
        let server = Server::start(&["--rules", &rules, "--negative-hits", how]);
        assert_eq!([(); 4].map(|()| server.check("ann")), [200, 200, 200, 429]);
        let answer = http_request(connect(server.address("http")), "POST", "/json", REFUND);
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.body.contains("--negative-hits refund"), how == "reject", "{answer:?}");
        assert_eq!(server.check("ann"), then, "{how}");
        server.stop();
    }
}
