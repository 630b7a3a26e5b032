//! `--connections-max`, `--connections-per-ip-max`, `--connections-memory-max` and `--queue-max`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::grpc::server::{descriptor, request};
use crate::serve::server::{connect, http_request, try_http_request};
use crate::serve::{Directory, Server, http2, wait_until};

/// Longer than anything here takes on any machine.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn connections_over_the_limit_are_closed() {
    let server = Server::start(&["--connections-max", "2"]);
    let open = || TcpStream::connect(server.address("http")).unwrap();
    let is_waiting = [open(), open()];
    let mut beyond = open();
    assert_eq!(beyond.read(&mut [0]).unwrap_or(0), 0, "the connection is closed");
    let metrics = http_request(connect(server.address("admin")), "GET", "/metrics", "").body;
    let refused = r#"tidegate_connections_refused_total{protocol="http",reason="too_many"} 1"#;
    assert!(metrics.lines().any(|line| line == refused), "{metrics}");
    // Each listener has its own maximum.
    let other = TcpStream::connect(server.address("resp")).unwrap();
    drop((is_waiting, other));
    wait_until("there is room again", || {
        let mut stream = open();
        let sent = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        sent.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
    });
}

/// All connections of a test come from one address.
#[test]
fn connections_of_one_client_over_its_limit_are_closed() {
    let server = Server::start(&["--connections-per-ip-max", "2"]);
    let open = || TcpStream::connect(server.address("resp")).unwrap();
    let mut held = [open(), open()];
    for connection in &mut held {
        connection.write_all(b"PING\r\n").unwrap();
        connection.read_exact(&mut [0; b"+PONG\r\n".len()]).unwrap();
    }
    assert_eq!(open().read(&mut [0]).unwrap_or(0), 0, "the connection is closed");
    let metrics = http_request(connect(server.address("admin")), "GET", "/metrics", "").body;
    let refused = r#"tidegate_connections_refused_total{protocol="resp",reason="too_many_from_ip"} 1"#;
    assert!(metrics.lines().any(|line| line == refused), "{metrics}");
    drop(held);
    wait_until("there is room again", || {
        let mut stream = open();
        stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut [0]).is_ok()
    });
}

#[test]
fn requests_over_queue_max_are_denied() {
    let directory = Directory::new();
    let rules = "domain: api\nrules:\n  - { name: held, key: [user], limit: 1 per 10 minutes, \
                 action: { delay: { max_wait: 1h } } }\n";
    let server = Server::start(&["--rules", &directory.write("rules.yaml", rules), "--queue-max", "2"]);
    let is_waiting = |requests: u64| {
        let page = http_request(connect(server.address("admin")), "GET", "/metrics", "").body;
        page.contains(&format!("\ntidegate_waiting_requests {requests}\n"))
    };
    let send_check = |user: &str| {
        let mut stream = TcpStream::connect(server.address("resp")).unwrap();
        stream.write_all(format!("TIDEGATE.CHECK api user {user}\n").as_bytes()).unwrap();
        stream
    };
    assert_eq!(server.check("ann"), 200);
    let _first = send_check("ann");
    wait_until("one request waits", || is_waiting(1));
    let _second = send_check("ann");
    wait_until("two requests wait", || is_waiting(2));
    let mut beyond = send_check("ann");
    beyond.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut answer = [0; b"*6\r\n$6\r\ndenied".len()];
    beyond.read_exact(&mut answer).expect("it is answered, not queued");
    assert_eq!(&answer, b"*6\r\n$6\r\ndenied");
    // Each key has its own maximum.
    assert_eq!(server.check("bob"), 200);
    let _third = send_check("bob");
    wait_until("three requests wait", || is_waiting(3));
}

