//! `/json` and `/healthcheck`, as in envoyproxy/ratelimit.

use serde_json::{Value, json};

use super::*;
use crate::grpc::metadata::{cases, rules_in_both_languages};

const RULES: &str = "
domain: mongo
descriptors:
  - key: database
    value: users
    # Windows of years begin once a year, and hardly ever during a test.
    rate_limit: { unit: year, requests_per_unit: 2 }
";

const USERS: &str =
    r#"{"domain": "mongo", "descriptors": [{"entries": [{"key": "database", "value": "users"}]}]}"#;

#[test]
fn ok_then_over_limit() {
    let server = Server::new(RULES);
    for remaining in [1, 0] {
        let response = post(&server, "/json", USERS);
        assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
        let json = response.json();
        assert_eq!(json["overallCode"], "OK");
        assert_eq!(json["statuses"][0]["currentLimit"]["requestsPerUnit"], 2);
        assert_eq!(json["statuses"][0]["limitRemaining"].as_u64().unwrap_or(0), remaining);
    }
    let over = post(&server, "/json", USERS);
    assert_eq!((over.status, over.header("content-type")), (429, Some("application/json")));
    assert_eq!(over.json()["overallCode"], "OVER_LIMIT");
}

#[test]
fn requests_in_ratelimit_form() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    // The content type of `curl -d`, and a number that protojson allows.
    let addend = USERS.replace(r#""domain""#, r#""hitsAddend": 2, "domain""#);
    let form = client.request(
        "POST",
        "/json",
        &["content-type: application/x-www-form-urlencoded"],
        addend.as_bytes(),
    );
    assert_eq!(form.status, 200);
    assert_eq!(client.request("POST", "/json", &["content-type: text/plain"], USERS.as_bytes()).status, 429);
}

#[test]
fn invalid_requests() {
    let server = Server::new(RULES);
    let cases = [
        (r#"{"domain": "", "descriptors": [{"entries": []}]}"#, "rate limit domain must not be empty"),
        (r#"{"domain": "mongo", "descriptors": []}"#, "rate limit descriptor list must not be empty"),
        (r#"{"domain": "mongo"}"#, "rate limit descriptor list must not be empty"),
        (r#"{"domain": "mongo", "colour": 1}"#, "colour"),
        ("", "this is not JSON"),
    ];
    for (body, word) in cases {
        post(&server, "/json", body).assert_problem(400, &[word]);
    }
    let response = Client::connect(server.http).get("/json");
    response.assert_problem(405, &[]);
    assert_eq!(response.header("allow"), Some("POST"));
}

#[test]
fn healthcheck() {
    let server = Server::new(RULES);
    let healthy = Client::connect(server.http).get("/healthcheck");
    assert_eq!((healthy.status, healthy.body.as_str()), (200, "OK"));
}

#[test]
fn metadata_keeps_its_types_and_merges() {
    for rules in rules_in_both_languages() {
        let server = Server::new(&rules);
        for (entries, expected) in cases() {
            let descriptor =
                |(key, value): &(&str, &str)| json!({ "entries": [{ "key": key, "value": value }] });
            let descriptors: Vec<Value> = entries.iter().map(descriptor).collect();
            let body = json!({ "domain": "api", "descriptors": descriptors }).to_string();
            let answer = post(&server, "/json", &body).json();
            assert_eq!(answer["dynamicMetadata"]["metadata"], expected, "{entries:?} {rules}");
        }
    }
}
