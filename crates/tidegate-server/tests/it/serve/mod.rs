//! `tidegate serve`, run as an operator runs it: settings, reloads, signals, sockets, encryption.

mod access;
mod addresses;
mod bad_settings;
mod bounds;
mod certificates;
mod documents;
mod envoy_ratelimit;
mod forward_auth;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod freed_memory;
mod http2;
mod lease_memory;
mod log_lines;
mod overrides;
mod precedence;
mod reload;
mod restart;
pub mod server;
mod shutdown;
mod sockets;
mod startup_warnings;
mod stored_rules;
mod system_limits;
mod tls;
mod tokens;

use crate::support::{Directory, wait_until};
use server::{Server, run_to_exit};

/// Turns all listeners except HTTP off.
const HTTP_ONLY: [&str; 6] = ["--grpc", "off", "--resp", "off", "--admin", "off"];

/// Three requests per user in any day, which is longer than any test runs.
const RULES: &str = "
domain: api
rules:
  - name: per-user
    key: [user]
    limit: { limit: 3, per: day, algorithm: sliding_log }
";
