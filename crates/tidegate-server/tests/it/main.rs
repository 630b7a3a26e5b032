//! All integration tests of the server, in one binary: each further binary would be linked by itself.

mod app;
mod check;
mod config_store;
mod grpc;
mod http;
#[cfg(feature = "mongodb")]
mod mongodb_store;
mod redis_fleet;
mod resp;
mod serve;
mod support;
mod trace;
