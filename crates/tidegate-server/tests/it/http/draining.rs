//! The end of the server.

use super::*;

const HELD: &str = "
domain: api
rules:
  - { name: held, key: [user], limit: { limit: 1, per: 30m, burst: 1 }, action: { delay: { max_wait: 1h } } }
";

const BODY: &str = r#"{"domain": "api", "attributes": {"user": "42"}}"#;

#[test]
fn idle_connections_are_closed_and_requests_finish() {
    let server = Server::new(HELD);
    let mut idle = Client::to(server.http);
    assert_eq!(idle.get("/readyz").status, 200);
    let mut fresh = Client::to(server.admin);
    eventually(&server, "both are there", || server.tasks.len() == 2);
    assert_eq!(post(&server, "/v1/check", BODY).status, 200);
    let mut held = Client::to(server.http);
    held.send(format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len()));
    eventually(&server, "it is in line", || server.app.engine.held() == 1);
    server.app.drain.begin();
    assert_eq!((idle.rest(), fresh.rest()), (String::new(), String::new()));
    server.hold_nobody();
    let reply = held.reply();
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert_eq!(held.rest(), "");
    eventually(&server, "nobody is left", || server.tasks.is_empty());
}

#[test]
fn requests_that_have_arrived_are_answered() {
    let server = Server::new(HELD);
    assert_eq!(post(&server, "/v1/check", BODY).status, 200);
    let held = format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    let health = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".to_owned();
    // More than is read at a time.
    let many = health.repeat(1000);
    let mut client = Client::to(server.http);
    client.send([held.clone(), many, held].concat());
    eventually(&server, "the first is in line", || server.app.engine.held() == 1);
    server.app.drain.begin();
    server.hold_nobody();
    for number in 0..1001 {
        let reply = client.reply();
        assert_eq!((reply.status, reply.header("connection")), (200, None), "{number}");
    }
    let last = client.reply();
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    assert_eq!(client.rest(), "");
    eventually(&server, "nobody is left", || server.tasks.is_empty());
}
