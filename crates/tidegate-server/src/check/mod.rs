//! `tidegate check`: reports errors in rules, explains a request, runs tests of the rules.
//!
//! ```text
//! files    ->  LoadedRules or Report    tidegate::rules
//! request  ->  Explanation              explain.rs, ../json/
//! tests    ->  TestResults              tidegate::rules::RuleTests
//! rules    ->  WorstCases               worst_cases.rs
//! Findings ->  text or JSON             findings.rs
//! ```

mod explain;
mod findings;
mod worst_cases;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tidegate::rules::{self, LoadOptions, Report, RuleTests};

use self::findings::{CheckResult, Findings};
use crate::output::{self, Failure};
use crate::serve::CountingMode;

/// Check rules, explain a request, or run tests of the rules
///
/// Reads rules from files and directories as the server does, and reports all errors at once, with warnings for rules
/// that are valid but probably not intended. Lists the most that each limit admits, and with --nodes, what a fleet of nodes admits. With --request, explains which rules apply to a request and why the
/// others do not. With --tests, runs tests that state how the rules must decide.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("../help/check.txt"))]
pub struct CheckArgs {
    /// Explain how the rules decide this request; - reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "tests")]
    request: Option<String>,

    /// Run the tests in this file, or in the *.yaml and *.yml files of this directory; may be repeated
    #[arg(long, value_name = "PATH")]
    tests: Vec<PathBuf>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,

    /// Treat warnings as failures
    #[arg(long)]
    deny_warnings: bool,

    /// Merge files for envoyproxy/ratelimit that have the same domain; otherwise that is an error
    #[arg(long)]
    merge_domain_config: bool,

    /// Ignore files for envoyproxy/ratelimit whose names, or whose directories' names, begin with a dot
    #[arg(long)]
    ignore_dotfiles: bool,

    /// What the limits of files for envoyproxy/ratelimit count, as set for `tidegate serve`
    #[arg(long, env = "TIDEGATE_COUNTING", value_name = "HOW", value_enum, default_value_t)]
    counting: CountingMode,

    /// How many nodes share a store: limits are listed with what all of them together admit in the mode of their rule
    #[arg(long, value_name = "N", default_value = "1", conflicts_with_all = ["request", "tests"])]
    nodes: NonZeroU32,

    /// Rules files, or directories: of a directory, the files named *.yaml and *.yml, and others with descriptors
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// Format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// For people: problems on standard error, a summary on standard output
    #[default]
    Text,
    /// For programs: one JSON document on standard output; usage errors on standard error
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
    // A malformed request is a usage error, so it is reported before the rules are read.
    let request = args.request.as_deref().map(explain::read_request).transpose()?;
    let tests = if args.tests.is_empty() { None } else { Some(RuleTests::load(&args.tests)) };
    let mut options = LoadOptions::default();
    options.merge_domains = args.merge_domain_config;
    options.ignore_dotfiles = args.ignore_dotfiles;
    options.counting = args.counting.into();
    let mut findings = match rules::load_with(&args.paths, options) {
        Err(report) => Findings::new(report, &[], args.nodes),
        Ok(loaded) => {
            let mut findings = Findings::new(loaded.report, &loaded.domains, args.nodes);
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

/// Whether a file or directory is missing or cannot be read, as opposed to having errors.
pub(crate) fn is_unreadable(report: &Report) -> bool {
    const CODES: [&str; 5] =
        ["no-such-file", "unreadable", "not-a-file", "empty-directory", "too-many-files"];
    report.diagnostics().iter().any(|diagnostic| CODES.contains(&diagnostic.code))
}
