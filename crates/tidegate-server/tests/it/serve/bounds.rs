//! No more connections, nor requests that wait, than there may be.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::serve::server::{ask, connect};
use crate::serve::{Directory, Server, wait_until};

/// Longer than anything here takes, on any machine.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn connections_over_the_limit_are_closed() {
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

#[test]
fn requests_over_queue_max_are_denied() {
    let directory = Directory::new();
    let rules = "domain: api\nrules:\n  - { name: held, key: [user], limit: 1 per 10 minutes, \
                 action: { delay: { max_wait: 1h } } }\n";
    let server = Server::start(&["--rules", &directory.write("rules.yaml", rules), "--queue-max", "2"]);
    let held = |requests: u64| {
        let page = ask(connect(server.address("admin")), "GET", "/metrics", "").body;
        page.contains(&format!("\ntidegate_held_requests {requests}\n"))
    };
    let asking = |user: &str| {
        let mut stream = TcpStream::connect(server.address("resp")).unwrap();
        stream.write_all(format!("TIDEGATE.CHECK api user {user}\n").as_bytes()).unwrap();
        stream
    };
    assert_eq!(server.check("ann"), 200);
    let _first = asking("ann");
    wait_until("one is held", || held(1));
    let _second = asking("ann");
    wait_until("two are held", || held(2));
    let mut beyond = asking("ann");
    beyond.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut answer = [0; b"*6\r\n$6\r\ndenied".len()];
    beyond.read_exact(&mut answer).expect("it is not held");
    assert_eq!(&answer, b"*6\r\n$6\r\ndenied");
    // Another key has room of its own.
    assert_eq!(server.check("bob"), 200);
    let _third = asking("bob");
    wait_until("three are held", || held(3));
}
