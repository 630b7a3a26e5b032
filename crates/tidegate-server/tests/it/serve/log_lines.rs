//! Clients cannot fill the log.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::{Directory, Server, wait_until};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Settings without content.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING_ACK: &[u8] = &[0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1];

/// h2 warns of each answer to a ping that it did not send.
#[test]
fn lines_of_libraries_are_limited() {
    let server = Server::start(&[]);
    let mut client = TcpStream::connect(server.address("grpc")).unwrap();
    client.write_all(&[PREFACE, SETTINGS, &PING_ACK.repeat(1_000), PING].concat()).unwrap();
    // The server has read everything when it answers the last ping.
    let mut received = Vec::new();
    while !received.ends_with(&PING[9..]) {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("the server answers the ping");
        received.push(byte[0]);
    }
    let log = server.stop();
    let lines = log.lines().filter(|line| line.contains("PING ack")).count();
    // Ten in each window. The test may begin at the end of one.
    assert!((1..=20).contains(&lines), "{lines} lines: {log}");
}

#[test]
fn failed_logins_have_few_lines() {
    let server = Server::start(&["--resp-password", "a-long-password-for-tests"]);
    let mut clients: Vec<_> =
        (0..50).map(|_| TcpStream::connect(server.address("resp")).expect("the server listens")).collect();
    clients.iter_mut().for_each(|client| client.write_all(b"AUTH wrong\r\n").unwrap());
    for client in &mut clients {
        let mut answer = [0; 10];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"-WRONGPASS");
    }
    let attempts = |log: &str| -> u64 {
        let counts = log.lines().filter(|line| line.contains("clients sent a wrong secret"));
        let counts =
            counts.filter_map(|line| line.split_once("attempts=")?.1.split(' ').next()?.parse::<u64>().ok());
        counts.sum::<u64>()
    };
    wait_until("all attempts are reported, although no other follows", || attempts(&server.log()) == 50);
    let log = server.stop();
    let lines = log.lines().filter(|line| line.contains("clients sent a wrong secret")).count();
    // One in each window of ten seconds.
    assert!((1..=10).contains(&lines), "{lines} lines: {log}");
}

#[test]
fn log_plain_names_the_attributes_that_are_not_hashed() {
    let directory = Directory::new();
    let rules = "domain: api\nrules:\n  - { name: closed, match: { user: ann }, key: [user], limit: deny }\n";
    let rules = directory.write("rules.yaml", rules);
    for (flags, expected) in [
        (&[][..], "attributes=\"user=#"),
        (&["--log-plain", "user"], "attributes=\"user=ann region=#"),
        (&["--log-plain", "user,region"], "attributes=\"user=ann region=north\""),
    ] {
        let server = Server::start(&[&["--rules", &rules], flags].concat());
        let body = r#"{"domain": "api", "attributes": {"user": "ann", "region": "north"}}"#;
        assert_eq!(server.post("/v1/check", body).status, 429);
        server.wait_for_log(expected);
        server.stop();
    }
}

#[test]
fn descriptor_metrics_max_bounds_the_series() {
    let directory = Directory::new();
    let file = "domain: edge\ndescriptors:\n  - key: user\n    detailed_metric: true\n    rate_limit: { unit: day, requests_per_unit: 9 }\n";
    let rules = directory.write("edge.yaml", file);
    let server = Server::start(&["--rules", &rules, "--descriptor-metrics-max", "2"]);
    for user in 0..5 {
        let body = format!(
            r#"{{"domain": "edge", "descriptors": [{{"entries": [{{"key": "user", "value": "{user}"}}]}}]}}"#
        );
        assert_eq!(server.post("/json", &body).status, 200);
    }
    let page = server.get("/metrics").body;
    let hits: Vec<&str> =
        page.lines().filter(|line| line.starts_with("tidegate_descriptor_hits_total{")).collect();
    let expected = [
        r#"tidegate_descriptor_hits_total{domain="edge",descriptor="user_0"} 1"#,
        r#"tidegate_descriptor_hits_total{domain="edge",descriptor="user_1"} 1"#,
        r#"tidegate_descriptor_hits_total{domain="",descriptor="other"} 3"#,
    ];
    assert_eq!(hits, expected);
    server.stop();
}
