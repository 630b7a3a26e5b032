//! `/v1/acquire`, `/v1/renew` and `/v1/release`.

use super::*;

const RULES: &str = "
domain: api
rules:
  - name: reports
    match: { tenant: { exists: true } }
    key: [tenant]
    limits:
      - { algorithm: concurrency, limit: 1, ttl: 5m }
      - 100 per hour
";

/// A request of this tenant, with more fields.
fn request_body(tenant: &str, more: &str) -> String {
    format!(r#"{{"domain": "api", "attributes": {{"tenant": "{tenant}"}}{more}}}"#)
}

fn token(response: &Response) -> String {
    response.json()["lease"]["token"].as_str().unwrap_or_else(|| panic!("{response:?}")).to_owned()
}

#[test]
fn acquire_renew_release() {
    let server = Server::new(RULES);
    let acquired = post(&server, "/v1/acquire", &request_body("7", ""));
    assert_eq!((acquired.status, acquired.json()["decision"].as_str()), (200, Some("allowed")));
    assert_eq!(acquired.header("ratelimit-policy"), Some(r#""reports/1";q=1, "reports/2";q=100;w=3600"#));
    let lease = acquired.json()["lease"].clone();
    assert!(lease["fence"].as_u64().unwrap() > 1_700_000_000_000_000, "{lease}");
    let expires_in = lease["expires_in_ms"].as_u64().unwrap();
    assert!((1..=300_000).contains(&expires_in), "{lease}");

    let denied = post(&server, "/v1/acquire", &request_body("7", ""));
    denied.assert_problem(429, &[r#""violated-policies":["reports/1"]"#, r#""lease":null"#]);
    assert_eq!(post(&server, "/v1/acquire", &request_body("8", "")).status, 200, "another key");

    let with_token = request_body("7", &format!(r#", "token": "{}""#, token(&acquired)));
    let renewed = post(&server, "/v1/renew", &with_token);
    assert_eq!((renewed.status, renewed.json()["result"].as_str()), (200, Some("renewed")));
    assert_eq!(renewed.json()["lease"]["fence"], lease["fence"]);
    let released = post(&server, "/v1/release", &with_token);
    assert_eq!((released.status, released.body.as_str()), (200, r#"{"result":"released"}"#));
    assert_eq!(post(&server, "/v1/acquire", &request_body("7", "")).status, 200);
}

#[test]
fn a_custom_ttl() {
    let server = Server::new(RULES);
    for (tenant, ttl, most) in [("1", r#""2m""#, 120_000), ("2", "90000", 90_000), ("3", r#""1h""#, 300_000)]
    {
        let acquired = post(&server, "/v1/acquire", &request_body(tenant, &format!(r#", "ttl": {ttl}"#)));
        let expires_in = acquired.json()["lease"]["expires_in_ms"].as_u64().unwrap();
        assert!((1..=most).contains(&expires_in), "{ttl}: {expires_in}");
        let again = request_body(tenant, &format!(r#", "token": "{}", "ttl": 60000"#, token(&acquired)));
        let renewed = post(&server, "/v1/renew", &again).json()["lease"]["expires_in_ms"].as_u64().unwrap();
        assert!((1..=60_000).contains(&renewed), "{renewed}");
        let keeps = request_body(tenant, &format!(r#", "token": "{}""#, token(&acquired)));
        let renewed = post(&server, "/v1/renew", &keeps).json()["lease"]["expires_in_ms"].as_u64().unwrap();
        assert!((60_001..=most).contains(&renewed), "{ttl}: without a ttl it keeps its own, {renewed}");
    }
}

#[test]
fn missing_leases() {
    let server = Server::new(RULES);
    let acquired = token(&post(&server, "/v1/acquire", &request_body("7", "")));
    let with_token = request_body("7", &format!(r#", "token": "{acquired}""#));
    let of_another = request_body("8", &format!(r#", "token": "{acquired}""#));
    for path in ["/v1/renew", "/v1/release"] {
        post(&server, path, &of_another).assert_problem(409, &[r#""result":"wrong_owner""#]);
        post(&server, path, &request_body("7", r#", "token": "beef""#)).assert_problem(400, &["`token`: "]);
        post(&server, path, &request_body("7", "")).assert_problem(400, &["the request has no `token`"]);
    }
    assert_eq!(post(&server, "/v1/release", &with_token).status, 200);
    for path in ["/v1/renew", "/v1/release"] {
        post(&server, path, &with_token).assert_problem(409, &[r#""result":"already_released""#]);
    }
    let short = token(&post(&server, "/v1/acquire", &request_body("9", r#", "ttl": 1"#)));
    let expired = request_body("9", &format!(r#", "token": "{short}""#));
    wait_until(&server, "the lease has expired", || {
        post(&server, "/v1/peek", &request_body("9", "")).status == 200
    });
    post(&server, "/v1/renew", &expired).assert_problem(409, &[r#""result":"expired""#]);
    post(&server, "/v1/release", &expired).assert_problem(409, &[r#""result":"expired""#]);
}

#[test]
fn no_lease_without_a_concurrency_limit() {
    let server = Server::new(super::RULES);
    let acquired = post(&server, "/v1/acquire", r#"{"domain": "api", "attributes": {"user": "1"}}"#);
    assert_eq!((acquired.status, &acquired.json()["lease"]), (200, &serde_json::Value::Null));
    assert_eq!(acquired.json()["remaining"], 1, "it is charged");
}
