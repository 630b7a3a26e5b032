//! The HTTP listener and the admin listener, asked over sockets, byte by byte.

mod admin;
mod bad_input;
mod batches;
mod bounds;
mod checking;
mod client;
mod cross_site;
mod draining;
mod explaining;
mod health;
mod leases;
mod openapi;
mod rls_json;
mod server;

use client::{Client, Response};
use server::{Server, wait_until};

/// Rules that most tests go by.
const RULES: &str = "
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 2 per hour }
  - name: login
    match: { path: /login }
    limits:
      - { key: [ip], name: per-ip, limit: 5 per hour, algorithm: fixed_window, align: first_hit }
      - { key: [account], limit: 3 per day }
";

/// Asks with this body, on a connection of its own.
#[track_caller]
fn post(server: &Server, path: &str, body: &str) -> Response {
    Client::connect(server.http).post(path, body)
}
