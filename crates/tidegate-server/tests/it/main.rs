//! All integration tests of the server, in one binary: each further binary would be linked by itself.

mod app;
mod check;
mod config_store;
#[cfg(feature = "dynamodb")]
mod dynamodb_store;
mod etcd_leases;
mod grpc;
mod http;
#[cfg(feature = "mongodb")]
mod mongodb_store;
mod redis_fleet;
mod resp;
mod serve;
mod support;
mod trace;
