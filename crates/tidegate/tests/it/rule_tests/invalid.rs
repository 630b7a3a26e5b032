//! Invalid test files, and their errors.

use tidegate::rules::{RuleTests, STEP_TIMES_MAX};

/// The code and the message of every error of a file.
fn read_errors(text: &str) -> Vec<(String, String)> {
    let report = RuleTests::parse("tests.yaml", text).expect_err(text);
    assert!(report.to_string().contains("tests.yaml"), "{report}");
    report
        .diagnostics()
        .iter()
        .map(|diagnostic| (diagnostic.code.to_owned(), diagnostic.message.clone()))
        .collect()
}

#[track_caller]
fn assert_read_error(text: &str, code: &str, message: &str) {
    assert_eq!(read_errors(text), [(code.to_owned(), message.to_owned())], "{text}");
}

/// A file of one test with these steps.
fn steps(steps: &str) -> String {
    format!("tests:\n  - name: one\n    steps:\n      - {{ request: {{}}, expect: allowed }}\n{steps}")
}

#[test]
fn invalid_files() {
    assert_read_error("", "empty-file", "the file is empty");
    assert_read_error("- a\n", "wrong-type", "expected a file of tests (a mapping), found a list");
    assert_read_error("{}\n", "missing-field", "field `tests` is missing");
    assert_read_error("tests: {}\n", "wrong-type", "expected a list, found a mapping");
    let two = "tests:\n  - &t { name: a, steps: [ { request: {}, expect: allowed } ] }\n  - *t\n";
    assert_eq!(read_errors(two)[0].1, "two tests have the name `a`");
}

/// Words of other tools are translated.
#[test]
fn other_words_for_decisions() {
    for (word, meant) in [("banned", "shadow_banned"), ("rejected", "denied"), ("ok", "allowed")] {
        let text = steps(&format!("      - {{ request: {{}}, expect: {word} }}\n"));
        let report = RuleTests::parse("tests.yaml", &text).expect_err(word);
        let hint = report.diagnostics()[0].hint.clone();
        assert_eq!(hint, Some(format!("here it is called `{meant}`")), "{word}");
    }
}

#[test]
fn invalid_tests() {
    let test = |fields: &str| format!("tests:\n  - {{ {fields} }}\n");
    let expecting = "steps: [ { request: {}, expect: allowed } ]";
    assert_read_error(&test(expecting), "missing-field", "field `name` is missing");
    assert_read_error(&test("name: a"), "missing-field", "field `steps` is missing");
    let nothing = "the test expects nothing, so it cannot fail";
    assert_read_error(&test("name: a, steps: []"), "expects-nothing", nothing);
    assert_read_error(&test("name: a, steps: [ { request: {} } ]"), "expects-nothing", nothing);
    assert_read_error(&test("name: a, steps: [ { request: {}, expect: {} } ]"), "expects-nothing", nothing);
    for start in
        ["2026-01-01", "soon", "1969-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "9999-01-01T00:00:00Z"]
    {
        let text = test(&format!("name: a, start: \"{start}\", {expecting}"));
        assert_read_error(&text, "not-an-instant", &format!("`{start}` is not an instant from 1970 to 2554"));
    }
}

#[test]
fn invalid_steps() {
    let cases = [
        ("      - {}\n", "what-to-do", "a step does one thing"),
        ("      - { request: {}, signal: { a: 1 } }\n", "what-to-do", "a step does one thing"),
        (
            "      - { signal: { a: 1 }, times: 2 }\n",
            "misplaced-field",
            "`times` is not allowed in a step with `signal`",
        ),
        ("      - { signal: { a: 1.5 } }\n", "not-a-level", "`1.5` is not a level of a signal"),
        ("      - { request: { user: } }\n", "missing-value", "attribute `user` has no value"),
        ("      - { request: { user: [a] } }\n", "wrong-type", "expected text, found a list"),
        ("      - { descriptors: [] }\n", "no-descriptors", "a request has at least one descriptor"),
        (
            "      - { descriptors: [ { cost: 2 } ] }\n",
            "missing-field",
            "expected either `attributes` or `entries`",
        ),
        (
            "      - { descriptors: [ { entries: [ { a: b, c: d } ] } ] }\n",
            "wrong-type",
            "expected an entry, found a mapping",
        ),
        ("      - { request: {}, expct: denied }\n", "unknown-field", "a step has no field `expct`"),
        ("      - { request: {}, expect: deny }\n", "unknown-word", "unknown decision `deny`"),
        (
            "      - { request: {}, expect: { rul: a } }\n",
            "unknown-field",
            "an expectation has no field `rul`",
        ),
        ("      - { request: {}, expect: { limit: 0 } }\n", "not-a-place", "there is no such limit"),
        (
            "      - { at: 2s, request: {} }\n      - { at: 1s, request: {} }\n",
            "step-back",
            "the step is at 1s, earlier than the one before it at 2s",
        ),
        ("      - { request: {}, times: 0 }\n", "times-out-of-range", "`times` must be from 1 to 1000000"),
    ];
    for (text, code, message) in cases {
        assert_read_error(&steps(text), code, message);
    }
}

#[test]
fn bounds() {
    let most = format!("      - {{ request: {{}}, times: {STEP_TIMES_MAX} }}\n");
    assert!(RuleTests::parse("tests.yaml", &steps(&most)).is_ok());
    let more = most.replace("000000 }", "000001 }");
    assert_read_error(&steps(&more), "times-out-of-range", "`times` must be from 1 to 1000000");
    let many = read_errors(&steps(&most.repeat(10)));
    assert_eq!(many, [("too-many-requests".into(), "the tests make more than 10000000 requests".into())]);
}
