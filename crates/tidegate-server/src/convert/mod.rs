//! `tidegate convert`: rules of a file for envoyproxy/ratelimit.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tidegate::rules::{FILE_BYTES_MAX, envoy};

use crate::output::{self, Failure, CommandStatus};

/// Make rules of a file for envoyproxy/ratelimit
///
/// Writes a file for envoyproxy/ratelimit in the language of Tidegate's own rules, to standard output. The rules give the
/// same answers. Such files can also be used as they are: converting them is for those who want to go on from there.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("help.txt"))]
pub struct ConvertArgs {
    /// The file; - is standard input
    file: PathBuf,
}

/// Runs the command.
pub fn main(args: &ConvertArgs) -> ExitCode {
    output::exit(convert(&args.file))
}

fn convert(path: &Path) -> Result<CommandStatus, Failure> {
    let name = if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() };
    let read =
        if path == Path::new("-") { read(io::stdin().lock()) } else { File::open(path).and_then(read) };
    let text = read.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::InvalidData => "save it as UTF-8",
            io::ErrorKind::IsADirectory | io::ErrorKind::FileTooLarge => {
                "give a file for envoyproxy/ratelimit"
            }
            _ => "give a file, or - for standard input",
        };
        Failure::usage(format!("cannot read `{name}`: {error} (hint: {hint})"))
    })?;
    match envoy::convert(&name, &text) {
        Ok(converted) => {
            output::print_report(&converted.report);
            output::print_stdout(&converted.text)?;
            Ok(CommandStatus::Success)
        }
        Err(report) => {
            output::print_report(&report);
            Ok(CommandStatus::ProblemsFound)
        }
    }
}

fn read(input: impl Read) -> io::Result<String> {
    let mut text = String::new();
    // No more than shows that it is too large.
    input.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    if text.len() > FILE_BYTES_MAX {
        let problem = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(text)
}
