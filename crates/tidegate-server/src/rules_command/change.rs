//! `tidegate rules push`, `diff`, `rollback` and `end`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use hyper::Method;
use serde_json::{Map, Value, json};
use tidegate::rules::{self, LoadOptions};

use super::print;
use crate::admin_client::AdminArgs;
use crate::output::{self, CommandStatus, Failure};
use crate::overrides::{author, put};

/// Replace the rules by those of files
///
/// The rules are checked as by `tidegate check`. Rules with errors are refused, and nothing changes.
#[derive(Args, Debug)]
pub struct PushArgs {
    #[command(flatten)]
    files: FilesArgs,

    #[command(flatten)]
    change: ChangeArgs,
}

/// Show what a push of these files would change, and change nothing
#[derive(Args, Debug)]
pub struct DiffArgs {
    #[command(flatten)]
    files: FilesArgs,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Go back to the rules of an earlier revision
#[derive(Args, Debug)]
pub struct RollbackArgs {
    /// Revision to go back to (default: the one before the current one)
    #[arg(long, value_name = "REVISION")]
    to: Option<u64>,

    #[command(flatten)]
    change: ChangeArgs,
}

/// End emergency rules before they expire
#[derive(Args, Debug)]
pub struct EndArgs {
    /// Revision of the emergency rules
    #[arg(value_name = "REVISION")]
    revision: u64,

    /// Operator (default: your login name)
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Args, Debug)]
struct FilesArgs {
    /// Rules files, or directories of rules files
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Emergency rules: add these rules to the others for this long, such as 15m
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

#[derive(Args, Debug)]
struct ChangeArgs {
    /// Why
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Operator (default: your login name)
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Only if this is the last revision; 0 if nothing was pushed yet
    #[arg(long, value_name = "REVISION")]
    if_revision: Option<u64>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Pushes files.
pub fn push(args: &PushArgs) -> Result<CommandStatus, Failure> {
    let Some(mut fields) = args.files.fields() else { return Ok(CommandStatus::UnusableInput) };
    args.change.add_to(&mut fields);
    send(&args.change.admin, "/v1/rules/push", fields)
}

/// Shows what a push would change.
pub fn diff(args: &DiffArgs) -> Result<CommandStatus, Failure> {
    let Some(mut fields) = args.files.fields() else { return Ok(CommandStatus::UnusableInput) };
    fields.insert("dry_run".into(), true.into());
    send(&args.admin, "/v1/rules/push", fields)
}

/// Goes back to an earlier revision.
pub fn rollback(args: &RollbackArgs) -> Result<CommandStatus, Failure> {
    let mut fields = Map::new();
    put(&mut fields, "to", args.to);
    args.change.add_to(&mut fields);
    send(&args.change.admin, "/v1/rules/rollback", fields)
}

/// Ends emergency rules.
pub fn end(args: &EndArgs) -> Result<CommandStatus, Failure> {
    let mut fields = Map::new();
    put(&mut fields, "revision", Some(args.revision));
    put(&mut fields, "author", author(args.author.as_deref()));
    send(&args.admin, "/v1/rules/end", fields)
}

fn send(admin: &AdminArgs, path: &str, fields: Map<String, Value>) -> Result<CommandStatus, Failure> {
    let done = admin.client()?.json(Method::POST, path, &Value::Object(fields))?;
    // Warnings, as `tidegate check` shows them.
    if let Some(report) = done["report_text"].as_str() {
        output::print_stderr(report.trim_end());
    }
    output::print_stdout(&print::changes(&done))?;
    if let Some(note) = print::unused_note(&done) {
        output::print_stderr(note);
    }
    Ok(CommandStatus::Success)
}

impl FilesArgs {
    /// The fields of a push. Prints why files cannot be read.
    fn fields(&self) -> Option<Map<String, Value>> {
        let files = match rules::read_all(&self.paths, LoadOptions::default()) {
            Ok(files) => files,
            Err(report) => {
                output::print_report(&report);
                return None;
            }
        };
        let files = files.iter().map(|file| json!({ "name": file.name, "text": file.text }));
        let mut fields = Map::new();
        put(&mut fields, "files", Some(Value::from_iter(files)));
        put(&mut fields, "expires_in", self.expires.clone());
        Some(fields)
    }
}

impl ChangeArgs {
    fn add_to(&self, fields: &mut Map<String, Value>) {
        put(fields, "note", self.note.clone());
        put(fields, "author", author(self.author.as_deref()));
        put(fields, "if_revision", self.if_revision);
    }
}
