//! Replies to requests that cannot be parsed, and to errors of the engine.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use tidegate::EngineError;

use super::reply::{Problem, Reply};
use crate::json::RequestError;

/// Suggested wait if the store does not answer, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// The reply to a request that cannot be parsed.
#[cold]
pub(super) fn request_error_reply(error: &RequestError) -> Reply {
    let problem = Problem::new(StatusCode::BAD_REQUEST, error.message.as_str());
    match error.location {
        Some(location) => problem
            .with_number("line", location.line as u64)
            .with_number("column", location.column as u64)
            .into_reply(),
        None => problem.into_reply(),
    }
}

/// The reply to an engine error.
#[cold]
pub(super) fn engine_error_reply(error: &EngineError) -> Reply {
    engine_error_problem(error).into_reply()
}

/// An engine error as a problem, for example for a batch.
pub(super) fn engine_error_problem(error: &EngineError) -> Problem {
    match error {
        EngineError::Store(failure) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, failure.to_string())
            .with_text("result", failure.as_str())
            .with_header(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS)),
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
