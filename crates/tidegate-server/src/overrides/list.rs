//! `tidegate override get`, `list` and `export`.

use clap::Args;
use serde_json::Value;
use tidegate_core::text::percent_encode;

use super::describe;
use super::key::PlaceArgs;
use crate::admin_client::{AdminArgs, AdminClient};
use crate::output::{self, CommandStatus, Failure};

/// How many keys one request asks for.
const KEYS_PER_PAGE: usize = 1_000;

/// Show the overrides of a key or wildcard
#[derive(Args, Debug)]
pub struct GetArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Print JSON, one line for each override
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    admin: AdminArgs,
}

/// List overrides that apply now, one per line
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only this domain
    #[arg(long)]
    domain: Option<String>,

    /// Only this rule of the domain
    #[arg(long, requires = "domain")]
    rule: Option<String>,

    /// Only keys that begin with this text, such as user=24
    #[arg(long, value_name = "TEXT", requires = "rule")]
    prefix: Option<String>,

    /// Print JSON, one line for each override
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Print all overrides that apply now as JSON lines, for `tidegate override import`
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Only this domain
    #[arg(long)]
    domain: Option<String>,

    /// Only this rule of the domain
    #[arg(long, requires = "domain")]
    rule: Option<String>,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Parameters of a path.
struct Query(String);

impl Query {
    fn new(path: &str) -> Self {
        Self(format!("{path}?"))
    }

    fn with(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            let encode =
                |text: &str| percent_encode(text, |c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
            let separator = if self.0.ends_with('?') { "" } else { "&" };
            self.0.push_str(&format!("{separator}{}={}", encode(name), encode(value)));
        }
        self
    }
}

/// Shows the overrides of a key.
pub fn get(args: &GetArgs) -> Result<CommandStatus, Failure> {
    let PlaceArgs { domain, rule, key, limit_name } = &args.place;
    let mut query = Query::new("/v1/overrides").with("domain", Some(domain)).with("rule", Some(rule));
    for attribute in key {
        query = query.with(&format!("key.{}", attribute.name), Some(&attribute.value));
    }
    let query = query.with("limit_name", limit_name.as_deref());
    let reply = args.admin.client()?.get(&query.0)?;
    let found: Value = output::parse_json(&String::from_utf8_lossy(&reply.body));
    for one in found["overrides"].as_array().into_iter().flatten() {
        print(one, args.json)?;
    }
    Ok(CommandStatus::Success)
}

/// Lists overrides.
pub fn list(args: &ListArgs) -> Result<CommandStatus, Failure> {
    let path = || {
        Query::new("/v1/overrides/export")
            .with("domain", args.domain.as_deref())
            .with("rule", args.rule.as_deref())
            .with("prefix", args.prefix.as_deref())
    };
    for_each_page(&args.admin.client()?, path, |page| {
        for line in page.lines() {
            print(&output::parse_json(line), args.json)?;
        }
        Ok(())
    })
}

/// Prints all overrides as JSON lines.
pub fn export(args: &ExportArgs) -> Result<CommandStatus, Failure> {
    let path = || {
        Query::new("/v1/overrides/export")
            .with("domain", args.domain.as_deref())
            .with("rule", args.rule.as_deref())
    };
    for_each_page(&args.admin.client()?, path, output::print_stdout)
}

fn for_each_page(
    client: &AdminClient,
    path: impl Fn() -> Query,
    each: impl Fn(&str) -> Result<(), Failure>,
) -> Result<CommandStatus, Failure> {
    let mut after: Option<String> = None;
    loop {
        let query = path().with("max", Some(&KEYS_PER_PAGE.to_string())).with("after", after.as_deref());
        let page = client.get(&query.0)?;
        each(&String::from_utf8_lossy(&page.body))?;
        after = page.next;
        if after.is_none() {
            return Ok(CommandStatus::Success);
        }
    }
}

fn print(one: &Value, json: bool) -> Result<(), Failure> {
    let line = if json { one.to_string() } else { describe(one) };
    output::print_stdout(&format!("{line}\n"))
}
