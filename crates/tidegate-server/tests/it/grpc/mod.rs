//! The gRPC listener, with tonic's clients and with a raw client that sends invalid data.

mod annotations;
mod answers;
mod concurrency;
mod dead_clients;
mod drain;
mod envoy_files;
mod errors;
mod health;
mod hits;
mod hostile;
pub mod metadata;
pub mod raw_client;
mod reflection;
mod request_limits;
pub mod server;
