//! Very many requests, by a load generator that people know.

mod h2load;
mod output;
mod redis_benchmark;
mod wrk;

use super::contender::Question;
use super::scratch::Scratch;
use super::shape::{Shape, Width};

/// With a pipeline a turn has so many times the requests, for each takes that much less.
pub const PIPELINED_TIMES: u64 = 8;
/// Keys that requests are for, where the load generator can vary them.
const KEYS: u32 = 10_000;

/// What is to be done.
pub(super) struct Order<'a> {
    pub question: &'a Question,
    pub port: u16,
    pub width: Width,
    pub requests: u64,
    /// What the server does in a second, if that is known: one load generator counts seconds, not requests.
    pub per_second: Option<f64>,
    pub scratch: &'a Scratch,
}

/// What was done, without an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Done {
    pub requests: u64,
    pub per_second: f64,
}

/// How many requests a turn has.
pub(super) fn requests(shape: Shape, requests: u64) -> u64 {
    match shape {
        Shape::RespPipelined => requests * PIPELINED_TIMES,
        Shape::Resp | Shape::Http | Shape::GrpcWide | Shape::GrpcDeep => requests,
    }
}

/// Runs the load generator that speaks what the question is in. An answer that is an error is an error here.
pub(super) fn run(order: &Order<'_>) -> Result<Done, String> {
    match order.question {
        Question::Resp { command, .. } => redis_benchmark::run(order, command),
        Question::Http { path, body, .. } => wrk::run(order, path, body),
        Question::Grpc { path, message, .. } => h2load::run(order, path, message),
    }
}
