//! `GET /v1/check`, and the header `x-tidegate-decision`.

use super::*;

const ALLOWED: &str = "/v1/check?domain=api&user=42";

#[test]
fn a_query_is_answered_as_json_is() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    let by_query = client.get(ALLOWED);
    assert_eq!((by_query.status, by_query.header("cache-control")), (200, Some("no-store")));
    let by_json = client.post("/v1/peek", r#"{"domain": "api", "attributes": {"user": "43"}}"#);
    assert_eq!(by_query.body, by_json.body);
    assert_eq!(client.get(ALLOWED).json()["remaining"], 0);
    let denied = client.get(ALLOWED);
    denied.assert_problem(429, &["per-user/1 is exceeded"]);
    assert!(denied.header("retry-after").is_some());
    assert_eq!(denied.header("cache-control"), Some("no-store"));
    assert_eq!(client.get("/v1/check?domain=api&user=7&cost=2").json()["remaining"], 0);
    assert_eq!(client.get("/v1/check?domain=api&user=8%204&cost=0").json()["remaining"], 2);
}

#[test]
fn a_bad_query_charges_nothing() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    for (query, words) in [
        ("", "no domain"),
        ("?user=42", "no domain"),
        ("?domain=api&user=42&user=42", "`user` appears twice"),
        ("?domain=api&user=42&cost=x", "whole number"),
        ("?domain=api&user=42&other=%FF", "UTF-8"),
    ] {
        client.get(&format!("/v1/check{query}")).assert_problem(400, &[words, "hint"]);
    }
    assert_eq!(client.get(ALLOWED).json()["remaining"], 1);
    // HEAD is not allowed, because it would charge.
    client.send(format!("HEAD {ALLOWED} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    assert_eq!(client.reply_to("HEAD").status, 405);
    assert_eq!(client.get("/v1/check?domain=api&user=42&cost=0").json()["remaining"], 1);
}

#[test]
fn every_kind_of_decision_has_its_header() {
    let server = Server::new(
        "
domain: api
rules:
  - { name: soft, match: { user: soft }, limit: 1 per hour, action: { soft: { margin: 200% } } }
  - { name: shadow, match: { user: shadow }, limit: 1 per hour, action: shadow }
  - { name: ban, match: { user: banned }, limit: 1 per hour, action: shadow_ban }
  - { name: slow, match: { user: slow }, limit: { limit: 1, per: 1h, algorithm: leaky_bucket, queue: 9 } }
  - { name: reject, match: { user: plain }, limit: 1 per hour }
",
    );
    let mut direct = Client::connect(server.http);
    for (user, decision) in [
        ("soft", "soft"),
        ("shadow", "shadow_denied"),
        ("banned", "shadow_banned"),
        ("slow", "delayed"),
        ("plain", "denied"),
    ] {
        let body = format!(r#"{{"domain": "api", "attributes": {{"user": "{user}"}}}}"#);
        let first = direct.post("/v1/check", &body);
        assert_eq!(first.header("x-tidegate-decision"), Some("allowed"), "{first:?}");
        for answer in [direct.post("/v1/check", &body), post(&server, "/v1/peek", &body)] {
            assert_eq!(answer.header("x-tidegate-decision"), Some(decision), "{answer:?}");
            assert_eq!(answer.json()["decision"], decision);
        }
    }
    let rls = r#"{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "plain"}]}]}"#;
    assert_eq!(post(&server, "/json", rls).header("x-tidegate-decision"), Some("denied"));
    let acquire = r#"{"domain": "api", "attributes": {"user": "plain"}}"#;
    assert_eq!(post(&server, "/v1/acquire", acquire).header("x-tidegate-decision"), Some("denied"));
}
