//! `--tests`: tests of rules that operators write.

use crate::check::{Directory, assert_success, json, tidegate};

const RULES: &str = "domain: api\nrules: [ { name: login, key: [user], limit: 2 per hour } ]\n";
const PASSING_TESTS: &str = "
tests:
  - name: the third is denied
    steps:
      - { request: { user: a }, times: 2, expect: allowed }
      - { request: { user: a }, expect: { decision: denied, rule: login } }
";
const FAILING_TESTS: &str = "
tests:
  - { name: fine, steps: [ { request: { user: a }, expect: allowed } ] }
  - { name: wrong, steps: [ { request: { user: a }, times: 3, expect: allowed } ] }
";

#[test]
fn passing_tests() {
    let directory = Directory::new();
    let (rules, tests) = (directory.write("api.yaml", RULES), directory.write("tests/a.yaml", PASSING_TESTS));
    let run = tidegate(&["check", &rules, "--tests", &tests], "");
    assert_success(&run);
    assert_eq!(run.out, "1 passed, 0 failed\n");
    let run = tidegate(&["check", &rules, "--tests", &tests, "--format", "json"], "");
    assert_success(&run);
    let tests_json = &json(&run)["tests"];
    assert_eq!((&tests_json["passed"], &tests_json["failed"]), (&1.into(), &0.into()));
    let result = serde_json::json!([{ "file": tests, "name": "the third is denied", "passed": true }]);
    assert_eq!(tests_json["results"], result);
}

#[test]
fn failing_tests() {
    let directory = Directory::new();
    let (rules, tests) = (directory.write("api.yaml", RULES), directory.write("tests/b.yaml", FAILING_TESTS));
    let run = tidegate(&["check", &rules, "--tests", &tests], "");
    assert_eq!((run.code, run.out.as_str()), (Some(1), "1 passed, 1 failed\n"), "{run:?}");
    for text in [
        "error[expectation]: wrong: request 3 of 3: expected decision allowed, got denied",
        &format!("--> {tests}:4:"),
        "the answer was: denied by rule login, limit 1, 0 remaining, retry after 30m",
    ] {
        assert!(run.err.contains(text), "{text}: {}", run.err);
    }
    let run = tidegate(&["check", &rules, "--tests", &tests, "--format", "json"], "");
    assert_eq!((run.code, run.err.as_str()), (Some(1), ""), "{run:?}");
    let document = json(&run);
    assert_eq!((&document["ok"], &document["errors"]), (&false.into(), &0.into()));
    assert_eq!((&document["tests"]["failed"], &document["tests"]["errors"]), (&1.into(), &1.into()));
    assert_eq!(document["tests"]["diagnostics"][0]["line"], 4);
}

#[test]
fn tests_in_directories_and_files() {
    let directory = Directory::new();
    let rules = directory.write("api.yaml", RULES);
    let (met, unmet) =
        (directory.write("tests/a.yaml", PASSING_TESTS), directory.write("tests/b.yaml", FAILING_TESTS));
    let all = format!("{}/tests", directory.path());
    for tests in [vec!["--tests", all.as_str()], vec!["--tests", &met, "--tests", &unmet]] {
        let run = tidegate(&[&["check", &rules], tests.as_slice()].concat(), "");
        assert_eq!((run.code, run.out.as_str()), (Some(1), "2 passed, 1 failed\n"), "{run:?}");
    }
}

#[test]
fn invalid_tests() {
    let directory = Directory::new();
    let rules = directory.write("api.yaml", RULES);
    let tests = directory.write("tests/a.yaml", "tests: [ { name: a, step: [] } ]\n");
    let run = tidegate(&["check", &rules, "--tests", &tests], "");
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains("did you mean `steps`?"), "{}", run.err);
    let run = tidegate(&["check", &rules, "--tests", "/no/such/tests.yaml"], "");
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.err.contains("/no/such/tests.yaml"), "{}", run.err);
    let run = tidegate(&["check", &rules, "--tests", "/no/such", "--format", "json"], "");
    assert_eq!((run.code, run.err.as_str(), &json(&run)["ok"]), (Some(2), "", &false.into()));
}

#[test]
fn tests_of_invalid_rules() {
    let directory = Directory::new();
    let (rules, tests) =
        (directory.write("api.yaml", "domain: api\n"), directory.write("tests/a.yaml", PASSING_TESTS));
    let run = tidegate(&["check", &rules, "--tests", &tests], "");
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains("field `rules` is missing"), "{}", run.err);
}
