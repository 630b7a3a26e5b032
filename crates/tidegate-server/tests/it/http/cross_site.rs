//! Requests that a page of another site makes a browser send.

use super::*;

const CHECK: &str = r#"{"domain": "api", "attributes": {"user": "42"}}"#;
const RLS: &str = r#"{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}"#;

/// Sends a request to `localhost:8080` with these headers.
#[track_caller]
fn send(client: &mut Client, method: &str, path: &str, headers: &[&str], body: &str) -> Response {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost:8080\r\n{headers}content-length: {length}\r\n\r\n{body}"
    ));
    client.reply()
}

const CROSS_SITE_HEADERS: [&[&str]; 8] = [
    &["sec-fetch-site: cross-site", "origin: http://evil.example"],
    &["sec-fetch-site: cross-site"],
    &["origin: http://evil.example"],
    // Another program on this machine that serves pages.
    &["sec-fetch-site: same-site", "origin: http://localhost:3000"],
    // An image on such a page: a GET without `Origin`.
    &["sec-fetch-site: same-site"],
    &["referer: http://localhost:3000/page"],
    &["sec-fetch-site: same-site", "referer: http://localhost:8080/"],
    &["origin: null"],
];

#[test]
fn cross_site_requests_charge_nothing() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    let of_a_form = "content-type: text/plain";
    for headers in CROSS_SITE_HEADERS {
        for (path, body) in
            [("/v1/check", CHECK), ("/v1/acquire", CHECK), ("/v1/peek", CHECK), ("/json", RLS)]
        {
            let response = send(&mut client, "POST", path, &[headers, &[of_a_form]].concat(), body);
            response.assert_problem(403, &["a page of another site", r#""hint":"send it from a program"#]);
        }
    }
    for headers in CROSS_SITE_HEADERS {
        let response = send(&mut client, "GET", "/v1/check?domain=api&user=42", headers, "");
        response.assert_problem(403, &["a page of another site"]);
    }
    let page = client.get("/metrics").body;
    let sample = r#"tidegate_requests_rejected_total{protocol="http",reason="cross_site"} 40"#;
    assert!(page.contains(sample), "{page}");
    assert_eq!(post(&server, "/v1/peek", CHECK).json()["remaining"], 1);
}

#[test]
fn admin_rejects_cross_site_requests() {
    let server = Server::new(RULES);
    let mut admin = Client::connect(server.admin);
    let json = "content-type: application/json";
    for headers in CROSS_SITE_HEADERS {
        for (method, path) in
            [("POST", "/v1/reset"), ("POST", "/v1/refund"), ("POST", "/v1/reload"), ("PUT", "/v1/signals/a")]
        {
            let response = send(&mut admin, method, path, &[headers, &[json]].concat(), CHECK);
            response.assert_problem(403, &["a page of another site"]);
        }
    }
}

#[test]
fn same_site_requests_are_answered() {
    let server = Server::new("domain: api\nrules: [ { name: all, limit: 100 per hour } ]");
    let mut client = Client::connect(server.http);
    for headers in [
        &[][..],
        &["origin: http://localhost:8080"],
        &["sec-fetch-site: same-origin", "origin: http://localhost:8080"],
        &["sec-fetch-site: none"],
        &["sec-fetch-site: same-origin", "referer: http://localhost:8080/page?a=b"],
        &["referer: http://localhost:8080/"],
    ] {
        assert_eq!(send(&mut client, "POST", "/v1/check", headers, CHECK).status, 200, "{headers:?}");
        let by_query = send(&mut client, "GET", "/v1/check?domain=api&user=42", headers, "");
        assert_eq!(by_query.status, 200, "{headers:?}");
    }
    // Requests that change nothing may come from anywhere, for example by a link.
    let linked = send(&mut client, "GET", "/healthz", &["sec-fetch-site: cross-site"], "");
    assert_eq!(linked.status, 200);
}
