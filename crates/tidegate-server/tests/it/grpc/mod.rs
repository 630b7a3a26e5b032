//! The gRPC listener, with real clients: tonic's, and one that sends what no client would.

mod answers;
mod drain;
mod errors;
mod gone;
mod health;
mod hits;
mod hostile;
mod many;
mod marks;
mod overrides;
mod raw;
mod reflection;
mod server;
