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
mod precedence;
mod reloading;
mod restarting;
mod server;
mod sockets;
mod stopping;
mod wrong_settings;

use directory::Directory;
use server::{Server, wait_until};

/// As many requests as the limit of a user, which no test can wait for.
const RULES: &str = "domain: api\nrules:\n  - { name: per-user, key: [user], limit: 3 per day }\n";
