//! The HTTP and admin listeners, over sockets.

mod admin;
mod bad_input;
mod batches;
mod bounds;
mod check;
mod client;
mod cross_site;
mod direct;
mod drain;
mod edits;
mod explain;
mod forward_auth;
mod health;
mod leases;
mod openapi;
mod overrides;
mod query;
mod rls_json;
mod server;

use client::{Client, Response};
use server::{Server, wait_until};

/// The rules of most tests.
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

/// Sends this body on a new connection.
#[track_caller]
fn post(server: &Server, path: &str, body: &str) -> Response {
    Client::connect(server.http).post(path, body)
}
