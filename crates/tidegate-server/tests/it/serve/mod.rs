//! `tidegate serve`, run as an operator runs it: settings, reloads, signals, sockets, encryption.

mod addresses;
mod bounds;
mod certificates;
mod documents;
mod encryption;
mod files;
mod machine;
mod precedence;
mod reloading;
mod restarting;
pub mod server;
mod sockets;
mod stopping;
mod wrong_settings;

use crate::directory::Directory;
use crate::waiting::wait_until;
use server::{Server, run_to_exit};

/// With these only HTTP is listened on.
const HTTP_ONLY: [&str; 6] = ["--grpc", "off", "--resp", "off", "--admin", "off"];

/// Three requests of a user in any day, of which no test lives to see the end.
const RULES: &str = "
domain: api
rules:
  - name: per-user
    key: [user]
    limit: { limit: 3, per: day, algorithm: sliding_log }
";
