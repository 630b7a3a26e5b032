//! `tidegate serve`, run as an operator runs it: settings, reloads, signals, sockets, encryption.

mod addresses;
#[path = "../tool/mod.rs"]
mod binary;
mod bounds;
mod certificates;
#[path = "../check/directory.rs"]
mod directory;
mod documents;
mod encryption;
mod files;
mod machine;
mod precedence;
mod reloading;
mod restarting;
mod server;
mod sockets;
mod stopping;
#[path = "../waiting/mod.rs"]
mod waiting;
mod wrong_settings;

use directory::Directory;
use server::{Server, outcome};
use waiting::wait_until;

/// With these only HTTP is listened on.
const HTTP_ALONE: [&str; 6] = ["--grpc", "off", "--resp", "off", "--admin", "off"];

/// Three requests of a user in any day, of which no test lives to see the end.
const RULES: &str = "
domain: api
rules:
  - name: per-user
    key: [user]
    limit: { limit: 3, per: day, algorithm: sliding_log }
";
