//! `tidegate schema`: prints the JSON schema of rules files.

use std::process::ExitCode;

use clap::Args;
use tidegate::rules;

use crate::output::{self, CommandStatus};

/// Print the JSON schema of rules files, for editors
///
/// With the schema, an editor completes the fields of a rules file, documents them and marks errors while you type.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("help/schema.txt"))]
pub struct SchemaArgs {}

/// Runs the command.
pub fn main(_: &SchemaArgs) -> ExitCode {
    output::exit(output::print_stdout(rules::schema()).map(|()| CommandStatus::Success))
}
