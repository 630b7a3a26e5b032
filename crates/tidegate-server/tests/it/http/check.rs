//! `/v1/check` and `/v1/peek`.

use serde_json::{Value, json};
use tidegate::Clock as _;
use tidegate_server::serve::Protocol;
use tidegate_server::serve::listen::Address;
use tidegate_server::serve::status::BoundAddress;

use super::*;

const USER: &str = r#"{"domain": "api", "attributes": {"user": "42"}}"#;

#[test]
fn an_exact_answer() {
    let server = Server::new(RULES);
    let response = post(&server, "/v1/check", USER);
    assert_eq!(response.status, 200);
    assert_eq!(
        response.own_headers(),
        [
            "content-type: application/json",
            "x-tidegate-decision: allowed",
            "x-ratelimit-limit: 2",
            "x-ratelimit-remaining: 1",
            "x-ratelimit-reset: 1800",
            r#"ratelimit-policy: "per-user/1";q=2;w=3600"#,
            r#"ratelimit: "per-user/1";r=1;t=1800"#,
        ]
    );
    assert_eq!(
        response.body,
        concat!(
            r#"{"decision":"allowed","rule":"per-user","limit":1,"remaining":1,"retry_after_ms":0,"#,
            r#""reset_after_ms":1800000,"delay_ms":0,"waited_ms":0,"degraded":false,"limits":[{"rule":"per-user","#,
            r#""limit":1,"descriptor":0,"decision":"allowed","cost":1,"remaining":1,"retry_after_ms":0,"#,
            r#""reset_after_ms":1800000,"delay_ms":0,"spec":"{algorithm: gcra, limit: 2, per: 1h}"}]}"#,
        )
    );
}

/// The number in a header.
fn seconds(response: &Response, header: &str) -> u64 {
    response.header(header).unwrap_or_else(|| panic!("{header}: {response:?}")).parse().unwrap()
}

#[test]
fn an_exact_denial() {
    let server = Server::new(RULES);
    let both = r#"{"domain": "api", "attributes": {"user": "42"}, "cost": 2}"#;
    assert_eq!(post(&server, "/v1/check", both).status, 200);
    let denied = post(&server, "/v1/check", USER);
    denied.assert_problem(429, &[]);
    let retry = seconds(&denied, "retry-after");
    assert!((1..=1800).contains(&retry), "{retry}");
    let reset = seconds(&denied, "x-ratelimit-reset");
    assert!((retry..=3600).contains(&reset), "{reset}");
    assert_eq!(
        denied.own_headers(),
        [
            "content-type: application/problem+json".to_owned(),
            "x-tidegate-decision: denied".to_owned(),
            format!("retry-after: {retry}"),
            format!("x-ratelimit-retry-after: {retry}"),
            "x-ratelimit-limit: 2".to_owned(),
            "x-ratelimit-remaining: 0".to_owned(),
            format!("x-ratelimit-reset: {reset}"),
            r#"ratelimit-policy: "per-user/1";q=2;w=3600"#.to_owned(),
            format!(r#"ratelimit: "per-user/1";r=0;t={retry}"#),
        ]
    );
    let body = denied.json();
    let retry_ms = body["retry_after_ms"].as_u64().unwrap();
    assert_eq!(retry_ms.div_ceil(1000), retry, "both are rounded up");
    let reset_ms = body["reset_after_ms"].as_u64().unwrap();
    assert_eq!(
        body,
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": 429,
            "detail": format!("per-user/1 is exceeded; try again in {retry} s"),
            "violated-policies": ["per-user/1"],
            "decision": "denied", "rule": "per-user", "limit": 1, "remaining": 0,
            "retry_after_ms": retry_ms, "reset_after_ms": reset_ms, "delay_ms": 0, "waited_ms": 0,
            "degraded": false,
            "limits": [{
                "rule": "per-user", "limit": 1, "descriptor": 0, "decision": "denied", "cost": 1, "remaining": 0,
                "retry_after_ms": retry_ms, "reset_after_ms": reset_ms, "delay_ms": 0,
                "spec": "{algorithm: gcra, limit: 2, per: 1h}",
            }],
        })
    );
}

