//! Tests that operators write for their rules: when they pass, when they fail, and which files are invalid.
#![cfg(all(feature = "calendar", feature = "rules"))]

mod failing;
mod invalid;
mod login_attack;
mod passing;
mod recipes;

use tidegate::rules::{self, RuleTests, TestResults};

/// Runs the steps, one per line, as one test against the rules, one per line.
fn run(rules_lines: &[&str], steps: &[&str]) -> TestResults {
    let lines: String = rules_lines.iter().map(|rule| format!("  - {rule}\n")).collect();
    let loaded =
        rules::parse("rules.yaml", &format!("domain: api\npools: {{ spare: 3 per hour }}\nrules:\n{lines}"));
    let steps: String = steps.iter().map(|step| format!("      - {step}\n")).collect();
    let tests = RuleTests::parse("tests.yaml", &format!("tests:\n  - name: one\n    steps:\n{steps}"));
    tests
        .unwrap_or_else(|report| panic!("{report}"))
        .run(&loaded.unwrap_or_else(|report| panic!("{report}")).domains)
}

#[track_caller]
fn assert_passes(rules: &[&str], steps: &[&str]) {
    let results = run(rules, steps);
    assert_eq!((results.passed(), results.failed()), (1, 0), "{}", results.report());
    assert_eq!(results.report().errors(), 0);
}

/// The failures of the first step that fails.
#[track_caller]
fn failures(rules: &[&str], steps: &[&str]) -> Vec<String> {
    let results = run(rules, steps);
    assert_eq!((results.passed(), results.failed()), (0, 1));
    results.report().diagnostics().iter().map(|diagnostic| diagnostic.message.clone()).collect()
}
