//! `tidegate schema`: what editors have to know of rules files.

use std::process::ExitCode;

use clap::Args;
use tidegate::rules;

use crate::output::{self, CommandStatus};

/// Print the JSON schema of rules files, for editors
///
/// With it an editor completes the fields of a rules file, explains them and marks what is wrong while it is typed.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("help.txt"))]
pub struct SchemaArgs {}

/// Runs the command.
pub fn main(_: &SchemaArgs) -> ExitCode {
    output::exit(output::print_stdout(rules::schema()).map(|()| CommandStatus::Success))
}