#[test]
fn never_is_null_without_a_header() {
    let server = Server::new(RULES);
    let denied = post(&server, "/v1/check", r#"{"domain": "api", "attributes": {"user": "1"}, "cost": 3}"#);
    denied.assert_problem(429, &["per-user/1 never admits a request of this cost"]);
    assert_eq!(denied.header("retry-after"), None);
    assert_eq!(denied.header("x-ratelimit-retry-after"), None);
    assert_eq!(denied.header("ratelimit"), Some(r#""per-user/1";r=2"#));
    assert_eq!(denied.json()["retry_after_ms"], Value::Null);
}

#[test]
fn unmatched_requests_are_allowed() {
    let server = Server::new(RULES);
    for body in [
        r#"{"domain": "api", "attributes": {"colour": "red"}}"#,
        r#"{"domain": "nobody knows", "attributes": {"user": "42"}}"#,
        r#"{"domain": "api", "attributes": {}}"#,
    ] {
        let response = post(&server, "/v1/check", body);
        assert_eq!(response.status, 200);
        assert_eq!(
            response.own_headers(),
            ["content-type: application/json", "x-tidegate-decision: allowed"],
            "no limit, no header about one"
        );
        assert_eq!(
            response.body,
            concat!(
                r#"{"decision":"allowed","rule":null,"limit":null,"remaining":null,"retry_after_ms":0,"#,
                r#""reset_after_ms":0,"delay_ms":0,"waited_ms":0,"degraded":false,"limits":[]}"#
            )
        );
    }
}

#[test]
fn attributes_descriptors_and_several_limits() {
    let server = Server::new(RULES);
    let short = r#"{"domain": "api", "attributes": {"path": "/login", "ip": "::1", "account": "ann"}}"#;
    let long = r#"{"domain": "api", "descriptors": [
        {"entries": [{"key": "user", "value": "1"}]},
        {"entries": [{"key": "path", "value": "/login"}, {"key": "ip", "value": "::1"}, {"key": "account", "value": "bob"}],
         "cost": 2}]}"#;
    assert_eq!(post(&server, "/v1/check", short).json()["remaining"], 2);
    let answer = post(&server, "/v1/check", long);
    let policies = r#""login/2";q=3;w=86400, "per-user/1";q=2;w=3600, "login/per-ip";q=5;w=3600"#;
    let expected =
        [("per-user", json!(1), 0, 1), ("login", json!("per-ip"), 1, 2), ("login", json!(2), 1, 1)];
    let limits = answer.json()["limits"].clone();
    let limits: Vec<_> = limits
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| {
            let number = |name: &str| limit[name].as_u64().unwrap();
            (
                limit["rule"].as_str().unwrap(),
                limit["limit"].clone(),
                number("descriptor"),
                number("remaining"),
            )
        })
        .collect();
    assert_eq!(limits, expected);
    // The limit with the least remaining decides, the first one if several are equal.
    let by_user = r#""per-user/1";q=2;w=3600, "login/per-ip";q=5;w=3600, "login/2";q=3;w=86400"#;
    assert_eq!(answer.header("ratelimit-policy"), Some(by_user), "not {policies}");
}

