//! The Redis protocol, spoken in raw bytes to a server in this process.

mod bad_bytes;
mod checks;
mod concurrency;
mod connections;
mod framing;
mod handshake;
mod leases;
mod passwords;
mod server;
mod throttle;
mod throttle_model;
mod timeouts;
mod transactions;
mod waiting;

use server::{Client, Options, Server};
