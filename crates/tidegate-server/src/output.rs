//! Where output goes, and what a command ends with.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use tidegate::rules::{Colour, Report};

/// How a command ended that did what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStatus {
    /// Exit code 0.
    Success,
    /// Something is wrong with what was looked at: exit code 1.
    ProblemsFound,
    /// It could not be looked at: exit code 2.
    UnusableInput,
}

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: CommandStatus,
}

impl Failure {
    /// The call is wrong, or something cannot be read or written.
    pub fn usage(message: String) -> Self {
        Self { message, status: CommandStatus::UnusableInput }
    }

    /// What was looked at is wrong.
    pub fn problem(message: String) -> Self {
        Self { message, status: CommandStatus::ProblemsFound }
    }

    fn from_output_error(error: &io::Error) -> Self {
        // Whoever read the output had enough, as `head` has. That is no failure.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: String::new(), status: CommandStatus::Success };
        }
        Self::usage(format!("cannot write the output: {error} (hint: is the disk full?)"))
    }
}

/// Says what failed, if anything did, and what the process ends with.
pub fn exit(ended: Result<CommandStatus, Failure>) -> ExitCode {
    let verdict = ended.unwrap_or_else(|Failure { message, status: verdict }| {
        if !message.is_empty() {
            print_stderr(&format!("error: {message}"));
        }
        verdict
    });
    match verdict {
        CommandStatus::Success => ExitCode::SUCCESS,
        CommandStatus::ProblemsFound => ExitCode::from(1),
        CommandStatus::UnusableInput => ExitCode::from(2),
    }
}

/// Writes to standard output.
pub fn print_stdout(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::from_output_error(&error))
}

/// Writes a line to standard error. Where that is closed nobody can be told, and the exit code still says it.
pub fn print_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes what is wrong, if anything is, to standard error: in colours if that is a terminal and nobody minds.
pub fn print_report(report: &Report) {
    if report.errors() + report.warnings() == 0 {
        return;
    }
    let minds = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = if io::stderr().is_terminal() && !minds { Colour::Always } else { Colour::Never };
    let _ = io::stderr().write_all(report.render(colour).as_bytes());
}

/// A document that the library wrote as JSON, to make it part of another one.
pub fn parse_json(json: &str) -> serde_json::Value {
    serde_json::from_str(json).unwrap_or_default()
}
