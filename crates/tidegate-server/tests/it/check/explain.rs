//! `--request`: how the rules decide one request.

use crate::check::{Directory, assert_success, json as document, tidegate};

const RULES: &str = "
domain: api
rules:
  - { name: login, match: { path: /login }, key: [user], limit: 5 per hour }
  - { name: closed, match: { path: /closed }, limit: 1 per hour }
";

fn explain(request: &str) -> crate::check::Run {
    let directory = Directory::new();
    let path = directory.write("api.yaml", RULES);
    tidegate(&["check", &path, "--request", request], "")
}

#[test]
fn both_forms_and_standard_input() {
    let directory = Directory::new();
    let path = directory.write("api.yaml", RULES);
    let attributes = r#"{"domain": "api", "attributes": {"path": "/login", "user": "42"}, "cost": 2}"#;
    let run = tidegate(&["check", &path, "--request", attributes], "");
    assert_success(&run);
    for text in [
        "descriptor 1: path=/login user=42",
        "rule login: applies",
        "key user=42, cost 2, action reject: allowed, 3 remaining",
        "admits at most 9 in any 1h: 5 at once and 4 more within 48m",
        "rule closed: does not match: ",
        "decision: allowed by login limit 1, 3 remaining",
    ] {
        assert!(run.out.contains(text), "{text}: {}", run.out);
    }
    let descriptors = r#"{"descriptors": [{"cost": 2, "entries": [{"key": "path", "value": "/login"},
        {"key": "user", "value": "42"}]}]}"#;
    assert_eq!(tidegate(&["check", &path, "--request", descriptors], "").out, run.out);
    assert_eq!(tidegate(&["check", &path, "--request", "-"], attributes).out, run.out);
}

