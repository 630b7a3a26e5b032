//! A failed expectation is shown at its position, with the actual value.

use tidegate::rules::{self, RuleTests, TestStatus};

use super::failures;

const LOGIN: &str =
    "{ name: login, key: [user], limits: [ { name: few, limit: 2 per minute, algorithm: fixed_window } ] }";

#[test]
fn a_mismatch_in_every_field_is_reported() {
    let cases = [
        ("denied", "expected decision denied, got allowed"),
        ("{ decision: soft }", "expected decision soft, got allowed"),
        ("{ rule: logout }", "expected rule logout, got login"),
        ("{ rule: }", "expected rule none, got login"),
        ("{ limit: 1 }", "expected limit 1, got few"),
        ("{ remaining: 2 }", "expected remaining 2, got 1"),
        ("{ retry_after: 1s }", "expected retry_after 1s, got 0s"),
        ("{ reset_after: 59s }", "expected reset_after 59s, got 1m"),
        ("{ delay: 500ms }", "expected delay 500ms, got 0s"),
        ("{ candidate: denied }", "expected candidate denied, got none"),
    ];
    for (expect, message) in cases {
        let messages = failures(&[LOGIN], &[&format!("{{ request: {{ user: alice }}, expect: {expect} }}")]);
        assert_eq!(messages, [format!("one: {message}")], "{expect}");
    }
}

#[test]
fn where_no_limit_applies() {
    let expect = "{ request: {}, expect: { decision: denied, rule: login, limit: few, remaining: 1 } }";
    let actual = failures(&["{ name: login, match: { path: /login }, limit: 1 per second }"], &[expect]);
    let expected = [
        "one: expected decision denied, got allowed",
        "one: expected rule login, got none",
        "one: expected limit few, got none",
        "one: expected remaining 1, got no limit",
    ];
    assert_eq!(actual, expected);
}

#[test]
fn the_first_step_that_fails_ends_the_test() {
    let steps = [
        "{ request: { user: alice }, times: 4, expect: allowed }",
        "{ request: { user: bob }, expect: denied }",
    ];
    let messages = failures(&[LOGIN], &steps);
    assert_eq!(messages, ["one: request 3 of 4: expected decision allowed, got denied"]);
}

#[test]
fn unknown_domains_and_signals() {
    let messages = failures(&[LOGIN], &["{ signal: { capacity: 0.5 } }", "{ request: {}, expect: allowed }"]);
    assert!(messages[0].starts_with("one: no rule uses the signal `capacity`"), "{messages:?}");
    let rules = "domain: api\nrules: [ { name: all, limit: 1 per hour } ]\n";
    let domains = rules::parse("rules.yaml", rules).unwrap().domains;
    let tests = "tests:\n  - { name: one, domain: apy, steps: [ { request: {}, expect: allowed } ] }\n";
    let results = RuleTests::parse("tests.yaml", tests).unwrap().run(&domains);
    let diagnostic = &results.report().diagnostics()[0];
    assert_eq!(diagnostic.message, "one: the rules have no domain `apy`");
    assert_eq!(diagnostic.hint.as_deref(), Some("did you mean `api`?"));
    let two = [domains.clone(), rules::parse("b.yaml", &rules.replace("api", "b")).unwrap().domains].concat();
    let tests = tests.replace("domain: apy, ", "");
    let results = RuleTests::parse("tests.yaml", &tests).unwrap().run(&two);
    assert_eq!(results.report().diagnostics()[0].message, "one: the rules have several domains");
}

#[test]
fn a_failure_points_to_its_line() {
    let rules = format!("domain: api\nrules:\n  - {LOGIN}\n");
    let tests = "
tests:
  - name: bob is not alice
    steps:
      - { at: 1s, request: { user: alice }, times: 2 }
      - at: 2s
        request: { user: alice }
        expect:
          decision: allowed
          retry_after: 59s
  - { name: fine, steps: [ { request: {}, expect: allowed } ] }
";
    let tests = RuleTests::parse("tests.yaml", tests).unwrap();
    let results = tests.run(&rules::parse("rules.yaml", &rules).unwrap().domains);
    let statuses: Vec<TestStatus> = results.tests().iter().map(|test| test.status).collect();
    assert_eq!(statuses, [TestStatus::Failed, TestStatus::Passed]);
    let report = results.report().to_string();
    let expected = "\
error[expectation]: bob is not alice: expected decision allowed, got denied
 --> tests.yaml:9:21
  |
3 |   - name: bob is not alice
  |           ---------------- in this test
...
9 |           decision: allowed
  |                     ^^^^^^^ got denied
  |
  = help: the answer was: denied by rule login, limit few, 0 remaining, retry after 58s
";
    assert!(report.starts_with(expected), "{report}");
    assert!(report.contains("expected retry_after 59s, got 58s"), "{report}");
}
