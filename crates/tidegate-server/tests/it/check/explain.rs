//! `--request`: how the rules decide one request.

use crate::check::{Directory, assert_success, json, tidegate};

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
        "key user=42, cost 2: allowed, 3 remaining",
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
    let document = json(&run);
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
