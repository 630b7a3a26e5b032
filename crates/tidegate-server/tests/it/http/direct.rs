//! Checks that are answered without hyper, and what makes hyper take over.

use serde_json::json;

use super::*;

fn check(user: &str, cost: u64) -> String {
    let body = json!({"domain": "api", "attributes": {"user": user}, "cost": cost}).to_string();
    format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A client whose connection hyper serves.
fn client_of_hyper(server: &Server) -> Client {
    let mut client = Client::connect(server.http);
    assert_eq!(client.get("/healthz").status, 200);
    client
}

/// The reply without its date, whose second may have passed.
#[track_caller]
fn undated(mut reply: Response) -> Response {
    let (name, date) = reply.headers.pop().unwrap();
    assert_eq!((name.as_str(), date.len()), ("date", "Sun, 06 Nov 1994 08:49:37 GMT".len()), "{date}");
    assert!(date.ends_with(" GMT") && date.contains(" 20"), "{date}");
    reply
}

#[test]
fn replies_are_those_of_hyper() {
    let [direct_server, hyper_server] = [Server::new(RULES), Server::new(RULES)];
    let (mut direct, mut hyper) = (Client::connect(direct_server.http), client_of_hyper(&hyper_server));
    for body in [
        // Allowed, denied forever, of two limits, without a matching rule, and in an unknown domain.
        json!({"domain": "api", "attributes": {"user": "42"}}),
        json!({"domain": "api", "attributes": {"user": "1"}, "cost": 2}),
        json!({"domain": "api", "attributes": {"user": "2"}, "cost": 3}),
        json!({"domain": "api", "attributes": {"path": "/login", "account": "4"}}),
        json!({"domain": "api", "attributes": {"path": "/"}}),
        json!({"domain": "nowhere", "attributes": {"user": "42"}}),
        // Errors, after which hyper serves both.
        json!({"domain": "api", "attributes": {"user": 42}}),
    ] {
        let [direct, hyper] = [&mut direct, &mut hyper].map(|client| {
            let Response { status, headers, body } = undated(client.post("/v1/check", body.to_string()));
            (status, headers, body)
        });
        assert_eq!(direct, hyper, "{body}");
    }
    let decisions = |server: &Server| {
        let page = server.app.metrics_page();
        let counts = page.lines().filter(|line| line.starts_with("tidegate_decisions_total"));
        counts.map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(decisions(&direct_server), decisions(&hyper_server));
}

#[test]
fn requests_in_pieces() {
    let server = Server::new(RULES);
    for split_at in [1, 10, 40, 70, 90] {
        let request = check(&format!("user-{split_at}"), 1);
        let mut client = Client::connect(server.http);
        for _ in 0..2 {
            let (first, rest) = request.split_at(split_at);
            client.send(first);
            client.assert_silent();
            client.send(rest);
            assert_eq!(client.reply().status, 200, "{split_at}");
        }
        client.send(&request);
        assert_eq!(client.reply().status, 429, "{split_at}");
    }
}

#[test]
fn a_long_pipeline_with_requests_for_hyper() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    let users = || (0..300).map(|user| format!("user-{user}"));
    let mut requests: String = users().map(|user| check(&user, 1)).collect();
    requests.push_str("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    requests.extend(users().map(|user| check(&user, 1)));
    client.send(requests);
    users().for_each(|user| assert_eq!(client.reply().json()["remaining"], 1, "{user}"));
    assert_eq!(client.reply().body, "ok\n");
    users().for_each(|user| assert_eq!(client.reply().json()["remaining"], 0, "{user}"));
}

#[test]
fn a_client_that_ends_its_input_is_answered() {
    let server = Server::new(RULES);
    for _ in 0..100 {
        let mut client = Client::connect(server.http);
        client.send([check("a", 0), check("b", 0)].concat());
        client.finish();
        assert_eq!([client.reply().status, client.reply().status], [200, 200]);
        assert_eq!(client.read_to_end(), "");
    }
}

/// A request that may wait is not charged twice because hyper takes over.
#[test]
fn a_request_that_may_wait_is_charged_once() {
    let server = Server::new(
        "
domain: api
rules:
  - name: plain
    match: { user: plain }
    key: [user]
    limit: 10 per hour
  - name: held
    match: { user: held }
    key: [user]
    limit: { limit: 1, per: 30m, burst: 2 }
    action: { delay: { max_wait: 1h } }
",
    );
    let mut client = Client::connect(server.http);
    client.send([check("plain", 1), check("held", 1), check("plain", 1), check("held", 1)].concat());
    let remaining: Vec<_> = (0..4).map(|_| client.reply().json()["remaining"].as_u64()).collect();
    assert_eq!(remaining, [Some(9), Some(1), Some(8), Some(0)]);
    client.send(check("held", 1));
    wait_until(&server, "it waits", || server.app.engine.waiting_requests() == 1);
    client.assert_silent();
    server.release_all();
    assert_eq!(client.reply().status, 200);
}

#[test]
fn a_drain_closes_an_idle_connection() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    client.send(check("a", 1));
    assert_eq!(client.reply().header("connection"), None);
    server.app.drain.begin();
    assert_eq!(client.read_to_end(), "");
}
