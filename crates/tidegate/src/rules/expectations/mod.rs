//! Tests of rules: an operator writes expectations in a file, and they are compared with what the rules
//! decide.
//!
//! ```text
//! text   ->  RuleTests     read.rs, into the types of model.rs
//! rules  ->  TestResults   run.rs: each test with its own counters and its own clock
//! answer ->  mismatches    compare.rs
//! ```
//!
//! `docs/rules-tests.md` describes the format.

mod compare;
mod model;
mod read;
mod read_expectation;
mod read_request;
mod run;

use std::path::PathBuf;

use tidegate_core::rules::Domain;

use super::load::{InputFile, add_source_text};
use super::paths::read_yaml_files;
use super::{Report, yaml};
use model::RuleTest;

/// Requests of one step at most.
pub const STEP_TIMES_MAX: u64 = 1_000_000;
/// Requests of all tests of a file at most.
pub const TESTS_REQUESTS_MAX: u64 = 10_000_000;

/// Tests of rules, read from files.
///
/// ```
/// use tidegate::rules::{self, RuleTests};
///
/// let rules = "
/// domain: api
/// rules:
///   - { name: login, match: { path: /login }, key: [ip], limit: 2 per minute }
/// ";
/// let tests = "
/// tests:
///   - name: the third login within a minute is denied
///     steps:
///       - { at: 0s, request: { path: /login, ip: 192.0.2.1 }, times: 2, expect: allowed }
///       - { at: 1s, request: { path: /login, ip: 192.0.2.1 }, expect: { decision: denied, rule: login } }
/// ";
/// let tests = RuleTests::parse("tests.yaml", tests)?;
/// let results = tests.run(&rules::parse("api.yaml", rules)?.domains);
/// assert_eq!((results.passed(), results.failed()), (1, 0));
/// # Ok::<(), rules::Report>(())
/// ```
#[derive(Debug)]
pub struct RuleTests {
    tests: Vec<RuleTest>,
    /// Holds the text of the files, to which failures refer.
    source: Report,
}

/// The results of tests.
#[derive(Debug)]
pub struct TestResults {
    results: Vec<TestResult>,
    report: Report,
}

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestResult {
    /// Its file.
    pub file: String,
    /// Its name in the file.
    pub name: String,
    /// Whether all expectations were met.
    pub status: TestStatus,
}

/// Whether all expectations were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TestStatus {
    /// All were met.
    Passed,
    /// One was not met; the report says which.
    Failed,
}

impl RuleTests {
    /// Reads the tests of a file, which messages call `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, Report> {
        Self::from_files(&[InputFile { name: name.to_owned(), content: Ok(text.into()) }])
    }

    /// Reads the tests of files, and of the `*.yaml` and `*.yml` files in directories. All errors are in the report.
    pub fn load(paths: &[PathBuf]) -> Result<Self, Report> {
        Self::from_files(&read_yaml_files(paths))
    }

    fn from_files(files: &[InputFile]) -> Result<Self, Report> {
        let (mut source, mut tests) = (Report::default(), Vec::new());
        for file in files {
            let Some(file) = add_source_text(&mut source, file) else { continue };
            let Some(root) = yaml::read(&mut source, file) else { continue };
            tests.extend(read::tests(&mut source, &root));
            source.fill_field_paths(file, &root);
        }
        if source.has_errors() {
            source.sort();
            return Err(source);
        }
        Ok(Self { tests, source })
    }

    /// How many tests there are.
    pub fn count(&self) -> usize {
        self.tests.len()
    }

    /// Runs every test against these rules. Each has its own counters and a clock that only the test moves. A
    /// test ends at its first step that fails.
    pub fn run(&self, domains: &[Domain]) -> TestResults {
        let mut results = TestResults { results: Vec::new(), report: self.source.clone() };
        for test in &self.tests {
            let failures = run::run(test, domains);
            let status = if failures.is_empty() { TestStatus::Passed } else { TestStatus::Failed };
            failures.into_iter().for_each(|failure| results.report.push(failure));
            let file = self.source.file_name(test.span.file).to_owned();
            results.results.push(TestResult { file, name: test.name.to_string(), status });
        }
        results
    }
}

impl TestResults {
    /// The result of each test, in the order of the file.
    pub fn tests(&self) -> &[TestResult] {
        &self.results
    }

    /// How many tests passed.
    pub fn passed(&self) -> usize {
        self.count(TestStatus::Passed)
    }

    /// How many tests failed.
    pub fn failed(&self) -> usize {
        self.count(TestStatus::Failed)
    }

    /// Each expectation that was not met, with its position and the actual value.
    pub fn report(&self) -> &Report {
        &self.report
    }

    fn count(&self, status: TestStatus) -> usize {
        self.results.iter().filter(|result| result.status == status).count()
    }
}
