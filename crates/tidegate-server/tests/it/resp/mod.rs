//! The Redis protocol, spoken in raw bytes to a server in this process.

mod bad_bytes;
mod checks;
mod clients_say;
mod connections;
mod exact;
mod held;
mod passwords;
mod pieces;
mod server;
mod throttle;
mod throttle_model;
mod timeouts;

use server::{Client, Options, Server};
