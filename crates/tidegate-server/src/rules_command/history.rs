//! `tidegate rules history` and `show`.

use clap::Args;
use serde_json::Value;

use super::print;
use crate::admin_client::AdminArgs;
use crate::output::{self, CommandStatus, Failure};

/// List the last revisions, newest first
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// Print JSON, one line for each revision
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Print the files of a revision, or those in force
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Revision (default: the rules in force)
    #[arg(value_name = "REVISION")]
    revision: Option<u64>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Lists revisions.
pub fn history(args: &HistoryArgs) -> Result<CommandStatus, Failure> {
    let history = get(&args.admin, "/v1/rules/history")?;
    let revisions = history["revisions"].as_array().into_iter().flatten();
    let line = |revision: &Value| match args.json {
        true => format!("{revision}\n"),
        false => format!("{}\n", print::revision(revision)),
    };
    output::print_stdout(&revisions.map(line).collect::<String>())?;
    Ok(CommandStatus::Success)
}

/// Prints files, each after a comment with its name.
pub fn show(args: &ShowArgs) -> Result<CommandStatus, Failure> {
    let path = match args.revision {
        Some(revision) => format!("/v1/rules/files?revision={revision}"),
        None => "/v1/rules/files".to_owned(),
    };
    let found = get(&args.admin, &path)?;
    let files = found["files"].as_array().into_iter().flatten();
    let text = |file: &Value| {
        let (name, text) = (&file["name"], &file["text"]);
        let text = text.as_str().unwrap_or_default();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        format!("# {}\n{text}{end}", name.as_str().unwrap_or_default())
    };
    output::print_stdout(&files.map(text).collect::<Vec<_>>().join("---\n"))?;
    Ok(CommandStatus::Success)
}

fn get(admin: &AdminArgs, path: &str) -> Result<Value, Failure> {
    Ok(admin.client()?.get_json(path)?)
}
