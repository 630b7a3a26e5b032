//! Overrides of single keys: the admin API, and what requests get.

use serde_json::{Value, json};

use super::*;

const KEYS: &str = "
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: { limit: 2, per: 1h, algorithm: fixed_window } }
  - name: pages
    match: { user: { exists: true }, path: /pages }
    limits:
      - { name: hourly, limit: 100 per hour, key: [user] }
      - { name: daily, limit: 900 per day, key: [user] }
  - name: plans
    match: { tenant: { exists: true } }
    key: [tenant]
    tiers: { by: plan, plans: { free: 1 per hour, pro: 50 per hour }, default: free }
";

fn check(server: &Server, user: &str) -> Response {
    post(server, "/v1/check", &json!({ "domain": "api", "attributes": { "user": user } }).to_string())
}

struct Operator(Client);

impl Operator {
    fn new(server: &Server) -> Self {
        Self(Client::connect(server.admin))
    }

    fn send(&mut self, method: &str, path: &str, body: &Value) -> Response {
        self.0.request(method, path, &["content-type: application/json"], body.to_string().as_bytes())
    }

    fn set(&mut self, user: &str, fields: &Value) -> Response {
        let mut body = json!({ "domain": "api", "rule": "per-user", "key": { "user": user } });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.send("PUT", "/v1/overrides", &body)
    }
}

#[test]
fn a_raised_and_a_lowered_limit_keep_the_counter() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    assert_eq!([1, 2, 3].map(|_| check(&server, "7").status), [200, 200, 429]);
    let set = operator.set("7", &json!({ "limit": 4, "note": "#4711", "author": "ann" }));
    assert_eq!(set.status, 200, "{set:?}");
    let mut set = set.json();
    assert!(set["set_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{set}");
    set.as_object_mut().unwrap().remove("set_at");
    let expected = json!({
        "id": "api/per-user/user=7", "version": 1, "domain": "api", "rule": "per-user", "key": { "user": "7" },
        "limit": 4, "author": "ann", "note": "#4711",
    });
    assert_eq!(set, expected);
    assert_eq!([1, 2, 3].map(|_| check(&server, "7").status), [200, 200, 429]);
    assert_eq!(operator.set("7", &json!({ "limit": 3 })).status, 200);
    assert_eq!(check(&server, "7").status, 429);
    assert_eq!([1, 2, 3].map(|_| check(&server, "8").status), [200, 200, 429], "other keys are not affected");
    // A longer window is no fresh window.
    assert_eq!(operator.set("7", &json!({ "limit": "5 per day" })).status, 200);
    assert_eq!(check(&server, "7").status, 429);
    let place = json!({ "domain": "api", "rule": "per-user", "key": { "user": "7" } });
    let deleted = operator.send("DELETE", "/v1/overrides", &place);
    assert_eq!((deleted.status, &deleted.json()["deleted"]["per"]), (200, &json!("1d")));
    operator.send("DELETE", "/v1/overrides", &place).assert_problem(404, &["no such override"]);
}