#[test]
fn at_most_eight_limits_are_listed() {
    let limits: String = (1..=12).map(|number| format!("      - {number}00 per hour\n")).collect();
    let server = Server::new(&format!("domain: api\nrules:\n  - name: many\n    limits:\n{limits}"));
    let response = post(&server, "/v1/check", r#"{"domain": "api", "attributes": {}}"#);
    assert_eq!(response.json()["limits"].as_array().unwrap().len(), 12);
    for header in ["ratelimit", "ratelimit-policy"] {
        assert_eq!(response.header(header).unwrap().split(", ").count(), 8, "{header}");
    }
}

#[test]
fn peeks_and_cost_0_charge_nothing() {
    let server = Server::new(RULES);
    for _ in 0..5 {
        let peeked = post(&server, "/v1/peek", USER);
        assert_eq!(
            (peeked.status, peeked.json()["remaining"].as_u64()),
            (200, Some(1)),
            "as a check would answer"
        );
        let looked =
            post(&server, "/v1/check", r#"{"domain": "api", "attributes": {"user": "42"}, "cost": 0}"#);
        assert_eq!((looked.status, looked.json()["remaining"].as_u64()), (200, Some(2)));
    }
    let all = r#"{"domain": "api", "attributes": {"user": "42"}, "cost": 2}"#;
    assert_eq!(post(&server, "/v1/check", all).status, 200);
    let peeked = post(&server, "/v1/peek", USER);
    peeked.assert_problem(429, &["quota-exceeded"]);
    assert!(peeked.header("retry-after").is_some());
}

const ACTIONS: &str = "
domain: api
rules:
  - { name: shadow, match: { try: shadow }, limit: 1 per hour, action: shadow }
  - { name: ban, match: { try: ban }, limit: 1 per hour, action: shadow_ban }
  - { name: quota, match: { try: quota }, limit: 1 per hour, action: quota }
  - { name: soft, match: { try: soft }, limit: 1 per hour, action: { soft: { margin: 100% } } }
  - { name: leaky, match: { try: leaky }, limit: { algorithm: leaky_bucket, limit: 1, per: 1h, queue: 1 } }
  - { name: candidate, match: { try: candidate }, limit: 2 per hour, candidate: 1 per hour }
  - { name: keyed, match: { try: keyed }, key: [account], missing: deny, limit: 9 per hour }
";

#[test]
fn every_decision() {
    let server = Server::new(ACTIONS);
    let check = |what: &str| {
        let body = format!(r#"{{"domain": "api", "attributes": {{"try": "{what}"}}}}"#);
        post(&server, "/v1/check", &body)
    };
    let cases = [
        ("shadow", 200, "shadow_denied"),
        ("ban", 200, "shadow_banned"),
        ("quota", 200, "over_quota"),
        ("soft", 200, "soft"),
        ("leaky", 200, "delayed"),
    ];
    for (what, status, decision) in cases {
        assert_eq!(check(what).json()["decision"], "allowed", "{what}");
        let response = check(what);
        assert_eq!(
            (response.status, response.json()["decision"].as_str()),
            (status, Some(decision)),
            "{what}"
        );
        assert_eq!(response.json()["rule"], what);
        let hidden = matches!(what, "shadow" | "ban" | "quota");
        assert_eq!(response.header("ratelimit").is_none(), hidden, "{response:?}");
        assert_eq!(response.header("retry-after"), None);
    }
    let delay_ms = check("soft").json()["delay_ms"].as_u64();
    assert_eq!(delay_ms, Some(0));
    assert_eq!(check("soft").status, 429, "over the margin");
    let leaky = post(&server, "/v1/peek", r#"{"domain": "api", "attributes": {"try": "leaky"}}"#);
    leaky.assert_problem(429, &["leaky/1"]);
}

/// A quota is hidden while the request passes. One that denies is a limit like any other.
#[test]
fn a_denial_by_quotas_names_them() {
    let rules = "
domain: api
rules:
  - { name: small, entries: [ { model: a } ], limit: 1 per hour, action: quota }
  - { name: large, entries: [ { model: b } ], limit: 2 per hour, action: quota }
";
    let server = Server::new(rules);
    let body = r#"{"domain": "api", "descriptors": [{"entries": [{"key": "model", "value": "a"}]},
        {"entries": [{"key": "model", "value": "b"}]}]}"#;
    for decision in ["allowed", "over_quota"] {
        let response = post(&server, "/v1/check", body);
        assert_eq!((response.status, response.json()["decision"].as_str()), (200, Some(decision)));
        assert_eq!((response.header("ratelimit"), response.header("retry-after")), (None, None));
    }
    let denied = post(&server, "/v1/check", body);
    denied.assert_problem(429, &[r#""violated-policies":["small/1","large/1"]"#]);
    assert!(denied.header("retry-after").is_some(), "{denied:?}");
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    let policies = denied.header("ratelimit-policy").unwrap();
    assert!(policies.contains(r#""small/1";q=1;w=3600"#) && policies.contains(r#""large/1";q=2;w=3600"#));
}

#[test]
fn a_delay_of_a_leaky_bucket_is_in_the_answer() {
    let server = Server::new(ACTIONS);
    let check = || post(&server, "/v1/check", r#"{"domain": "api", "attributes": {"try": "leaky"}}"#).json();
    assert_eq!(check()["delay_ms"], 0);
    let delay_ms = check()["delay_ms"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&delay_ms), "{delay_ms}");
}

#[test]
fn candidates_are_listed_only_if_present() {
    let server = Server::new(ACTIONS);
    let check = || post(&server, "/v1/check", r#"{"domain": "api", "attributes": {"try": "candidate"}}"#);
    assert_eq!(check().json()["candidates"][0]["decision"], "allowed");
    let second = check();
    assert_eq!(second.json()["decision"], "allowed");
    assert_eq!(second.json()["candidates"][0]["decision"], "denied");
    assert_eq!(second.header("ratelimit-policy"), Some(r#""candidate/1";q=2;w=3600"#));
    let other = post(&server, "/v1/check", r#"{"domain": "api", "attributes": {"try": "soft"}}"#);
    assert_eq!(other.json().get("candidates"), None);
}

#[test]
fn a_missing_key_attribute() {
    let server = Server::new(ACTIONS);
    let denied = post(&server, "/v1/check", r#"{"domain": "api", "attributes": {"try": "keyed"}}"#);
    denied.assert_problem(429, &["the request lacks a part of the key of keyed/1", r#""key_missing":true"#]);
    assert_eq!(denied.header("retry-after"), None, "waiting does not help");
}

const DELAY_RULES: &str = "
domain: api
rules:
  - name: held
    key: [user]
    limit: { limit: 1, per: 200ms, burst: 1 }
    action: { delay: { max_wait: 1h } }
";

/// However slow the machine is, three requests take at least two intervals of the limit, and none is denied.
#[test]
fn delayed_requests_are_spaced_by_the_limit() {
    let server = Server::new(DELAY_RULES);
    let now_ns = || server.app.engine.clock().now().as_nanos();
    let from_ns = now_ns();
    for _ in 0..3 {
        let answer = post(&server, "/v1/check", USER);
        assert_eq!((answer.status, answer.json()["decision"].as_str()), (200, Some("allowed")));
    }
    let took_ns = now_ns() - from_ns;
    assert!(took_ns >= 400_000_000, "{took_ns} ns");
}

#[test]
fn a_delayed_request_reports_its_wait() {
    let server = Server::new(&DELAY_RULES.replace("per: 200ms", "per: 30m"));
    assert_eq!(post(&server, "/v1/check", USER).json()["waited_ms"], 0);
    let waiting = std::thread::scope(|scope| {
        let check = scope.spawn(|| post(&server, "/v1/check", USER));
        wait_until(&server, "the request waits", || server.app.engine.waiting_requests() == 1);
        server.release_all();
        check.join().unwrap()
    });
    assert_eq!((waiting.status, waiting.json()["decision"].as_str()), (200, Some("allowed")));
    assert!(waiting.json()["waited_ms"].as_u64().unwrap() > 0, "{waiting:?}");
}

#[test]
fn a_disconnected_client_leaves_the_queue() {
    let server = Server::new(&DELAY_RULES.replace("per: 200ms", "per: 40m"));
    let waiting =
        |count: u64| wait_until(&server, "requests wait", || server.app.engine.waiting_requests() == count);
    assert_eq!(post(&server, "/v1/check", USER).status, 200);
    let mut gone = Client::connect(server.http);
    gone.send(format!("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{USER}", USER.len()));
    waiting(1);
    // Behind it, the wait would be two times 40 minutes, more than the maximum of an hour.
    assert_eq!(post(&server, "/v1/check", USER).status, 429);
    drop(gone);
    waiting(0);
    let next = std::thread::scope(|scope| {
        let check = scope.spawn(|| post(&server, "/v1/check", USER));
        waiting(1);
        server.release_all();
        check.join().unwrap()
    });
    assert_eq!(next.status, 200);
}

/// A client finds the violated policy in the headers, and two rules never have the same name there.
#[test]
fn names_that_are_not_ascii() {
    let server = Server::new(
        "
domain: api
rules:
  - { name: café, match: { a: '1' }, limit: 0 per second }
  - { name: caff, match: { a: '1' }, limits: [ { name: per-hour, limit: 9 per hour } ] }
  - { name: cafè, match: { a: '1' }, limit: 9 per hour }
",
    );
    let denied = post(&server, "/v1/check", r#"{"domain": "api", "attributes": {"a": "1"}}"#);
    let policies = denied.header("ratelimit-policy").unwrap();
    assert_eq!(policies, r#""caf%C3%A9/1";q=0;w=1, "caff/per-hour";q=9;w=3600, "caf%C3%A8/1";q=9;w=3600"#);
    assert_eq!(denied.json()["violated-policies"], json!(["caf%C3%A9/1"]));
    assert_eq!(denied.json()["rule"], "café");
}

#[test]
fn the_page_has_a_command_that_works_here() {
    let server =
        Server::new("{ domain: it's, rules: [ { name: a, key: [tenant, ip], limit: 9 per hour } ] }");
    let page = |address| Client::connect(address).get("/").body;
    for (protocol, address) in [(Protocol::Http, server.http), (Protocol::Admin, server.admin)] {
        assert!(!page(address).contains(":8080") && !page(address).contains('$'), "{protocol:?}");
    }
    let bound = |protocol, address| BoundAddress { protocol, address };
    let unix = Address::Unix("/run/tide gate.sock".into());
    server.app.status.set_listeners(vec![
        bound(Protocol::Http, Address::Tcp(([0, 0, 0, 0], server.http.port()).into())),
        bound(Protocol::Admin, unix),
    ]);
    let request = r#"'{"attributes":{"ip":"192.0.2.1","tenant":"42"},"domain":"it'\''s"}'"#;
    let command = format!("\n  curl -i http://127.0.0.1:{}/v1/check -d {request}\n", server.http.port());
    assert!(page(server.http).contains(&command), "{}", page(server.http));
    let command =
        format!("\n  curl --unix-socket '/run/tide gate.sock' --json {request} http://localhost/v1/reset\n");
    assert!(page(server.admin).contains(&command), "{}", page(server.admin));
}
