//! `tidegate ban` and `tidegate unban`.

use clap::Args;
use hyper::Method;
use serde_json::{Map, Value};

use super::key::{KeyAttribute, author, key_json, put};
use super::print_overrides;
use crate::admin_client::AdminArgs;
use crate::output::{CommandStatus, Failure};

/// Block a key in every rule that has it, on a running server
///
/// All requests of the key are denied until the ban ends or is lifted. Other overrides of the key are kept, and apply again
/// afterwards.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("../help/ban.txt"))]
pub struct BanArgs {
    /// Attributes of the key with their values, such as user=241531. One value may begin or end with *
    #[arg(value_name = "NAME=VALUE", required = true)]
    key: Vec<KeyAttribute>,

    /// How long, such as 15m; without it, until the ban is lifted
    #[arg(long = "for", value_name = "TIME")]
    ban_for: Option<String>,

    /// Only in this domain
    #[arg(long)]
    domain: Option<String>,

    /// Only in rules with this name
    #[arg(long)]
    rule: Option<String>,

    /// HTTP status of denied requests: 403 or 429 (default)
    #[arg(long, value_name = "STATUS")]
    status: Option<u16>,

    /// Why
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,

    /// Operator (default: your login name)
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Lift the block of a key, on a running server
///
/// Removes all blocks of the key and keeps its other overrides.
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("../help/unban.txt"))]
pub struct UnbanArgs {
    /// Attributes of the key with their values, as for `tidegate ban`
    #[arg(value_name = "NAME=VALUE", required = true)]
    key: Vec<KeyAttribute>,

    /// Only in this domain
    #[arg(long)]
    domain: Option<String>,

    /// Only in rules with this name
    #[arg(long)]
    rule: Option<String>,

    /// Operator (default: your login name)
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Bans a key.
pub fn ban(args: &BanArgs) -> Result<CommandStatus, Failure> {
    let mut fields = Map::new();
    put(&mut fields, "key", Some(key_json(&args.key)));
    put(&mut fields, "for", args.ban_for.clone());
    put(&mut fields, "domain", args.domain.clone());
    put(&mut fields, "rule", args.rule.clone());
    put(&mut fields, "status", args.status);
    put(&mut fields, "note", args.note.clone());
    put(&mut fields, "author", author(args.author.as_deref()));
    let banned = args.admin.client()?.json(Method::POST, "/v1/ban", &Value::Object(fields))?;
    print_overrides("banned ", &banned["banned"])
}

/// Lifts a ban.
pub fn unban(args: &UnbanArgs) -> Result<CommandStatus, Failure> {
    let mut fields = Map::new();
    put(&mut fields, "key", Some(key_json(&args.key)));
    put(&mut fields, "domain", args.domain.clone());
    put(&mut fields, "rule", args.rule.clone());
    put(&mut fields, "author", author(args.author.as_deref()));
    let unbanned = args.admin.client()?.json(Method::POST, "/v1/unban", &Value::Object(fields))?;
    print_overrides("unbanned ", &unbanned["unbanned"])
}
