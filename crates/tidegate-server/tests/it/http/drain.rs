//! Shutdown of the server.

use super::*;

const DELAY_RULES: &str = "
domain: api
rules:
  - { name: held, key: [user], limit: { limit: 1, per: 30m, burst: 1 }, action: { delay: { max_wait: 1h } } }
";

const BODY: &str = r#"{"domain": "api", "attributes": {"user": "42"}}"#;

#[test]
fn idle_connections_are_closed_and_requests_finish() {
    let server = Server::new(DELAY_RULES);
    let mut idle = Client::connect(server.http);
    assert_eq!(idle.get("/readyz").status, 200);
    let mut fresh = Client::connect(server.admin);
    wait_until(&server, "both connections are open", || server.tasks.len() == 2);
    assert_eq!(post(&server, "/v1/check", BODY).status, 200);
    let mut waiting = Client::connect(server.http);
    waiting
        .send(format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len()));
    wait_until(&server, "the request waits", || server.app.engine.waiting_requests() == 1);
    server.app.drain.begin();
    assert_eq!((idle.read_to_end(), fresh.read_to_end()), (String::new(), String::new()));
    server.release_all();
    let reply = waiting.reply();
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert_eq!(waiting.read_to_end(), "");
    wait_until(&server, "all connections have ended", || server.tasks.is_empty());
}

#[test]
fn received_requests_are_answered() {
    let server = Server::new(DELAY_RULES);
    assert_eq!(post(&server, "/v1/check", BODY).status, 200);
    let waiting =
        format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    let health = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".to_owned();
    // More than one read takes.
    let many = health.repeat(1000);
    let mut client = Client::connect(server.http);
    client.send([waiting.clone(), many, waiting].concat());
    wait_until(&server, "the first request waits", || server.app.engine.waiting_requests() == 1);
    server.app.drain.begin();
    server.release_all();
    for number in 0..1001 {
        let reply = client.reply();
        assert_eq!((reply.status, reply.header("connection")), (200, None), "{number}");
    }
    let last = client.reply();
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    assert_eq!(client.read_to_end(), "");
    wait_until(&server, "all connections have ended", || server.tasks.is_empty());
}