#[test]
fn a_ban_denies_until_it_ends_and_keeps_the_override() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    assert_eq!(operator.set("7", &json!({ "limit": 50 })).status, 200);
    let banned = operator.send("POST", "/v1/ban", &json!({ "key": { "user": "7" }, "for": "15m" }));
    assert_eq!(banned.status, 200, "{banned:?}");
    let rules: Vec<Value> =
        banned.json()["banned"].as_array().unwrap().iter().map(|ban| ban["rule"].clone()).collect();
    assert_eq!(rules, [json!("per-user"), json!("pages")]);
    let denied = check(&server, "7");
    denied.assert_problem(429, &["is blocked", "\"denied\""]);
    let retry_after: u64 = denied.header("retry-after").unwrap().parse().unwrap();
    assert!((840..=900).contains(&retry_after), "{retry_after}");
    assert_eq!(check(&server, "8").status, 200);
    // With 403, for as long as it is not lifted, in one rule.
    let ban = json!({ "key": { "user": "7" }, "rule": "per-user", "status": 403 });
    assert_eq!(operator.send("POST", "/v1/ban", &ban).status, 200);
    let forbidden = check(&server, "7");
    forbidden.assert_problem(403, &["is blocked"]);
    assert_eq!(forbidden.header("retry-after"), None);
    let page = operator.0.get("/metrics").body;
    assert!(!page.contains("cross_site"), "a decision is not a rejected request");
    let lifted = operator.send("POST", "/v1/unban", &json!({ "key": { "user": "7" } }));
    assert_eq!((lifted.status, lifted.json()["unbanned"].as_array().unwrap().len()), (200, 2), "{lifted:?}");
    let answer = check(&server, "7");
    assert_eq!(
        (answer.status, &answer.json()["remaining"]),
        (200, &json!(49)),
        "the override is still there"
    );
    operator
        .send("POST", "/v1/unban", &json!({ "key": { "user": "7" } }))
        .assert_problem(404, &["not banned"]);
    operator
        .send("POST", "/v1/ban", &json!({ "key": { "usr": "7" } }))
        .assert_problem(404, &["no rule has the key [usr]"]);
}

#[test]
fn wildcards_apply_at_once_and_an_exact_override_may_allow() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    assert_eq!(operator.set("*@acme.com", &json!({ "blocked": true })).status, 200);
    assert_eq!(check(&server, "ann@acme.com").status, 429);
    assert_eq!(check(&server, "ann@example.com").status, 200);
    assert_eq!(operator.set("ann@acme.com", &json!({ "allow": true })).status, 200);
    assert_eq!(check(&server, "ann@acme.com").status, 200);
    assert_eq!(operator.set("vip*", &json!({ "unlimited": true })).status, 200);
    assert_eq!([1, 2, 3].map(|_| check(&server, "vip1").status), [200, 200, 200]);
}

#[test]
fn edits_on_the_condition_of_a_version() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    assert_eq!(operator.set("7", &json!({ "limit": 4, "if_version": 0 })).json()["version"], 1);
    let conflict = operator.set("7", &json!({ "limit": 5, "if_version": 0 }));
    conflict.assert_problem(409, &["has version 1 now", "read it again"]);
    assert_eq!(conflict.json()["version"], 1);
    assert_eq!(operator.set("7", &json!({ "limit": 5, "if_version": 1 })).json()["version"], 2);
    let place = json!({ "domain": "api", "rule": "per-user", "key": { "user": "7" }, "if_version": 1 });
    operator.send("DELETE", "/v1/overrides", &place).assert_problem(409, &[]);
}

#[test]
fn refusals_have_a_reason_and_a_hint() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    let put = |domain: &str, rule: &str, fields: Value| {
        let mut body = json!({ "domain": domain, "rule": rule, "key": { "user": "7" } });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let cases = [
        (put("ipa", "per-user", json!({ "limit": 4 })), 404, "no domain is named `ipa`"),
        (put("api", "per-usr", json!({ "limit": 4 })), 404, "did you mean `per-user`?"),
        (put("api", "per-user", json!({})), 400, "the override sets nothing"),
        (put("api", "per-user", json!({ "limit": "5 per moment" })), 400, "moment"),
        (
            put("api", "per-user", json!({ "limit": "{algorithm: gcra, limit: 1, per: 1s}" })),
            400,
            "the algorithm",
        ),
        (put("api", "per-user", json!({ "burst": 4 })), 400, "burst"),
        (put("api", "per-user", json!({ "blocked": true, "limit": 4 })), 400, "has no limit or tier"),
        (put("api", "per-user", json!({ "tier": "pro" })), 400, "has no tiers"),
        (put("api", "per-user", json!({ "limit": 4, "expires_at": 7 })), 400, "has expired already"),
        (put("api", "pages", json!({ "limit": 4 })), 400, "daily, hourly"),
        (put("api", "pages", json!({ "limit": 4, "limit_name": "dayly" })), 400, "did you mean `daily`?"),
        (put("api", "plans", json!({ "unlimited": true })), 400, "its keys are [tenant]"),
        (put("api", "per-user", json!({ "limits": 4 })), 400, "limits"),
    ];
    for (body, status, text) in cases {
        operator.send("PUT", "/v1/overrides", &body).assert_problem(status, &[text]);
    }
    let plain = operator.0.request("PUT", "/v1/overrides", &["content-type: text/plain"], b"{}");
    plain.assert_problem(415, &["content type must be JSON"]);
}

