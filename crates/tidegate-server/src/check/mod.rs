//! `tidegate check`: are these rules right, what do they make of a request, and do they do what is expected of them?
//!
//! ```text
//! files    ->  Loaded or Report    tidegate::rules
//! request  ->  Explanation         explain.rs, ../request_json.rs
//! tests    ->  TestResults         tidegate::rules::RuleTests
//! Findings ->  text or JSON        findings.rs
//! ```

mod explain;
mod findings;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tidegate::rules::{self, Report, RuleTests};

use crate::output::{self, Failure};
use findings::{Findings, CheckResult};

/// Check rules, explain a request to them, or run tests against them
///
/// Reads rules from files and directories as a server would, and shows all that is wrong with them, with warnings for
/// what is legal and most likely not meant. Explains which rules apply to a request, and why the others do not. Runs
/// tests that say what rules are expected to do.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("help.txt"))]
pub struct CheckArgs {
    /// Explain what the rules make of this request; - reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "tests")]
    request: Option<String>,

    /// Run the tests of this file, or of the *.yaml and *.yml files of this directory; may be given several times
    #[arg(long, value_name = "PATH")]
    tests: Vec<PathBuf>,

    /// Whom the output is for
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,

    /// Let warnings fail the check
    #[arg(long)]
    deny_warnings: bool,

    /// Rules files, and directories of them: of these, the files named *.yaml or *.yml
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// Whom the output is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// People: findings to standard error, a summary to standard output
    #[default]
    Text,
    /// Programs: one JSON document to standard output; a call that is wrong is said to standard error
    Json,
}

/// Runs the command.
pub fn main(args: &CheckArgs) -> ExitCode {
    output::exit(check(args).and_then(|findings| {
        match args.format {
            OutputFormat::Text => findings.write_text()?,
            OutputFormat::Json => findings.write_json()?,
        }
        Ok(findings.status())
    }))
}

fn check(args: &CheckArgs) -> Result<Findings, Failure> {
    // A request that cannot be read is a mistake in the call, and is said first.
    let request = args.request.as_deref().map(explain::read_request).transpose()?;
    let tests = if args.tests.is_empty() { None } else { Some(RuleTests::load(&args.tests)) };
    let mut findings = match rules::load(&args.paths) {
        Err(report) => Findings::new(report, &[]),
        Ok(loaded) => {
            let mut findings = Findings::new(loaded.report, &loaded.domains);
            findings.result = match (request, tests) {
                (Some(request), _) => explain::explain(loaded.domains, &request)?,
                (None, Some(Ok(tests))) => CheckResult::Tests(tests.run(&loaded.domains)),
                (None, Some(Err(report))) => CheckResult::BadTests(report),
                (None, None) => CheckResult::Nothing,
            };
            findings
        }
    };
    findings.deny_warnings = args.deny_warnings;
    Ok(findings)
}

/// Whether a file or directory is not there or cannot be read, rather than wrong.
pub fn is_unreadable(report: &Report) -> bool {
    const CODES: [&str; 5] =
        ["no-such-file", "unreadable", "not-a-file", "empty-directory", "too-many-files"];
    report.diagnostics().iter().any(|found| CODES.contains(&found.code))
}
