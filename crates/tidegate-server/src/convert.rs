//! `tidegate convert`: translates an envoyproxy/ratelimit file to Tidegate's rules.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tidegate::rules::{FILE_BYTES_MAX, LoadOptions, envoy};

use crate::output::{self, CommandStatus, Failure};
use crate::serve::CountingMode;

/// Convert an envoyproxy/ratelimit file to Tidegate's rules
///
/// Translates a configuration file of envoyproxy/ratelimit to Tidegate's own rules and writes them to standard
/// output. Both give the same answers. Tidegate also reads such files directly: convert one to use features that only
/// its own rules have.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("help/convert.txt"))]
pub struct ConvertArgs {
    /// The envoyproxy/ratelimit file; - reads standard input
    file: PathBuf,

    /// What its limits count, as set for `tidegate serve`
    #[arg(long, env = "TIDEGATE_COUNTING", value_name = "HOW", value_enum, default_value_t)]
    counting: CountingMode,
}

/// Runs the command.
pub fn main(args: &ConvertArgs) -> ExitCode {
    output::exit(convert(&args.file, args.counting))
}

fn convert(path: &Path, counting: CountingMode) -> Result<CommandStatus, Failure> {
    let (name, text) = if path == Path::new("-") {
        ("standard input".into(), read(io::stdin().lock()))
    } else {
        (path.to_string_lossy(), File::open(path).and_then(read))
    };
    let text = text.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::InvalidData => "save it as UTF-8",
            io::ErrorKind::IsADirectory | io::ErrorKind::FileTooLarge => {
                "give a file for envoyproxy/ratelimit"
            }
            _ => "give a file, or - for standard input",
        };
        Failure::usage(format!("cannot read `{name}`: {error} (hint: {hint})"))
    })?;
    let mut options = LoadOptions::default();
    options.counting = counting.into();
    match envoy::convert_with(&name, &text, options) {
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
    // One byte over the maximum is enough to see that it is too large.
    input.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    if text.len() > FILE_BYTES_MAX {
        let problem = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(text)
}
