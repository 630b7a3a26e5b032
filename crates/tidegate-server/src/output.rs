//! Standard output, standard error and exit codes of the commands.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use tidegate::rules::{Colour, Report};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStatus {
    /// Exit code 0.
    Success,
    /// The input was read and has problems: exit code 1.
    ProblemsFound,
    /// The input could not be read, or the usage is wrong: exit code 2.
    UnusableInput,
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: CommandStatus,
}

impl Failure {
    /// The usage is wrong, or a file cannot be read or written.
    pub fn usage(message: String) -> Self {
        Self { message, status: CommandStatus::UnusableInput }
    }

    /// The input is wrong.
    pub fn problem(message: String) -> Self {
        Self { message, status: CommandStatus::ProblemsFound }
    }

    fn from_output_error(error: &io::Error) -> Self {
        // The reader closed the pipe early, as `head` does. That is not a failure.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: String::new(), status: CommandStatus::Success };
        }
        Self::usage(format!("cannot write the output: {error} (hint: is the disk full?)"))
    }
}

/// Prints the failure, if any, and returns the exit code.
pub fn exit(result: Result<CommandStatus, Failure>) -> ExitCode {
    let status = result.unwrap_or_else(|Failure { message, status }| {
        if !message.is_empty() {
            print_stderr(&format!("error: {message}"));
        }
        status
    });
    match status {
        CommandStatus::Success => ExitCode::SUCCESS,
        CommandStatus::ProblemsFound => ExitCode::from(1),
        CommandStatus::UnusableInput => ExitCode::from(2),
    }
}

/// Writes to standard output.
pub fn print_stdout(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::from_output_error(&error))
}

/// Writes a line to standard error. If that is closed, only the exit code reports the error.
pub fn print_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes the diagnostics of a report and the files that were not loaded, if any, to standard error: in colour on a terminal, unless `NO_COLOR` is set.
pub fn print_report(report: &Report) {
    if report.errors() + report.warnings() + report.skipped_count() == 0 {
        return;
    }
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = if io::stderr().is_terminal() && !no_color { Colour::Always } else { Colour::Never };
    let _ = io::stderr().write_all(report.render(colour).as_bytes());
}

/// Parses JSON that the library wrote, to embed it in another document.
pub fn parse_json(json: &str) -> serde_json::Value {
    serde_json::from_str(json).unwrap_or_default()
}
