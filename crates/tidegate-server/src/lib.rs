//! The binary `tidegate`, built as a library so that benchmarks and fuzzers can reach its parts.
//!
//! Nothing public here is stable: it may change with any version. Programs use the crate `tidegate`.
//!
//! ```text
//! cli      the command line and its subcommands
//! serve/   tidegate serve: the server, with its HTTP, gRPC and RESP listeners
//! config_store/  where overrides are kept
//! check/   tidegate check: errors in rules, explained requests, tests of rules
//! convert  tidegate convert: from envoyproxy/ratelimit to Tidegate's rules
//! schema   tidegate schema: the JSON schema of rules files
//! trace/   tidegate trace: replays a log against a limit
//! overrides/  tidegate override, ban, unban: edit the overrides of a running server
//! rules_command/  tidegate rules: rules in the config store of a running server
//! admin_client  sends requests to the admin listener
//! http_client  sends requests to other servers
//! json/    requests in JSON, for serve and check
//! output   standard output, standard error, exit codes
//! regular_file  opens the files that the server reads
//! text     text, numbers and durations for people
//! size     sizes in bytes
//! ```

mod admin_client;
mod check;
mod cli;
pub mod config_store;
mod convert;
mod http_client;
pub mod json;
mod output;
mod overrides;
mod regular_file;
mod rules_command;
mod schema;
pub mod serve;
mod size;
mod text;
mod trace;

pub use cli::main;