/// The bounds of a request are settings.
#[test]
fn requests_have_the_bounds_of_the_settings() {
    let directory = Directory::new();
    let rules: String =
        (0..5).map(|number| format!("  - {{ name: r{number}, limit: 9 per day }}\n")).collect();
    let rules = directory.write("rules.yaml", format!("domain: api\nrules:\n{rules}"));
    let descriptors = |count: usize| {
        let list = vec![r#"{"entries": [{"key": "a", "value": "1"}, {"key": "b", "value": "1"}]}"#; count];
        format!(r#"{{"domain": "api", "descriptors": [{}]}}"#, list.join(", "))
    };
    let start = |bounds: &[&str]| Server::start(&[&["--rules", &rules], bounds].concat());
    let server = start(&[]);
    for path in ["/v1/check", "/json"] {
        assert_eq!(server.post(path, &descriptors(1)).status, 200, "{path}");
        assert_eq!(server.post(path, &descriptors(1_001)).status, 400, "{path}");
    }
    server.stop();
    let server = start(&["--descriptors-max", "2"]);
    for path in ["/v1/check", "/json"] {
        assert_eq!(server.post(path, &descriptors(2)).status, 200, "{path}");
        assert_eq!(server.post(path, &descriptors(3)).status, 400, "{path}");
    }
    server.stop();
    let server = start(&["--entries-max", "1"]);
    for path in ["/v1/check", "/json"] {
        assert_eq!(server.post(path, &descriptors(1)).status, 400, "{path}");
    }
    server.stop();
    let server = start(&["--limits-max", "4", "--request-bytes-max", "16KiB"]);
    assert_eq!(server.post("/v1/check", &descriptors(1)).status, 500, "five limits");
    assert_eq!(server.post("/v1/check", &descriptors(400)).status, 413);
    server.stop();
}

/// What the server sends before it closes the connection, which may reset it.
fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// 768 KiB for connections, of which 96 KiB are for the admin listener; 16 KiB each.
#[test]
fn connections_beyond_their_memory_are_closed() {
    let server = Server::start(&["--connections-memory-max", "1MiB"]);
    assert_eq!(server.metric("tidegate_connections_bytes_max"), 768 << 10);
    let open: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(server.address("http")).unwrap()).collect();
    let is_closed = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.read(&mut [0]).unwrap_or(0) == 0
    };
    assert!(is_closed(&open[59]), "there is room for 42");
    drop(open);
    let refused = || {
        let page = http_request(connect(server.address("admin")), "GET", "/metrics", "").body;
        let name = r#"tidegate_connections_refused_total{protocol="http",reason="memory"} "#;
        page.lines().find_map(|line| line.strip_prefix(name)).map_or(0, |count| count.parse().unwrap())
    };
    wait_until("there is room again", || {
        try_http_request(connect(server.address("admin")), "GET", "/", "").is_ok()
    });
    wait_until("their memory is free again", || server.metric("tidegate_connections_bytes") < 64 << 10);
    assert!((12..=60).contains(&refused()), "{}", refused());
}

#[test]
fn half_sent_bodies_and_commands_count() {
    const BODY_BYTES: usize = 200_000;
    let server = Server::start(&["--connections-memory-max", "1MiB"]);
    let half_sent = |address: &str, start: String| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(start.as_bytes()).unwrap();
        // It fails if the server has refused it already.
        let _ = stream.write_all(&vec![b' '; BODY_BYTES]);
        stream
    };
    let body = || {
        let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 300000\r\n";
        half_sent(server.address("http"), format!("{head}\r\n"))
    };
    // Three take 600 kB of 672 KiB, besides the connections.
    let held: Vec<TcpStream> = (0..3).map(|_| body()).collect();
    wait_until("they are received", || server.metric("tidegate_connections_bytes") > 600_000);
    let answer = read_all(body());
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("no memory for the body"), "{answer}");
    let answer =
        read_all(half_sent(server.address("resp"), format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 2 * BODY_BYTES)));
    // The server closes a connection that still sends, so a reset may overtake the reply.
    let is_refused =
        answer.is_empty() || answer.starts_with("-ERR the server has no memory for this connection");
    assert!(is_refused, "{answer}");
    assert_eq!(server.metric("tidegate_requests_rejected_total{protocol=\"resp\",reason=\"memory\"}"), 1);
    drop(held);
    wait_until("their memory is free again", || server.metric("tidegate_connections_bytes") < 64 << 10);
}

