//! `/v1/explain`.

use super::*;

const USER: &str = r#"{"domain": "api", "attributes": {"user": "42"}}"#;

const TOO_MUCH: &str = r#"{"domain": "api", "attributes": {"user": "42"}, "cost": 3}"#;

#[test]
fn json_and_text() {
    let server = Server::new(RULES);
    let explained = post(&server, "/v1/explain", USER);
    assert_eq!(explained.header("content-type"), Some("application/json"));
    assert_eq!(explained.header("x-tidegate-decision"), Some("allowed"));
    let json = explained.json();
    assert_eq!((json["decision"]["rule"].as_str(), json["known"].as_bool()), (Some("per-user"), Some(true)));
    assert_eq!(json["descriptors"][0]["rules"][0]["limits"][0]["key"], "user=42");

    let mut client = Client::connect(server.http);
    let by_query = client.post("/v1/explain?format=text", USER);
    let by_accept = client.request("POST", "/v1/explain", &["accept: text/plain, */*"], USER.as_bytes());
    for text in [&by_query, &by_accept] {
        assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
        assert!(text.body.contains("decision: allowed by per-user limit 1, 1 remaining"), "{text:?}");
    }
    let json = client.request("POST", "/v1/explain?format=json", &["accept: text/plain"], USER.as_bytes());
    assert_eq!(json.header("content-type"), Some("application/json"), "the query has precedence");
    client.post("/v1/explain?format=yaml", USER).assert_problem(400, &["unknown format `yaml`"]);
    assert_eq!(client.post("/v1/peek", USER).json()["remaining"], 1, "nothing was charged");
    let denied = client.post("/v1/explain?format=text", TOO_MUCH);
    assert_eq!((denied.status, denied.header("x-tidegate-decision")), (200, Some("denied")));
}
