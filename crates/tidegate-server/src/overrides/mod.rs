//! `tidegate override`, `tidegate ban` and `tidegate unban`: edit the overrides of a running server.
//!
//! ```text
//! set.rs      override set: one override from flags
//! list.rs     override get, list, export
//! import.rs   override import: batches of lines
//! records.rs  the lines of a file, JSON or CSV, as JSON
//! ban.rs      ban, unban
//! key.rs      keys in arguments, and the author
//! ```
//!
//! All of them talk to the admin API (`../admin_client.rs`).

mod ban;
mod import;
mod key;
mod list;
mod records;
mod set;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::output::{self, CommandStatus, Failure};
use ban::{BanArgs as Ban, UnbanArgs as Unban};
use import::ImportArgs;
use list::{ExportArgs, GetArgs, ListArgs};
use set::{DeleteArgs, SetArgs};

pub use ban::{BanArgs, UnbanArgs};
pub use key::{author, put};

/// Set, list and import overrides: limits of single keys, on a running server
///
/// An override changes what a rule does for one key, or for keys that match a wildcard. The server that takes it applies it
/// immediately. No counter is reset.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("../help/override.txt"))]
pub struct OverrideArgs {
    #[command(subcommand)]
    command: OverrideCommand,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "only one value exists")]
enum OverrideCommand {
    Set(SetArgs),
    Get(GetArgs),
    List(ListArgs),
    Delete(DeleteArgs),
    Import(ImportArgs),
    Export(ExportArgs),
}

/// Runs `tidegate override`.
pub fn main(args: &OverrideArgs) -> ExitCode {
    output::exit(match &args.command {
        OverrideCommand::Set(args) => set::set(args),
        OverrideCommand::Get(args) => list::get(args),
        OverrideCommand::List(args) => list::list(args),
        OverrideCommand::Delete(args) => set::delete(args),
        OverrideCommand::Import(args) => import::import(args),
        OverrideCommand::Export(args) => list::export(args),
    })
}

/// Runs `tidegate ban`.
pub fn ban(args: &Ban) -> ExitCode {
    output::exit(ban::ban(args))
}

/// Runs `tidegate unban`.
pub fn unban(args: &Unban) -> ExitCode {
    output::exit(ban::unban(args))
}

/// Prints overrides, one per line, and warnings about them.
fn print_overrides(verb: &str, overrides: &Value) -> Result<CommandStatus, Failure> {
    let lines = overrides.as_array().into_iter().flatten().map(|one| format!("{verb}{}\n", describe(one)));
    output::print_stdout(&lines.collect::<String>())?;
    for warning in overrides.as_array().into_iter().flatten().filter_map(|one| one["warning"].as_str()) {
        output::print_stderr(&format!("warning: {warning}"));
    }
    Ok(CommandStatus::Success)
}

/// An override for people: `api/per-user/user=7, version 3: limit 5, per 1s, until 2026-01-01T00:00:00Z, by ann`.
fn describe(one: &Value) -> String {
    let mut parts = Vec::new();
    let is_set = |name: &str| one[name] == true;
    if is_set("blocked") {
        parts.push(format!("blocked with status {}", one["status"].as_u64().unwrap_or(429)));
    }
    parts.extend(["unlimited", "allow"].into_iter().filter(|name| is_set(name)).map(str::to_owned));
    for name in ["limit", "per", "burst", "sub_windows", "tier", "expires_at", "author", "note"] {
        let word = match name {
            "expires_at" => "until",
            "author" => "by",
            name => name,
        };
        match &one[name] {
            Value::Null => {}
            Value::String(text) if name == "note" => parts.push(format!("note {text:?}")),
            Value::String(text) => parts.push(format!("{word} {text}")),
            other => parts.push(format!("{word} {other}")),
        }
    }
    let id = one["id"].as_str().unwrap_or_default();
    format!("{id}, version {}: {}", one["version"], parts.join(", "))
}