#[test]
fn answers_name_the_override() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    let set = operator.set("7", &json!({ "limit": 4, "author": "ann", "note": "#4711" }));
    assert_eq!(set.status, 200, "{set:?}");
    let request = json!({ "domain": "api", "attributes": { "user": "7" } }).to_string();
    let expected = json!({ "id": "api/per-user/user=7", "version": 1, "author": "ann", "expires_at_ns": null, "note": "#4711" });
    for path in ["/v1/check", "/v1/peek"] {
        assert!(!post(&server, path, &request).body.contains("override"));
        let answer = post(&server, &format!("{path}?override=true"), &request).json();
        assert_eq!(answer["limits"][0]["override"], expected, "{answer}");
        let batch = format!(r#"{{"requests": [{request}]}}"#);
        let results = post(&server, &format!("{path}?override=true"), &batch).json();
        assert_eq!(results["results"][0]["limits"][0]["override"], expected, "{results}");
    }
    assert_eq!(operator.set("7", &json!({ "unlimited": true })).status, 200);
    let lifted = json!([{ "rule": "per-user", "limit": 1, "descriptor": 0, "override": {
        "id": "api/per-user/user=7", "version": 2, "author": null, "expires_at_ns": null, "note": null,
    } }]);
    assert_eq!(post(&server, "/v1/check?override=true", &request).json()["overrides"], lifted);
    assert_eq!(post(&server, "/v1/explain", &request).json()["overrides"], lifted);
    let text = post(&server, "/v1/explain?format=text", &request).body;
    assert!(text.contains("rule per-user: unlimited by override api/per-user/user=7, version 2"), "{text}");
}