/// One transaction alone would take more than all connections may hold.
#[test]
fn commands_of_a_transaction_count() {
    const COMMANDS: usize = 900;
    let server = Server::start(&["--connections-memory-max", "1MiB"]);
    let mut stream = TcpStream::connect(server.address("resp")).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let mut run = |command: &str| {
        stream.write_all(command.as_bytes()).unwrap();
        replies.next().expect("the connection stays open")
    };
    assert_eq!(run("MULTI\r\n"), "+OK");
    let echo = format!("*2\r\n$4\r\nECHO\r\n$1000\r\n{}\r\n", "x".repeat(1_000));
    let rejected = (0..COMMANDS).map(|_| run(&echo)).find(|reply| reply != "+QUEUED");
    let reply = rejected.expect("there is no memory for all commands");
    assert!(reply.starts_with("-ERR the server has no memory for this transaction"), "{reply}");
    assert!(run("EXEC\r\n").starts_with("-EXECABORT "));
    assert!(server.metric("tidegate_connections_bytes") < 64 << 10, "the commands are dropped");
    // Memory is taken until the commands have run.
    assert_eq!(run("MULTI\r\n"), "+OK");
    (0..300).for_each(|_| assert_eq!(run(&echo), "+QUEUED"));
    assert!(server.metric("tidegate_connections_bytes") > 300_000);
    assert_eq!(run("DISCARD\r\n"), "+OK");
    assert!(server.metric("tidegate_connections_bytes") < 64 << 10);
}

