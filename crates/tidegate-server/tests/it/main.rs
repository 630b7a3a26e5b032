//! All integration tests of the server, in one binary: each further binary would be linked by itself.

mod app;
mod binary;
mod check;
mod directory;
mod grpc;
mod http;
mod redis_fleet;
mod resp;
mod serve;
mod trace;
mod waiting;
