//! What a check found, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tidegate::rules::{Domain, Report, TestResults, TestVerdict};

use super::is_unread;
use crate::output::{self, Failure, Verdict};
use crate::shown;

/// What a check found.
pub(super) struct Findings {
    report: Report,
    domains: usize,
    rules: usize,
    pub found: Found,
    pub deny_warnings: bool,
}

/// What was found beside what is wrong with the rules.
pub(super) enum Found {
    Nothing,
    Explained(Explained),
    Tests(TestResults),
    /// The tests cannot be read.
    BadTests(Report),
}

/// What rules make of a request.
pub(super) struct Explained {
    pub text: String,
    pub json: Value,
    /// What is odd about it.
    pub note: Option<String>,
}

impl Findings {
    pub fn of(report: Report, domains: &[Domain]) -> Self {
        let rules = domains.iter().map(|domain| domain.rules.len()).sum();
        Self { report, domains: domains.len(), rules, found: Found::Nothing, deny_warnings: false }
    }

    pub fn verdict(&self) -> Verdict {
        if is_unread(&self.report) || matches!(&self.found, Found::BadTests(report) if is_unread(report)) {
            return Verdict::Unusable;
        }
        let tests_failed = match &self.found {
            Found::Tests(results) => results.failed() > 0,
            Found::BadTests(_) => true,
            Found::Nothing | Found::Explained(_) => false,
        };
        if self.report.errors() > 0 || tests_failed || self.are_warnings_too_many() {
            return Verdict::Problems;
        }
        Verdict::Fine
    }

    pub fn write_text(&self) -> Result<(), Failure> {
        output::show(&self.report);
        match &self.found {
            Found::Nothing => {}
            Found::Explained(Explained { note, .. }) => {
                note.iter().for_each(|note| output::say(&format!("warning: {note}")));
            }
            Found::Tests(results) => output::show(results.report()),
            Found::BadTests(report) => output::show(report),
        }
        if self.are_warnings_too_many() {
            output::say("error: warnings are denied (hint: leave out --deny-warnings to allow them)");
        }
        output::print(&self.summary())
    }

    /// What goes to standard output, for people.
    fn summary(&self) -> String {
        match &self.found {
            Found::Explained(explained) => explained.text.clone(),
            Found::Tests(results) => format!("{} passed, {} failed\n", results.passed(), results.failed()),
            Found::Nothing if self.verdict() == Verdict::Fine => {
                let mut summary = format!("ok: {}", counted(self.report.file_names().len(), "file"));
                let counts =
                    [(self.domains, "domain"), (self.rules, "rule"), (self.report.warnings(), "warning")];
                for (count, what) in counts {
                    // Writing to a string does not fail.
                    let _ = write!(summary, ", {}", counted(count, what));
                }
                summary + "\n"
            }
            Found::Nothing | Found::BadTests(_) => String::new(),
        }
    }

    pub fn write_json(&self) -> Result<(), Failure> {
        let mut document = output::parsed(&self.report.to_json());
        document["ok"] = (self.verdict() == Verdict::Fine).into();
        document["files"] = self.report.file_names().len().into();
        document["domains"] = self.domains.into();
        document["rules"] = self.rules.into();
        match &self.found {
            Found::Nothing => {}
            Found::Explained(explained) => document["explanation"] = explained.json.clone(),
            Found::Tests(results) => document["tests"] = tests_as_json(results),
            Found::BadTests(report) => document["tests"] = output::parsed(&report.to_json()),
        }
        output::print(&format!("{document}\n"))
    }

    fn are_warnings_too_many(&self) -> bool {
        self.deny_warnings && self.report.warnings() > 0
    }
}

fn tests_as_json(results: &TestResults) -> Value {
    let mut document = output::parsed(&results.report().to_json());
    let test = |test: &tidegate::rules::TestResult| json!({ "file": test.file, "name": test.name, "passed": test.verdict == TestVerdict::Passed });
    document["passed"] = results.passed().into();
    document["failed"] = results.failed().into();
    document["results"] = results.tests().iter().map(test).collect();
    document
}

fn counted(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {what}{s}", shown::number(count as u64))
}