/// Opens a connection, sends these bytes, and keeps it open.
fn send_grpc(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address("grpc")).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// The numbers of the first streams of a connection.
fn stream_numbers(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

fn wait_until_calls_are_rejected(server: &Server) {
    let rejected = r#"tidegate_requests_rejected_total{protocol="grpc",reason="resource_exhausted"}"#;
    wait_until("calls are rejected for lack of memory", || {
        http_request(connect(server.address("admin")), "GET", "/metrics", "").body.contains(rejected)
    });
}

/// 672 KiB for connections; each takes 64 KiB, and 2 KiB for each stream beyond the first 20.
#[test]
fn open_grpc_streams_count() {
    let server = Server::start(&["--connections-memory-max", "1MiB"]);
    let frames: Vec<u8> = stream_numbers(200).flat_map(http2::headers).collect();
    let open = || send_grpc(&server, &[http2::preface(65_535), frames.clone()].concat());
    let first = open();
    wait_until("the streams are open", || server.metric("tidegate_connections_bytes") > 400 << 10);
    let second = open();
    wait_until_calls_are_rejected(&server);
    assert!(server.metric("tidegate_connections_bytes") > 600 << 10);
    drop((first, second));
    wait_until("their memory is free again", || server.metric("tidegate_connections_bytes") < 64 << 10);
}

/// The clients allow no bytes of any response.
#[test]
fn unread_grpc_responses_count() {
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", crate::serve::RULES);
    let server = Server::start(&["--rules", &rules, "--connections-memory-max", "1MiB"]);
    let request = request(vec![descriptor(&[("user", "ann")]); 60]);
    let calls: Vec<u8> = stream_numbers(60).flat_map(|stream| http2::call(stream, &request)).collect();
    let open = || send_grpc(&server, &http2::preface(0));
    let mut connections = [open(), open(), open(), open()];
    // Else the calls of the first ones may take all memory before the last one is accepted.
    let open_now = r#"tidegate_connections{protocol="grpc"}"#;
    wait_until("they are accepted", || server.metric(open_now) == 4);
    connections.iter_mut().for_each(|connection| connection.write_all(&calls).unwrap());
    wait_until_calls_are_rejected(&server);
    assert!(server.metric("tidegate_connections_bytes") > 500 << 10);
    drop(connections);
    wait_until("their memory is free again", || server.metric("tidegate_connections_bytes") < 64 << 10);
}

/// A call that a rule delays takes more than the 8 KiB of every request that waits.
#[test]
fn delayed_grpc_calls_count() {
    let directory = Directory::new();
    let rules = "domain: api\nrules:\n  - { name: held, key: [user], limit: 1 per minute, \
                 action: { delay: { max_wait: 1h } } }\n";
    let server = Server::start(&["--rules", &directory.write("rules.yaml", rules)]);
    let request = request([descriptor(&[("user", "ann")])]);
    let calls: Vec<u8> = stream_numbers(51).flat_map(|stream| http2::call(stream, &request)).collect();
    let _connection = send_grpc(&server, &[http2::preface(65_535), calls].concat());
    wait_until("the calls wait", || server.metric("tidegate_waiting_requests") == 50);
    // 24 KiB are for the connection itself.
    let least = (24 << 10) + 50 * (6 << 10);
    wait_until("they are counted", || server.metric("tidegate_connections_bytes") >= least);
}

/// Connections that hold all memory lock out neither the operator nor the metrics.
#[test]
fn the_admin_listener_answers_while_other_connections_hold_all_memory() {
    const BODY_BYTES: usize = 200_000;
    let server = Server::start(&["--connections-memory-max", "1MiB"]);
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 300000\r\n\r\n";
    let half_sent = || {
        let mut stream = TcpStream::connect(server.address("http")).unwrap();
        // It fails if the server has refused it already.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&vec![b' '; BODY_BYTES]);
        stream
    };
    let held: Vec<TcpStream> = (0..3).map(|_| half_sent()).collect();
    wait_until("they are received", || server.metric("tidegate_connections_bytes") > 600_000);
    let more = half_sent();
    let idle: Vec<TcpStream> = (0..30).map(|_| TcpStream::connect(server.address("http")).unwrap()).collect();
    let refused = r#"tidegate_connections_refused_total{protocol="http",reason="memory"}"#;
    let rejected = r#"tidegate_requests_rejected_total{protocol="http",reason="memory"}"#;
    let page = || http_request(connect(server.address("admin")), "GET", "/metrics", "").body;
    wait_until("no memory is left for others", || page().contains(refused));
    wait_until("the request is rejected", || page().contains(&format!("{rejected} 1\n")));
    server.wait_for_log("hint: raise connections_memory_max");
    assert_eq!(server.log().matches("connections_memory_max").count(), 1, "{}", server.log());
    drop((held, more, idle));
}

/// 256 KiB for requests that wait, 8 KiB each.
#[test]
fn waiting_requests_beyond_their_memory_are_denied() {
    let directory = Directory::new();
    let rules = "domain: api\nrules:\n  - { name: held, key: [user], limit: 1 per minute, \
                 action: { delay: { max_wait: 1h } } }\n";
    let rules = directory.write("rules.yaml", rules);
    let server = Server::start(&["--rules", &rules, "--connections-memory-max", "1MiB"]);
    let waiting_max = server.metric("tidegate_waiting_requests_max");
    assert_eq!(waiting_max, 32);
    let mut stream = TcpStream::connect(server.address("resp")).unwrap();
    for _ in 0..=waiting_max {
        stream.write_all(b"TIDEGATE.CHECK api user ann\n").unwrap();
    }
    wait_until("as many wait as may", || server.metric("tidegate_waiting_requests") == waiting_max);
    let body = r#"{"domain": "api", "attributes": {"user": "ann"}}"#;
    assert_eq!(server.post("/v1/check", body).status, 429, "it is answered, not held");
    assert_eq!(server.metric("tidegate_waiting_requests"), waiting_max);
}