#[test]
fn one_key_and_pages_of_all() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    for user in ["24", "25", "7", "a*", "é, 7"] {
        assert_eq!(operator.set(user, &json!({ "limit": 4 })).status, 200);
    }
    for (name, limit) in [("hourly", 5), ("daily", 6)] {
        let body = json!({
            "domain": "api", "rule": "pages", "key": { "user": "7" }, "limit": limit, "limit_name": name,
        });
        assert_eq!(operator.send("PUT", "/v1/overrides", &body).status, 200);
    }
    let ids = |response: &Response| -> Vec<String> {
        assert_eq!(response.status, 200, "{response:?}");
        let page = response.json();
        let ids =
            page["overrides"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
        ids.collect()
    };
    let one = operator.0.get("/v1/overrides?domain=api&rule=per-user&key.user=%C3%A9%2C+7");
    assert_eq!(ids(&one), ["api/per-user/user=é, 7"]);
    let one = operator.0.get("/v1/overrides?domain=api&rule=pages&key.user=7&limit_name=daily");
    assert_eq!(ids(&one), ["api/pages/user=7#daily"]);
    operator.0.get("/v1/overrides?domain=api&rule=pages&key.user=8").assert_problem(404, &["no override"]);
    let some = operator.0.get("/v1/overrides?domain=api&rule=per-user&prefix=user%3D2");
    assert_eq!(ids(&some), ["api/per-user/user=24", "api/per-user/user=25"]);
    let some = operator.0.get("/v1/overrides?rule=pages&prefix=user%3D7");
    assert_eq!(ids(&some), ["api/pages/user=7#hourly", "api/pages/user=7#daily"]);
    operator.0.get("/v1/overrides?after=x").assert_problem(404, &["not the end of a page"]);
    let (mut all, mut path) = (Vec::new(), "/v1/overrides?max=2".to_owned());
    let (mut lines, mut pages) = (String::new(), 0);
    loop {
        let page = operator.0.get(&path);
        all.extend(ids(&page));
        pages += 1;
        let export = operator.0.get(&path.replace("/v1/overrides", "/v1/overrides/export"));
        lines.push_str(&export.body);
        let next = page.json()["next"].as_str().map(str::to_owned);
        assert_eq!(export.header("x-tidegate-next").map(str::to_owned), next);
        let Some(next) = next else { break };
        path = format!("/v1/overrides?max=2&after={next}");
    }
    let expected = [
        "pages/user=7#hourly",
        "pages/user=7#daily",
        "per-user/user=24",
        "per-user/user=25",
        "per-user/user=7",
        "per-user/user=é, 7",
        "per-user/user=a*",
    ];
    assert_eq!(all, expected.map(|id| format!("api/{id}")));
    assert!(pages >= 3, "{pages}");
    // What was exported can be imported.
    let imported = operator.0.request(
        "POST",
        "/v1/overrides/import",
        &["content-type: application/x-ndjson"],
        lines.as_bytes(),
    );
    assert_eq!(imported.json(), json!({ "written": 7, "refused": [] }));
}

#[test]
fn an_import_reports_bad_lines_and_sets_the_others() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    let line = |user: &str, rest: &str| {
        format!(r#"{{"domain": "api", "rule": "per-user", "key": {{"user": "{user}"}}{rest}}}"#)
    };
    let lines = [
        line("1", r#", "limit": 1"#),
        "{".to_owned(),
        String::new(),
        line("2", r#", "limit": "5 per moment""#),
        line("3", r#", "blocked": true"#),
        line("4", "").replace("per-user", "per-usr"),
        line("1", r#", "limit": 9"#),
        line("b*", r#", "limit": 0"#),
    ];
    let headers = ["content-type: application/x-ndjson"];
    let imported = operator.0.request("POST", "/v1/overrides/import", &headers, lines.join("\n").as_bytes());
    assert_eq!(imported.status, 200, "{imported:?}");
    let imported = imported.json();
    assert_eq!(imported["written"], 4);
    let numbers: Vec<&Value> =
        imported["refused"].as_array().unwrap().iter().map(|refused| &refused["line"]).collect();
    assert_eq!(numbers, [2, 4, 6]);
    assert!(imported["refused"][2].to_string().contains("did you mean `per-user`?"), "{imported}");
    assert_eq!(check(&server, "1").json()["remaining"], 8, "the last line of a key wins");
    assert_eq!(["3", "b7", "2"].map(|user| check(&server, user).status), [429, 429, 200]);
    let many = vec![line("1", r#", "limit": 1"#); 5_001].join("\n");
    let refused = operator.0.request("POST", "/v1/overrides/import", &headers, many.as_bytes());
    refused.assert_problem(400, &["5001 lines", "at most 5000"]);
}

#[test]
fn a_tier_of_a_single_key() {
    let server = Server::new(KEYS);
    let mut operator = Operator::new(&server);
    let remaining = |tenant: &str| {
        let request = json!({ "domain": "api", "attributes": { "tenant": tenant } });
        post(&server, "/v1/check", &request.to_string()).json()["remaining"].clone()
    };
    let body = json!({ "domain": "api", "rule": "plans", "key": { "tenant": "acme" }, "tier": "pro" });
    assert_eq!(operator.send("PUT", "/v1/overrides", &body).status, 200);
    assert_eq!((remaining("acme"), remaining("globex")), (json!(49), json!(0)));
}
