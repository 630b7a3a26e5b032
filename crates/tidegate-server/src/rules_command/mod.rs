//! `tidegate rules`: rules in the config store of a running server.
//!
//! ```text
//! change.rs   push, diff, rollback, end
//! history.rs  history, show
//! print.rs    changes and revisions for people
//! ```
//!
//! All of them talk to the admin API (`../admin_client.rs`).

mod change;
mod history;
mod print;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::output;
use change::{DiffArgs, EndArgs, PushArgs, RollbackArgs};
use history::{HistoryArgs, ShowArgs};

/// Push rules to a fleet, compare them, and go back: for servers with `--rules store`
///
/// The rules are in the config store, so all nodes of a fleet have the same ones. The server that takes a push uses the new rules
/// immediately, and the others within two seconds. No counter is reset.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("../help/rules.txt"))]
pub struct RulesArgs {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(Debug, Subcommand)]
enum RulesCommand {
    Push(PushArgs),
    Diff(DiffArgs),
    History(HistoryArgs),
    Show(ShowArgs),
    Rollback(RollbackArgs),
    End(EndArgs),
}

/// Runs `tidegate rules`.
pub fn main(args: &RulesArgs) -> ExitCode {
    output::exit(match &args.command {
        RulesCommand::Push(args) => change::push(args),
        RulesCommand::Diff(args) => change::diff(args),
        RulesCommand::History(args) => history::history(args),
        RulesCommand::Show(args) => history::show(args),
        RulesCommand::Rollback(args) => change::rollback(args),
        RulesCommand::End(args) => change::end(args),
    })
}
