//! An expectation that is not met is shown where it stands, with what came instead.

use tidegate::rules::{self, RuleTests, TestStatus};

use super::failures;

const LOGIN: &str =
    "{ name: login, key: [user], limits: [ { name: few, limit: 2 per minute, algorithm: fixed_window } ] }";

#[test]
fn a_mismatch_in_every_field_is_reported() {
    let cases = [
        ("denied", "expected decision denied, came allowed"),
        ("{ decision: soft }", "expected decision soft, came allowed"),
        ("{ rule: logout }", "expected rule logout, came login"),
        ("{ rule: }", "expected rule none, came login"),
        ("{ limit: 1 }", "expected limit 1, came few"),
        ("{ remaining: 2 }", "expected remaining 2, came 1"),
        ("{ retry_after: 1s }", "expected retry_after 1s, came 0s"),
        ("{ reset_after: 59s }", "expected reset_after 59s, came 1m"),
        ("{ delay: 500ms }", "expected delay 500ms, came 0s"),
        ("{ candidate: denied }", "expected candidate denied, came none"),
    ];
    for (expect, message) in cases {
        let said = failures(&[LOGIN], &[&format!("{{ request: {{ user: alice }}, expect: {expect} }}")]);
        assert_eq!(said, [format!("one: {message}")], "{expect}");
    }
}

#[test]
fn where_no_limit_applies() {
    let expect = "{ request: {}, expect: { decision: denied, rule: login, limit: few, remaining: 1 } }";
    let said = failures(&["{ name: login, match: { path: /login }, limit: 1 per second }"], &[expect]);
    let messages = [
        "one: expected decision denied, came allowed",
        "one: expected rule login, came none",
        "one: expected limit few, came none",
        "one: expected remaining 1, came no limit",
    ];
    assert_eq!(said, messages);
}

#[test]
fn the_first_step_that_fails_ends_the_test() {
    let steps = [
        "{ request: { user: alice }, times: 4, expect: allowed }",
        "{ request: { user: bob }, expect: denied }",
    ];
    let said = failures(&[LOGIN], &steps);
    assert_eq!(said, ["one: request 3 of 4: expected decision allowed, came denied"]);
}

#[test]
fn unknown_domains_and_signals() {
    let said = failures(&[LOGIN], &["{ signal: { capacity: 0.5 } }", "{ request: {}, expect: allowed }"]);
    assert!(said[0].starts_with("one: no rule moves with a signal `capacity`"), "{said:?}");
    let rules = "domain: api\nrules: [ { name: all, limit: 1 per hour } ]\n";
    let domains = rules::parse("rules.yaml", rules).unwrap().domains;
    let tests = "tests:\n  - { name: one, domain: apy, steps: [ { request: {}, expect: allowed } ] }\n";
    let results = RuleTests::parse("tests.yaml", tests).unwrap().run(&domains);
    let found = &results.report().diagnostics()[0];
    assert_eq!(found.message, "one: the rules have no domain `apy`");
    assert_eq!(found.hint.as_deref(), Some("did you mean `api`?"));
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
    let verdicts: Vec<TestStatus> = results.tests().iter().map(|test| test.status).collect();
    assert_eq!(verdicts, [TestStatus::Failed, TestStatus::Passed]);
    let shown = results.report().to_string();
    let expected = "\
error[expectation]: bob is not alice: expected decision allowed, came denied
 --> tests.yaml:9:21
  |
3 |   - name: bob is not alice
  |           ---------------- in this test
...
9 |           decision: allowed
  |                     ^^^^^^^ came denied
  |
  = help: the answer was: denied by rule login, limit few, 0 remaining, retry after 58s
";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("expected retry_after 59s, came 58s"), "{shown}");
}
