//! The result of a check, written as text or as JSON.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use serde_json::{Value, json};
use tidegate::rules::{Domain, Report, TestResult, TestResults, TestStatus};

use super::is_unreadable;
use super::worst_cases::WorstCases;
use crate::output::{self, CommandStatus, Failure};
use crate::text;

/// The result of a check.
pub(super) struct Findings {
    report: Report,
    domains: usize,
    rules: usize,
    worst_cases: WorstCases,
    pub result: CheckResult,
    pub deny_warnings: bool,
}

/// The result of `--request` or `--tests`, beside the report on the rules.
pub(super) enum CheckResult {
    Nothing,
    Explained(ExplainedRequest),
    Tests(TestResults),
    /// The test files cannot be read or have errors.
    BadTests(Report),
}

/// How the rules decide a request.
pub(super) struct ExplainedRequest {
    pub text: String,
    pub json: Value,
    /// A warning about the request.
    pub note: Option<String>,
}

impl Findings {
    pub fn new(report: Report, domains: &[Domain], nodes: NonZeroU32) -> Self {
        let rules = domains.iter().map(|domain| domain.rules.len()).sum();
        Self {
            report,
            domains: domains.len(),
            rules,
            worst_cases: WorstCases::of(domains, nodes),
            result: CheckResult::Nothing,
            deny_warnings: false,
        }
    }

    pub fn status(&self) -> CommandStatus {
        if is_unreadable(&self.report)
            || matches!(&self.result, CheckResult::BadTests(report) if is_unreadable(report))
        {
            return CommandStatus::UnusableInput;
        }
        let tests_failed = match &self.result {
            CheckResult::Tests(results) => results.failed() > 0,
            CheckResult::BadTests(_) => true,
            CheckResult::Nothing | CheckResult::Explained(_) => false,
        };
        if self.report.errors() > 0 || tests_failed || self.has_denied_warnings() {
            return CommandStatus::ProblemsFound;
        }
        CommandStatus::Success
    }

    pub fn write_text(&self) -> Result<(), Failure> {
        output::print_report(&self.report);
        match &self.result {
            CheckResult::Nothing => {}
            CheckResult::Explained(ExplainedRequest { note, .. }) => {
                note.iter().for_each(|note| output::print_stderr(&format!("warning: {note}")));
            }
            CheckResult::Tests(results) => output::print_report(results.report()),
            CheckResult::BadTests(report) => output::print_report(report),
        }
        if self.has_denied_warnings() {
            output::print_stderr("error: warnings are denied (hint: omit --deny-warnings to allow them)");
        }
        output::print_stdout(&self.summary())
    }

    /// The text for standard output.
    fn summary(&self) -> String {
        match &self.result {
            CheckResult::Explained(explained) => explained.text.clone(),
            CheckResult::Tests(results) => {
                format!("{} passed, {} failed\n", results.passed(), results.failed())
            }
            CheckResult::Nothing if self.status() == CommandStatus::Success => {
                let mut summary = self.worst_cases.to_text();
                let _ = write!(summary, "ok: {}", count_noun(self.report.file_names().len(), "file"));
                let counts =
                    [(self.domains, "domain"), (self.rules, "rule"), (self.report.warnings(), "warning")];
                for (count, what) in counts {
                    // Writing to a string does not fail.
                    let _ = write!(summary, ", {}", count_noun(count, what));
                }
                summary + "\n"
            }
            CheckResult::Nothing | CheckResult::BadTests(_) => String::new(),
        }
    }

    pub fn write_json(&self) -> Result<(), Failure> {
        let mut document = output::parse_json(&self.report.to_json());
        document["ok"] = (self.status() == CommandStatus::Success).into();
        document["files"] = self.report.file_names().len().into();
        document["domains"] = self.domains.into();
        document["rules"] = self.rules.into();
        match &self.result {
            CheckResult::Nothing => document["limits"] = self.worst_cases.to_json(),
            CheckResult::Explained(explained) => document["explanation"] = explained.json.clone(),
            CheckResult::Tests(results) => document["tests"] = tests_json(results),
            CheckResult::BadTests(report) => document["tests"] = output::parse_json(&report.to_json()),
        }
        output::print_stdout(&format!("{document}\n"))
    }

    fn has_denied_warnings(&self) -> bool {
        self.deny_warnings && self.report.warnings() > 0
    }
}

fn tests_json(results: &TestResults) -> Value {
    let mut document = output::parse_json(&results.report().to_json());
    let test_json = |test: &TestResult| {
        let passed = test.status == TestStatus::Passed;
        json!({ "file": test.file, "name": test.name, "passed": passed })
    };
    document["passed"] = results.passed().into();
    document["failed"] = results.failed().into();
    document["results"] = results.tests().iter().map(test_json).collect();
    document
}

fn count_noun(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {what}{s}", text::grouped_number(count as u64))
}
