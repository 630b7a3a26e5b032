//! The admin listener.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::ServerOptions;
use super::*;

const USER: &str = r#"{"domain": "api", "attributes": {"user": "42"}}"#;
const BOTH: &str = r#"{"domain": "api", "attributes": {"user": "42"}, "cost": 2}"#;

#[test]
fn refunds_and_resets() {
    let server = Server::new(RULES);
    let mut admin = Client::connect(server.admin);
    let remaining =
        || post(&server, "/v1/peek", &USER.replace("}}", "}, \"cost\": 0}")).json()["remaining"].clone();
    assert_eq!(post(&server, "/v1/check", BOTH).status, 200);
    let refunded = admin.post("/v1/refund", USER);
    assert_eq!(refunded.status, 200);
    assert_eq!(refunded.json(), json!({ "result": "refunded", "limits": 1, "leases_kept": 0 }));
    assert_eq!(remaining(), 1);
    let reset = admin.post("/v1/reset", USER);
    let done = json!({ "rule": "per-user", "limit": 1, "spec": "{algorithm: gcra, limit: 2, per: 1h}", "key": { "user": "42" } });
    let expected = json!({ "result": "reset", "limits": 1, "reset": [done], "not_reset": [] });
    assert_eq!((reset.status, reset.json()), (200, expected));
    assert_eq!(remaining(), 2);
    admin.post("/v1/reset", r#"{"attributes": {}}"#).assert_problem(400, &["the request has no domain"]);
    admin.post("/v1/refund", "{").assert_problem(400, &["this is not JSON"]);
}

#[test]
fn failed_refunds_and_resets_are_reported() {
    let server = Server::new(
        "
domain: api
rules:
  - name: jobs
    match: { job: { exists: true } }
    key: [job]
    limits: [ { limit: 1, algorithm: concurrency, ttl: 1h } ]
  - { name: rated, match: { rated: { exists: true } }, key: [job], limit: 9 per hour, missing: deny }
",
    );
    let mut admin = Client::connect(server.admin);
    let job = r#"{"domain": "api", "attributes": {"job": "1"}}"#;
    let both = r#"{"domain": "api", "attributes": {"job": "1", "rated": "1"}}"#;
    let no_key = r#"{"domain": "api", "attributes": {"rated": "1"}}"#;
    let neither = r#"{"domain": "api", "attributes": {"user": "42"}}"#;
    let nowhere = r#"{"domain": "ipa", "attributes": {"job": "1"}}"#;
    assert_eq!(post(&server, "/v1/check", job).status, 200);
    for (request, result, limits, leases_kept) in [
        (job, "nothing", 0, 1),
        (both, "refunded", 1, 1),
        (no_key, "nothing", 0, 0),
        (neither, "nothing", 0, 0),
    ] {
        let refunded = admin.post("/v1/refund", request);
        let expected = json!({ "result": result, "limits": limits, "leases_kept": leases_kept });
        assert_eq!((refunded.status, refunded.json()), (200, expected), "{request}");
    }
    assert_eq!(post(&server, "/v1/check", job).status, 429, "the lease is still held");
    for (request, result, limits) in
        [(neither, "nothing", 0), (no_key, "nothing", 0), (both, "reset", 2), (job, "reset", 1)]
    {
        let reset = admin.post("/v1/reset", request);
        assert_eq!(reset.status, 200);
        assert_eq!([&reset.json()["result"], &reset.json()["limits"]], [&json!(result), &json!(limits)]);
    }
    assert_eq!(post(&server, "/v1/check", job).status, 200, "the lease is free");
    for path in ["/v1/refund", "/v1/reset"] {
        admin.post(path, nowhere).assert_problem(404, &["the domain `ipa`", "/v1/rules"]);
    }
}

const KEYS: &str = "
domain: api
rules:
  - { name: global, limit: 100 per hour }
  - name: per-client
    limits:
      - { limit: 2 per hour, key: [user] }
      - { name: daily, limit: 9 per day, key: [user, ip] }
      - { name: strict, limit: 9 per day, key: [ip], missing: deny }
  - { name: docs, match: { path: '/docs/{id}' }, key: [path.id, method], limit: 1 per hour }
  - name: plans
    match: { plan: { exists: true } }
    key: [header.X-User]
    tiers: { by: plan, plans: { free: 1 per hour, pro: 1 per hour }, default: free }
  - name: windows
    match: { windows: { exists: true } }
    key: [user]
    tiers: { by: windows, plans: { free: 1 per hour, pro: 9 per day }, default: free }
";

/// A request without a part of a key shares a counter with all such requests. A reset must not clear that one unasked.
#[test]
fn a_reset_names_what_it_reset_and_spares_shared_counters() {
    let server = Server::new(KEYS);
    let mut admin = Client::connect(server.admin);
    let anonymous = r#"{"domain": "api", "attributes": {"ip": "192.0.2.1"}}"#;
    let free = anonymous.replace("}}", "}, \"cost\": 0}");
    let remaining = || post(&server, "/v1/peek", &free).json()["remaining"].clone();
    assert_eq!(post(&server, "/v1/check", anonymous).status, 200);
    assert_eq!(remaining(), 1, "of the two for all requests without a user");
    let mut reset = admin.post("/v1/reset", anonymous).json();
    for list in ["reset", "not_reset"] {
        for limit in reset[list].as_array_mut().unwrap() {
            let spec = limit.as_object_mut().unwrap().remove("spec").unwrap();
            assert!(spec.as_str().is_some_and(|spec| spec.contains("limit: ")), "{spec}");
        }
    }
    let limit = |rule: &str, limit: Value, field: &str, value: Value| json!({ "rule": rule, "limit": limit, field: value });
    let expected = json!({
        "result": "reset",
        "limits": 2,
        "reset": [
            limit("global", json!(1), "key", json!({})),
            limit("per-client", json!("strict"), "key", json!({ "ip": "192.0.2.1" })),
        ],
        "not_reset": [
            limit("per-client", json!(1), "missing", json!(["user"])),
            limit("per-client", json!("daily"), "missing", json!(["user"])),
        ],
    });
    assert_eq!(reset, expected);
    assert_eq!(remaining(), 1, "the shared counter stays");
    let shared = r#"{"domain": "api", "rule": "per-client", "key": {"user": null}}"#;
    let reset = admin.post("/v1/reset", shared).json();
    assert_eq!(reset["reset"][0]["key"], json!({ "user": null }));
    assert_eq!(reset["not_reset"].as_array().map(Vec::len), Some(2), "the others need an ip");
    assert_eq!(remaining(), 2);
}

#[test]
fn a_reset_by_rule_and_key() {
    let server = Server::new(KEYS);
    let mut admin = Client::connect(server.admin);
    let doc = r#"{"domain": "api", "attributes": {"user": "1", "ip": "192.0.2.1", "path": "/docs/7?a=b", "method": "GET"}}"#;
    let free = r#"{"domain": "api", "attributes": {"user": "2", "ip": "192.0.2.1", "plan": "pro", "header.x-user": "ann"}}"#;
    for (request, key) in [
        (doc, r#"{"domain": "api", "rule": "docs", "key": {"path.id": "7", "method": "get"}}"#),
        (free, r#"{"domain": "api", "rule": "plans", "key": {"header.X-User": "ann"}}"#),
    ] {
        assert_eq!(post(&server, "/v1/check", request).status, 200);
        assert_eq!(post(&server, "/v1/check", request).status, 429);
        let other = key.replace("\"7\"", "\"8\"").replace("ann", "bob");
        assert_eq!(admin.post("/v1/reset", &other).json()["result"], "reset");
        assert_eq!(post(&server, "/v1/check", request).status, 429, "another key");
        let reset = admin.post("/v1/reset", key);
        assert_eq!((reset.status, &reset.json()["result"]), (200, &json!("reset")), "{key}");
        assert_eq!(post(&server, "/v1/check", request).status, 200, "{key}");
    }
    let mut reset = |key: &str| admin.post("/v1/reset", format!(r#"{{"domain": "api", {key}}}"#));
    let plans = reset(r#""rule": "plans", "key": {"header.x-user": "ann"}"#).json();
    assert_eq!(
        (&plans["limits"], plans["reset"].as_array().map(Vec::len)),
        (&json!(1), Some(1)),
        "all share a counter"
    );
    let plans = reset(r#""rule": "windows", "key": {"user": "ann"}"#).json();
    assert_eq!(
        (&plans["limits"], plans["reset"].as_array().map(Vec::len)),
        (&json!(2), Some(2)),
        "each has its own"
    );
    reset(r#""rule": "plan""#).assert_problem(404, &["no rule `plan`", "did you mean `plans`?"]);
    reset(r#""rule": "docs", "key": {"user": "1"}"#).assert_problem(400, &["no part `user`", "path.id"]);
    reset(r#""rule": "docs", "key": {"path.id": "7"}"#).assert_problem(400, &["lacks a part", "method"]);
    reset(r#""rule": "per-client", "key": {"user": "1", "ip": "x"}"#)
        .assert_problem(400, &["`ip` is not an address"]);
    reset(r#""rule": "global", "key": {"user": "1"}"#).assert_problem(400, &["omit `key`"]);
    reset(r#""rule": "global", "keys": {}"#).assert_problem(400, &["unknown field `keys`"]);
    assert_eq!(reset(r#""rule": "global""#).json()["reset"][0]["key"], json!({}));
}

#[test]
fn signals() {
    let server = Server::new(
        "
domain: api
rules:
  - { name: moved, limit: 50 per hour, action: { elastic: { min: 10, max: 100, signal: spare capacity } } }
",
    );
    let mut admin = Client::connect(server.admin);
    assert_eq!(admin.get("/v1/signals").body, r#"{"signals":[{"name":"spare capacity","level":null}]}"#);
    let path = "/v1/signals/spare%20capacity";
    assert_eq!(admin.get(path).body, r#"{"name":"spare capacity","level":null}"#);
    let put = admin.request("PUT", path, &["content-type: application/json"], br#"{"level": 0.5}"#);
    assert_eq!((put.status, put.body.as_str()), (200, r#"{"name":"spare capacity","level":0.5}"#));
    assert_eq!(admin.get(path).json()["level"], 0.5);
    let answer = post(&server, "/v1/check", r#"{"domain": "api", "attributes": {}}"#);
    assert_eq!(answer.header("x-ratelimit-limit"), Some("55"), "the limit was resized");

    let json = &["content-type: application/json"][..];
    admin.request("PUT", path, json, br#"{"level": 1.5}"#).assert_problem(400, &["a number from 0 to 1"]);
    admin
        .request("PUT", "/v1/signals/other", json, br#"{"level": 1}"#)
        .assert_problem(404, &["known signals: spare capacity"]);
    admin.get("/v1/signals/other").assert_problem(404, &["/v1/signals lists all signals"]);
    let response = admin.request("DELETE", path, &[], b"");
    response.assert_problem(405, &[]);
    assert_eq!(response.header("allow"), Some("GET, HEAD, PUT"));
}

#[test]
fn the_rules_in_force() {
    let server = Server::new(&format!(
        "{RULES}---\ndomain: other\nrules:\n  - {{ name: one, limit: 1 per hour, action: shadow }}\n"
    ));
    let mut admin = Client::connect(server.admin);
    let all = admin.get("/v1/rules").json();
    assert_eq!(
        all["domains"],
        json!([{ "name": "api", "apply": "all", "rules": 2 }, { "name": "other", "apply": "all", "rules": 1 }])
    );
    assert_eq!((&all["rules_in_all"], &all["next_offset"]), (&json!(3), &Value::Null));
    assert_eq!(
        all["rules"][1],
        json!({
            "domain": "api", "name": "login", "was": [],
            "conditions": [{ "attribute": "path", "is": "/login" }],
            "entries": null, "tiers": null, "candidate": null, "exempt": false, "replaces": [], "metadata": {},
            "mode": "strict", "lease_time": null, "sync_interval": null, "carry": null,
            "limits": [
                {
                    "limit": "per-ip", "spec": "{algorithm: fixed_window, limit: 5, per: 1h, align: first_hit, name: per-ip}",
                    "key": ["ip"], "missing": "shared", "cost": "request", "action": "reject",
                },
                {
                    "limit": 2, "spec": "{algorithm: gcra, limit: 3, per: 1d}",
                    "key": ["account"], "missing": "shared", "cost": "request", "action": "reject",
                },
            ],
        })
    );
    let names = |page: &Value| -> Vec<String> {
        page["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| rule["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let page = admin.get("/v1/rules?offset=1&limit=1").json();
    assert_eq!((names(&page), &page["next_offset"]), (vec!["login".to_owned()], &json!(2)));
    let page = admin.get("/v1/rules?offset=2&limit=1").json();
    assert_eq!((names(&page), &page["next_offset"]), (vec!["one".to_owned()], &Value::Null));
    assert_eq!(names(&admin.get("/v1/rules?domain=other").json()), ["one"]);
    assert_eq!(names(&admin.get("/v1/rules?domain=none").json()), Vec::<String>::new());
    assert_eq!(names(&admin.get("/v1/rules?domain=o%74her").json()), ["one"]);
    assert_eq!(names(&admin.get("/v1/rules?offset=99").json()), Vec::<String>::new());
    for query in ["limit=0", "limit=1001", "limit=x", "offset=-1", "limit="] {
        admin.get(&format!("/v1/rules?{query}")).assert_problem(400, &["a whole number from "]);
    }
}

#[test]
fn rules_in_the_language_of_envoy() {
    let server = Server::new(
        "
domain: two words
descriptors:
  - key: tenant
    descriptors:
      - key: path
        value: /login
        rate_limit: { unit: minute, requests_per_unit: 5 }
        metadata: { whole: 3, half: 0.5, more: [ ~, yes, { x: '1' } ] }
",
    );
    let mut admin = Client::connect(server.admin);
    for domain in ["two+words", "two%20words"] {
        let page = admin.get(&format!("/v1/rules?domain={domain}")).json();
        assert_eq!(
            (&page["rules_in_all"], page["rules"].as_array().unwrap().len()),
            (&json!(1), 1),
            "{page}"
        );
        let metadata = json!({ "whole": 3, "half": 0.5, "more": [null, true, { "x": "1" }] });
        assert_eq!(page["rules"][0]["metadata"], metadata);
    }
    assert_eq!(
        admin.get("/healthz?verbose").json()["rules"]["rules"],
        1,
        "a level without a limit is not a rule"
    );
}

#[test]
fn a_page_of_rules_is_bounded() {
    let values: Vec<String> = (0..2000).map(|number| format!("value-{number}")).collect();
    let rule = |number: usize| {
        let limits: String = (1..=32)
            .map(|limit| format!("      - {{ name: limit-{limit}, limit: {limit} per hour }}\n"))
            .collect();
        format!(
            "  - name: rule-{number}\n    match: {{ user: [{}] }}\n    limits:\n{limits}",
            values[..200].join(", ")
        )
    };
    let rules: String = (0..400).map(rule).collect();
    let server = Server::new(&format!("domain: api\nrules:\n{rules}"));
    let mut admin = Client::connect(server.admin);
    let (mut offset, mut listed) = (0, 0);
    loop {
        let page = admin.get(&format!("/v1/rules?limit=1000&offset={offset}"));
        assert!(page.body.len() < (1 << 20) + (1 << 15), "{}", page.body.len());
        let page = page.json();
        let is = page["rules"][0]["conditions"][0]["is"].as_str().unwrap();
        assert!(is.len() < 1100 && is.ends_with("..."), "{is}");
        listed += page["rules"].as_array().unwrap().len();
        match page["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(listed, 400);
    assert!(offset > 0, "more than one page");
}

#[test]
fn reload() {
    let server = Server::new(RULES);
    let mut requests = server.app.reloads.take_receiver().unwrap();
    let answering = server.runtime.spawn(async move {
        use tidegate::rules::Reload;
        use tidegate_server::serve::listen::CertificateReload;
        use tidegate_server::serve::reload_handle::ReloadResult;
        let broken =
            tidegate::rules::parse("broken.yaml", "domain: api\nrules: [ { name: a, limit: 5 per minut } ]");
        for rules in
            [Reload::Unchanged, Reload::Replaced(Default::default()), Reload::Rejected(broken.unwrap_err())]
        {
            let answer = requests.recv().await.unwrap();
            let _ = answer.send(ReloadResult { rules, certificate: CertificateReload::Unchanged });
        }
    });
    let mut admin = Client::connect(server.admin);
    // As `curl -X POST` sends it.
    admin.send("POST /v1/reload HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let unchanged = admin.reply();
    assert_eq!((unchanged.status, unchanged.json()["rules"].as_str()), (200, Some("unchanged")));
    let replaced = admin.post("/v1/reload", "{}");
    assert_eq!((replaced.status, replaced.json()["rules"].as_str()), (200, Some("replaced")));
    let response = admin.post("/v1/reload", "{}");
    response.assert_problem(422, &[r#""rules":"kept""#, "unknown unit of time `minut`"]);
    server.runtime.block_on(answering).unwrap();
    admin.post("/v1/reload", "").assert_problem(503, &["it is stopping"]);
    admin.post("/v1/reload", r#"{"force": true}"#).assert_problem(400, &["a reload takes no parameters"]);
}

#[test]
fn cross_site_requests_are_rejected() {
    let server = Server::new(RULES);
    let mut admin = Client::connect(server.admin);
    for header in [
        "content-type: text/plain",
        "content-type: application/x-www-form-urlencoded",
        "content-type: multipart/form-data; boundary=x",
        "x-none: at all",
    ] {
        for (method, path) in
            [("POST", "/v1/reset"), ("POST", "/v1/refund"), ("POST", "/v1/reload"), ("PUT", "/v1/signals/a")]
        {
            let response = admin.request(method, path, &[header], USER.as_bytes());
            response.assert_problem(415, &["pages of other sites"]);
        }
    }
    for host in ["example.org", "rebound.example.org:9090"] {
        admin.send(format!("GET /v1/rules HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        admin.reply().assert_problem(421, &["by a host name"]);
    }
    for host in ["localhost:9090", "127.0.0.1", "[::1]:9090"] {
        admin.send(format!("GET /v1/rules HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        assert_eq!(admin.reply().status, 200, "{host}");
    }
}

#[test]
fn a_token_is_required() {
    let token = Some("s3cret".parse().unwrap());
    let server = Server::with(RULES, ServerOptions { token, ..ServerOptions::default() });
    let mut admin = Client::connect(server.admin);
    let wrong = [
        "x: y",
        "authorization: Bearer wrong",
        "authorization: Bearer s3cre",
        "authorization: Basic s3cret",
        "authorization: Bearer",
        "authorization: s3cret",
    ];
    for (method, path) in [
        ("GET", "/v1/rules"),
        ("GET", "/metrics"),
        ("GET", "/"),
        ("GET", "/nowhere"),
        ("POST", "/v1/reset"),
        ("GET", "/healthz?verbose"),
    ] {
        for header in wrong {
            let response =
                admin.request(method, path, &[header, "content-type: application/json"], USER.as_bytes());
            response.assert_problem(401, &["--admin-token"]);
            assert_eq!(response.header("www-authenticate"), Some(r#"Bearer realm="tidegate""#));
        }
    }
    for header in ["authorization: Bearer s3cret", "authorization: bearer s3cret"] {
        assert_eq!(admin.request("GET", "/v1/rules", &[header], b"").status, 200);
        let reset =
            admin.request("POST", "/v1/reset", &[header, "content-type: application/json"], USER.as_bytes());
        assert_eq!(reset.status, 200);
    }
    // Health probes have no token.
    for path in ["/healthz", "/readyz"] {
        assert_eq!(admin.get(path).status, 200);
    }
    // With a token, a host name is allowed.
    admin.send("GET /v1/rules HTTP/1.1\r\nhost: tidegate.internal\r\nauthorization: Bearer s3cret\r\n\r\n");
    assert_eq!(admin.reply().status, 200);
}

#[test]
fn failed_logins_are_delayed_and_counted() {
    let failed_login_delay = Duration::from_secs(3_600);
    let token = Some("s3cret".parse().unwrap());
    let server = Server::with(RULES, ServerOptions { token, failed_login_delay, ..ServerOptions::default() });
    let sample = r#"tidegate_failed_logins_total{protocol="admin"} 1"#;
    let mut guesser = Client::connect(server.admin);
    guesser.send("GET /v1/rules HTTP/1.1\r\nhost: a\r\nauthorization: Bearer x\r\n\r\n".repeat(2));
    wait_until(&server, sample, || server.app.metrics_page().contains(sample));
    guesser.assert_silent();
    let mut admin = Client::connect(server.admin);
    assert_eq!(admin.request("GET", "/v1/rules", &["authorization: Bearer s3cret"], b"").status, 200);
    assert!(server.app.metrics_page().contains(sample), "the second guess waits for the answer to the first");
}

#[test]
fn decisions_are_not_on_the_admin_listener() {
    let server = Server::new(RULES);
    let mut admin = Client::connect(server.admin);
    admin.post("/v1/check", USER).assert_problem(404, &["/v1/reset"]);
    for path in ["/v1/reset", "/v1/refund", "/v1/reload"] {
        let response = admin.get(path);
        response.assert_problem(405, &[]);
        assert_eq!(response.header("allow"), Some("POST"));
    }
}
