//! Runs well-known load generators.

mod h2load;
mod output;
mod redis_benchmark;
mod wrk;

use super::load_kind::{InFlight, LoadKind};
use super::target::TargetRequest;
use crate::scratch::ScratchDir;

/// With a pipeline, a turn has this many times the requests, because each takes less time.
pub const PIPELINED_TIMES: u64 = 8;
/// Distinct keys, where the load generator can vary them.
const KEYS: u32 = 10_000;

/// What to send, where and how often.
pub(crate) struct LoadSpec<'a> {
    pub request: &'a TargetRequest,
    pub port: u16,
    pub in_flight: InFlight,
    pub requests: u64,
    /// The requests per second of the server, if known. wrk runs for a number of seconds, not of requests.
    pub per_second: Option<f64>,
    pub scratch: &'a ScratchDir,
}

/// The requests that were answered, all without an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoadResult {
    pub requests: u64,
    pub per_second: f64,
}

/// The number of requests in a turn.
pub(super) fn requests(load: LoadKind, requests: u64) -> u64 {
    match load {
        LoadKind::RespPipelined => requests * PIPELINED_TIMES,
        LoadKind::Resp | LoadKind::Http | LoadKind::GrpcWide | LoadKind::GrpcDeep => requests,
    }
}

/// Runs the load generator for the protocol of the request. An error in any answer is an error.
pub(crate) fn run(spec: &LoadSpec<'_>) -> Result<LoadResult, String> {
    match spec.request {
        TargetRequest::Resp { command, .. } => redis_benchmark::run(spec, command),
        TargetRequest::Http { path, body, .. } => wrk::run(spec, path, body),
        TargetRequest::Grpc { path, message, .. } => h2load::run(spec, path, message),
    }
}

/// Loads a server with GET of one path.
pub(crate) fn wrk_get(port: u16, path: &str, connections: u32, seconds: u32) -> Result<LoadResult, String> {
    wrk::run_get(port, path, connections, seconds)
}
