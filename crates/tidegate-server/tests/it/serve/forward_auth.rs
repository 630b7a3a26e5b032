//! Settings of forward auth, and what the server logs about wrong ones.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::{Directory, Server};

const RULES: &str = "
domain: web
rules:
  - { name: per-ip, match: { path: /ip }, key: [ip], limit: { limit: 1, per: day, algorithm: sliding_log } }
  - { name: users, match: { path: /user }, key: [user], limit: { limit: 1, per: day, algorithm: sliding_log } }
  - { name: tenants, match: { path: /tenant }, key: [tenant], limit: { limit: 1, per: day, algorithm: sliding_log } }
  - { name: free, match: { path: /plan, plan: free }, limit: deny }
  - { name: clients, match: { path: /client }, key: [header.x-client], limit: 100 per second }
";

const FLAGS: [&str; 4] = ["--forward-auth-domain", "web", "--forward-auth-source", "nginx"];

fn start(directory: &Directory, flags: &[&str]) -> Server {
    let rules = directory.write("rules.yaml", RULES);
    Server::start(&[&FLAGS[..], &["--rules", &rules], flags].concat())
}

/// The status for a request with these headers. `start` comes before it on the connection.
fn authorize_after(server: &Server, start: &str, path: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(server.address("http")).unwrap();
    let request = format!(
        "{start}GET /v1/authorize HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-original-method: GET\r\n\
         x-original-uri: {path}\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn authorize(server: &Server, path: &str, headers: &str) -> u16 {
    authorize_after(server, "", path, headers)
}

#[test]
fn trusted_proxies() {
    let server = start(&Directory::new(), &["--trusted-proxies", "127.0.0.0/8,10.0.0.0/8"]);
    let status = |addresses: &str| authorize(&server, "/ip", &format!("x-forwarded-for: {addresses}\r\n"));
    assert_eq!(status("192.0.2.1, 203.0.113.9, 10.0.0.7"), 200);
    assert_eq!(status("192.0.2.2, 203.0.113.9, 10.0.0.8"), 429, "the client wrote the first entry");
    assert_eq!(status("203.0.113.9, 203.0.113.10"), 200);
    server.stop();
}

#[test]
fn the_header_forwarded() {
    let server = start(&Directory::new(), &["--trusted-hops", "1", "--forwarded-header", "forwarded"]);
    let status = |address: &str, other: &str| {
        authorize(&server, "/ip", &format!("forwarded: for={address}\r\nx-forwarded-for: {other}\r\n"))
    };
    assert_eq!(status("203.0.113.9", "192.0.2.1"), 200);
    assert_eq!(status("203.0.113.9", "192.0.2.2"), 429);
    assert_eq!(status("203.0.113.10", "192.0.2.2"), 200);
    server.stop();
}

#[test]
fn user_tenant_and_plan() {
    let sources =
        ["--user-from", "basic", "--tenant-from", "api-key:x-api-key", "--plan-from", "header:x-plan"];
    let server = start(&Directory::new(), &sources);
    // `ann:` and `bob:`.
    let user =
        |credentials: &str| authorize(&server, "/user", &format!("authorization: Basic {credentials}\r\n"));
    assert_eq!(["YW5uOg==", "YW5uOg==", "Ym9iOg=="].map(user), [200, 429, 200]);
    let tenant = |key: &str| authorize(&server, "/tenant", &format!("x-api-key: {key}\r\n"));
    assert_eq!(["k-1", "k-1", "k-2"].map(tenant), [200, 429, 200]);
    let plan = |plan: &str| authorize(&server, "/plan", &format!("x-plan: {plan}\r\n"));
    assert_eq!(["free", "paid"].map(plan), [429, 200]);
    server.stop();
}

#[test]
fn proxy_protocol() {
    let server = start(&Directory::new(), &["--http-proxy-protocol"]);
    let status = |address: &str| {
        let start = format!("PROXY TCP4 {address} 10.0.0.1 50000 443\r\n");
        authorize_after(&server, &start, "/ip", "x-forwarded-for: 192.0.2.1\r\n")
    };
    assert_eq!(["198.51.100.7", "198.51.100.7", "198.51.100.8"].map(status), [200, 429, 200]);
    // The connection says which client it is, so no hops have to be trusted.
    let log = server.stop();
    assert!(!log.contains("forwarded-untrusted"), "{log}");
}

#[test]
fn signs_of_wrong_settings_are_logged_once() {
    let server = start(&Directory::new(), &[]);
    for _ in 0..2 {
        assert_eq!(
            authorize(&server, "/client", "x-client: 2001:db8::1\r\nx-forwarded-for: 192.0.2.1\r\n"),
            200
        );
    }
    let log = server.stop();
    for (code, text) in [("forwarded-untrusted", "no proxy is trusted"), ("raw-ipv6-key", "clients/1")] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(code)).collect();
        assert!(lines.len() == 1 && lines[0].contains(text), "{code}: {log}");
    }
}

/// A sample of the requests is looked at, so it takes many.
#[test]
fn one_key_for_all_requests_is_logged() {
    const REQUESTS: usize = 64 * 1_000;
    const REQUESTS_PER_WRITE: usize = 100;
    let server = start(&Directory::new(), &[]);
    let mut stream = TcpStream::connect(server.address("http")).unwrap();
    let request = "GET /v1/authorize HTTP/1.1\r\nhost: a\r\nx-original-method: GET\r\nx-original-uri: /client\r\n\
                   x-client: same\r\n\r\n";
    let requests = request.repeat(REQUESTS_PER_WRITE);
    let mut replies = stream.try_clone().unwrap();
    // The server reads no further while its replies are not read.
    std::thread::spawn(move || std::io::copy(&mut replies, &mut std::io::sink()));
    for _ in 0..REQUESTS / REQUESTS_PER_WRITE {
        stream.write_all(requests.as_bytes()).unwrap();
    }
    server.wait_for_log("one-key");
    assert!(server.log().lines().any(|line| line.contains("one-key") && line.contains("clients/1")));
    drop(stream);
    server.stop();
}