#[test]
fn actions_plans_and_missing_keys() {
    let directory = Directory::new();
    let rules = "
domain: api
rules:
  - name: plan
    key: [user]
    action: { delay: { max_wait: 5s } }
    tiers: { by: header.x-plan, plans: { free: [ 5 per hour ], staff: unlimited }, default: free }
  - { name: dry, key: [user, ip], limit: 5 per hour, action: shadow }
  - { name: strict, key: [user], missing: deny, limit: 5 per hour }
";
    let path = directory.write("api.yaml", rules);
    let explain = |attributes: &str| {
        let request = format!(r#"{{"attributes": {{{attributes}}}}}"#);
        let text = tidegate(&["check", &path, "--request", &request], "");
        let json = tidegate(&["check", &path, "--format", "json", "--request", &request], "");
        (text.out, document(&json)["explanation"]["descriptors"][0]["rules"].clone())
    };
    let (text, rules) = explain(r#""header.x-plan": "free", "ip": "192.0.2.1""#);
    for part in [
        "rule plan: applies, plan free\n",
        "key user missing (all requests that lack it share this counter), cost 1, action delay {max_wait: 5s}: ",
        "key user missing ip=192.0.2.1 (all requests that lack it share this counter), cost 1, action shadow: ",
        "\n      never denies\n",
        "key user missing, cost 1, action reject: denied, part of the key is missing",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(rules[0]["plan"], "free");
    let limit = &rules[0]["limits"][0];
    assert_eq!((&limit["action"], &limit["shared"]), (&"delay".into(), &true.into()));
    assert_eq!(limit["missing_parts"], serde_json::json!(["user"]));
    assert_eq!(limit["worst_case"]["units"], 9);
    assert_eq!(rules[1]["limits"][0]["worst_case"], serde_json::Value::Null);
    let (text, rules) = explain(r#""header.x-plan": "gold", "user": "ann""#);
    assert!(
        text.contains("rule plan: applies, default of the plans (header.x-plan=gold is none of them)\n"),
        "{text}"
    );
    assert_eq!((&rules[0]["plan"], &rules[0]["limits"][0]["shared"]), (&"default".into(), &false.into()));
    assert!(
        explain(r#""user": "ann""#).0.contains("applies, default of the plans (header.x-plan missing)\n")
    );
    assert!(explain(r#""header.x-plan": "staff""#).0.contains("applies, plan staff, and limits nothing\n"));
}

/// In a file for envoyproxy/ratelimit, a request is denied if all its quotas are exceeded.
#[test]
fn quotas_that_can_deny_have_a_worst_case() {
    let directory = Directory::new();
    let rules = "
domain: edge
descriptors:
  - { key: model, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 5 } }
";
    let path = directory.write("edge.yaml", rules);
    let listed = tidegate(&["check", &path], "").out;
    assert!(listed.contains("edge model limit 1: 10 in any 1h"), "{listed}");
    assert!(listed.contains("(and more while another quota of the request has room)\n"), "{listed}");
    let request = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "model", "value": "a"}]}]}"#;
    let explained = tidegate(&["check", &path, "--request", request], "").out;
    assert!(explained.contains(", and more while another quota of the request has room\n"), "{explained}");
    assert!(!explained.contains("never denies"), "{explained}");
    let native = "domain: api\nrules:\n  - { name: q, limit: 5 per hour, action: quota }\n";
    let path = directory.write("native.yaml", native);
    let request = r#"{"domain": "api", "attributes": {"user": "ann"}}"#;
    assert!(tidegate(&["check", &path, "--request", request], "").out.contains("      never denies\n"));
}

#[test]
fn a_denial_is_an_explanation_like_any_other() {
    let run = explain(r#"{"attributes": {"path": "/closed"}, "cost": 2}"#);
    assert_success(&run);
    assert!(
        run.out.contains("decision: denied by closed limit 1, 1 remaining, retry after never"),
        "{}",
        run.out
    );
}

#[test]
fn json_output() {
    let directory = Directory::new();
    let path = directory.write("api.yaml", RULES);
    let request = r#"{"attributes": {"path": "/login", "user": "42"}}"#;
    let run = tidegate(&["check", &path, "--format", "json", "--request", request], "");
    assert_success(&run);
    let document = document(&run);
    assert_eq!(document["ok"], true);
    let decision = &document["explanation"]["decision"];
    assert_eq!((&decision["decision"], &decision["rule"]), (&"allowed".into(), &"login".into()));
    assert_eq!(decision["remaining"], 4);
}

#[test]
fn a_domain_without_rules() {
    let run = explain(r#"{"domain": "apy", "attributes": {"path": "/login"}}"#);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.err, "warning: the rules have no such domain (hint: did you mean `api`?)\n");
    assert!(run.out.contains("domain apy: has no rules, so nothing is limited"), "{}", run.out);
}

#[test]
fn one_of_several_domains() {
    let directory = Directory::new();
    directory.write("a.yaml", RULES);
    directory.write("b.yaml", RULES.replace("api", "web"));
    let run = tidegate(&["check", directory.path(), "--request", r#"{"attributes": {}}"#], "");
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    let message = "error: the request names no domain, and the rules have several (hint: add \"domain\": \"api\" to the request; the domains are: api, web)\n";
    assert_eq!(run.err, message);
    let run =
        tidegate(&["check", directory.path(), "--request", r#"{"domain": "web", "attributes": {}}"#], "");
    assert_success(&run);
}

#[test]
fn invalid_requests() {
    let cases = [
        (
            "{",
            "error: cannot read the request: line 1, column 1: this is not JSON: EOF while parsing an object",
        ),
        (
            r#"{"atributes": {}}"#,
            "error: cannot read the request: line 1, column 12: a request has no field `atributes` (hint: did you \
             mean `attributes`?)",
        ),
        (
            r#"{"attributes": {"a": 1}}"#,
            "error: cannot read the request: line 1, column 22: invalid type: integer",
        ),
        (
            r#"{"attributes": {}, "cost": -1}"#,
            "error: cannot read the request: line 1, column 29: invalid type",
        ),
    ];
    for (request, text) in cases {
        let run = explain(request);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{request}");
        assert!(run.err.starts_with(text) && run.err.contains("(hint: "), "{request}: {}", run.err);
        assert_eq!(run.err.lines().count(), 1);
    }
}
