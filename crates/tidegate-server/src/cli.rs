//! The command line: one subcommand per module.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::check::{self, CheckArgs};
use crate::convert::{self, ConvertArgs};
use crate::output;
use crate::overrides::{self, BanArgs, OverrideArgs, UnbanArgs};
use crate::rules_command::{self, RulesArgs};
use crate::schema::{self, SchemaArgs};
use crate::serve::{self, ServeArgs};
use crate::trace::{self, TraceArgs};

/// A rate limiter: a server, and tools to choose limits. Without a command it serves.
///
/// So `tidegate --rules rules.yaml` is short for `tidegate serve --rules rules.yaml`.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "only one value exists")]
enum Command {
    Serve(ServeArgs),
    Check(CheckArgs),
    Convert(ConvertArgs),
    Schema(SchemaArgs),
    Trace(TraceArgs),
    Override(OverrideArgs),
    Ban(BanArgs),
    Unban(UnbanArgs),
    Rules(RulesArgs),
}

/// The entry point of the binary: runs one subcommand.
pub fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| is_setting(&first)) {
        return serve::main(std::env::args_os().skip(1));
    }
    match Cli::try_parse() {
        Ok(Cli { command: Some(command) }) => match command {
            // It parses the arguments again, together with those from the settings file.
            Command::Serve(_) => serve::main(std::env::args_os().skip(2)),
            Command::Check(args) => check::main(&args),
            Command::Convert(args) => convert::main(&args),
            Command::Schema(args) => schema::main(&args),
            Command::Trace(args) => trace::main(&args),
            Command::Override(args) => overrides::main(&args),
            Command::Ban(args) => overrides::ban(&args),
            Command::Unban(args) => overrides::unban(&args),
            Command::Rules(args) => rules_command::main(&args),
        },
        // Without a command, show the server at work.
        Ok(Cli { command: None }) => serve::main([]),
        Err(error) => report_usage_error(&error),
    }
}

/// Whether the first argument is a setting of `serve`, without the command.
fn is_setting(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    text.len() > 2 && text.starts_with("--") && !["--help", "--version"].contains(&&*text)
}

/// Prints a usage error, or the help, and returns the exit code.
pub(crate) fn report_usage_error(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if let Some(variable) = serve::settings::variable_of_error(error) {
        output::print_stderr(&format!("\nThe value comes from the environment variable {variable}."));
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}
