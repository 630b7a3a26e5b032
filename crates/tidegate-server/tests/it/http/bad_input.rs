//! Invalid requests.

use super::*;

#[test]
fn invalid_bodies() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    let deep = "[".repeat(100_000);
    let cases: [(&[u8], &[&str]); 18] = [
        (
            br#"{"domain": "api", "attributes": {}, "colour": 1}"#,
            &["no field `colour`", r#""line":1,"column":44"#],
        ),
        (br#"{"domain": "api", "atributes": {}}"#, &[r#""hint":"did you mean `attributes`?""#]),
        (
            b"{\"domain\": \"api\",\n \"attributes\": {}, \"cost\": -1}",
            &["integer `-1`", r#""line":2,"column":29"#],
        ),
        (br#"{"domain": "api", "attributes": {}, "cost": 1.5}"#, &["floating point `1.5`"]),
        (br#"{"domain": "api", "attributes": {}, "cost": 18446744073709551616}"#, &["a whole number"]),
        (br#"{"domain": "api", "attributes": {}, "cost": "1"}"#, &["expected a cost"]),
        (br#"{"domain": "api", "attributes": {"user": 5}}"#, &["the value of attribute `user` as text"]),
        (br#"{"domain": "api", "attributes": {"user": null}}"#, &["attribute `user`"]),
        (br#"{"domain": "api", "attributes": {"a": "1", "a": "2"}}"#, &["attribute `a` appears twice"]),
        (br#"{"domain": "api", "domain": "b", "attributes": {}}"#, &["field `domain` appears twice"]),
        (br#"{"attributes": {}}"#, &["the request has no domain"]),
        (br#"{"domain": "", "attributes": {}}"#, &["the request has no domain"]),
        (br#"{"domain": "api"}"#, &["the request has no attributes"]),
        (b"[]", &["expected a request"]),
        (b"", &["this is not JSON: EOF"]),
        (b"{\"domain\": \"api\", \"attributes\": {\"user\": \"\xff\xfe\"}}", &["this is not JSON"]),
        (br#"{"domain": "api", "attributes": {"user": "\ud800"}}"#, &["this is not JSON"]),
        (deep.as_bytes(), &["expected a request"]),
    ];
    for path in ["/v1/check", "/v1/peek", "/v1/explain", "/v1/acquire"] {
        for (body, words) in cases {
            client.post(path, body).assert_problem(400, words);
        }
    }
    assert_eq!(client.post("/v1/peek", r#"{"domain": "api", "attributes": {"user": "1"}}"#).status, 200);
}

#[test]
fn the_largest_cost_is_denied_and_charges_nothing() {
    let server = Server::new(RULES);
    let huge = r#"{"domain": "api", "attributes": {"user": "1"}, "cost": 18446744073709551615}"#;
    post(&server, "/v1/check", huge).assert_problem(429, &["never admits a request of this cost"]);
    let two = r#"{"domain": "api", "attributes": {"user": "1"}, "cost": 2}"#;
    assert_eq!(post(&server, "/v1/check", two).status, 200);
}

#[test]
fn a_value_of_four_megabytes() {
    let server = Server::new(RULES);
    let of =
        |bytes: usize| format!(r#"{{"domain": "api", "attributes": {{"user": "{}"}}}}"#, "x".repeat(bytes));
    let frame = of(0).len();
    assert_eq!(post(&server, "/v1/check", &of((4 << 20) - frame)).status, 200, "the maximum");
    for bytes in [(4 << 20) - frame + 1, 5 << 20] {
        let mut client = Client::connect(server.http);
        client.post("/v1/check", of(bytes)).assert_problem(413, &["the body is larger than 4194304 bytes"]);
        assert_eq!(client.read_to_end(), "", "the connection is closed");
    }
}

#[test]
fn content_types() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    let body = br#"{"domain": "api", "attributes": {}}"#;
    for header in [
        "content-type: application/json",
        "content-type: Application/JSON; charset=utf-8",
        "content-type: text/json",
        "content-type: application/x-www-form-urlencoded",
        // What `fetch` sends with a text.
        "content-type: text/plain;charset=UTF-8",
        "x-none: at all",
    ] {
        assert_eq!(client.request("POST", "/v1/check", &[header], body).status, 200, "{header}");
    }
    for header in [
        "content-type: multipart/form-data",
        "content-type: application/jsonp",
        "content-type: application/xml",
    ] {
        let response = client.request("POST", "/v1/check", &[header], body);
        response.assert_problem(415, &["send the header `content-type: application/json`"]);
    }
}

#[test]
fn invalid_http() {
    let server = Server::new(RULES);
    for bytes in [
        &b"*1\r\n$4\r\nPING\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 18446744073709551616\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut client = Client::connect(server.http);
        client.send(bytes);
        client.send(b"\r\n\r\n");
        let reply = client.read_to_end();
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 400 "), "{bytes:?}: {reply}");
    }
    assert_eq!(Client::connect(server.http).get("/healthz").status, 200);
    let mut client = Client::connect(server.http);
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.read_to_end();
    let mut operator = Client::connect(server.admin);
    for sample in [
        r#"tidegate_requests_rejected_total{protocol="http",reason="bad_request"} 7"#,
        r#"tidegate_connections_refused_total{protocol="http",reason="http2"} 1"#,
    ] {
        wait_until(&server, sample, || operator.get("/metrics").body.contains(sample));
    }
}
