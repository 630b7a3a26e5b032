//! `tidegate override set` and `delete`.

use clap::Args;
use hyper::Method;
use serde_json::{Value, json};

use super::key::{PlaceArgs, author, put};
use super::print_overrides;
use crate::admin_client::AdminArgs;
use crate::output::{CommandStatus, Failure};

/// Set the override of a key or wildcard; it replaces the one that the key has
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("../help/override_set.txt"))]
pub struct SetArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Limit: `5 per second`, `10/s burst 20`, or a number, which keeps the window of the rule
    #[arg(long, value_name = "LIMIT")]
    limit: Option<String>,

    /// Units that may come at once (gcra, token_bucket)
    #[arg(long, value_name = "UNITS")]
    burst: Option<u64>,

    /// Number of sub-windows (sub_windows)
    #[arg(long, value_name = "NUMBER")]
    sub_windows: Option<u64>,

    /// Plan of the rule whose limits apply
    #[arg(long, value_name = "PLAN")]
    tier: Option<String>,

    /// Do not limit the key
    #[arg(long, conflicts_with_all = ["blocked", "allow"])]
    unlimited: bool,

    /// Deny all requests of the key
    #[arg(long, conflicts_with = "allow")]
    blocked: bool,

    /// HTTP status of a block: 403 or 429 (default)
    #[arg(long, value_name = "STATUS", requires = "blocked")]
    status: Option<u16>,

    /// Ignore blocks of wildcards
    #[arg(long)]
    allow: bool,

    /// When it ends: a duration such as 2h, or a date such as 2026-03-29T01:59:30Z
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,

    /// Why it is set
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Operator who sets it (default: your login name)
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Only if the overrides of the key have this version; 0 if there must be none
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Delete the override of a key or wildcard
///
/// The rule applies again. A window that the override had stays enforced beside it for a while, so that no key gets a fresh one.
#[derive(Args, Debug)]
pub struct DeleteArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Operator who deletes it (default: your login name)
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Only if the overrides of the key have this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Sets an override.
pub fn set(args: &SetArgs) -> Result<CommandStatus, Failure> {
    let mut fields = args.place.fields();
    put(&mut fields, "limit", args.limit.clone());
    put(&mut fields, "burst", args.burst);
    put(&mut fields, "sub_windows", args.sub_windows);
    put(&mut fields, "tier", args.tier.clone());
    put(&mut fields, "unlimited", args.unlimited.then_some(true));
    put(&mut fields, "blocked", args.blocked.then_some(true));
    put(&mut fields, "status", args.status);
    put(&mut fields, "allow", args.allow.then_some(true));
    if let Some(expires) = &args.expires {
        let (name, value) = expiry(expires);
        put(&mut fields, name, Some(value));
    }
    put(&mut fields, "note", args.note.clone());
    put(&mut fields, "author", author(args.author.as_deref()));
    put(&mut fields, "if_version", args.if_version);
    let set = args.admin.client()?.json(Method::PUT, "/v1/overrides", &Value::Object(fields))?;
    print_overrides("set ", &json!([set]))
}

/// Deletes an override.
pub fn delete(args: &DeleteArgs) -> Result<CommandStatus, Failure> {
    let mut fields = args.place.fields();
    put(&mut fields, "author", author(args.author.as_deref()));
    put(&mut fields, "if_version", args.if_version);
    let deleted = args.admin.client()?.json(Method::DELETE, "/v1/overrides", &Value::Object(fields))?;
    print_overrides("deleted ", &json!([deleted["deleted"]]))
}

/// The field for an expiry: a date, seconds since 1970, or a duration.
fn expiry(text: &str) -> (&'static str, Value) {
    match text.parse::<u64>() {
        Ok(seconds) => ("expires_at", seconds.into()),
        Err(_) if text.contains(['T', ':']) => ("expires_at", text.into()),
        Err(_) => ("expires_in", text.into()),
    }
}
