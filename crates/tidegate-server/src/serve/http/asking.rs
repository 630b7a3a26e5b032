//! What is asked, read from the body of a request.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use tidegate::EngineError;

use super::body::{self, BodyError};
use super::connection::HttpRequest;
use super::pace::RequestGuard;
use super::reply::{Problem, ErrorReply, Reply};
use crate::json::RequestError;
use crate::serve::settings::Bounds;

/// After how many seconds a store that does not answer may be there again, about.
const RETRY_AFTER_SECONDS: &str = "1";

/// The body of a request, whatever it is; or what is said of it instead. The head is gone by the time it is waited for.
pub(in crate::serve) async fn read_body(asked: HttpRequest, busy: &RequestGuard<'_>, bounds: &Bounds) -> Result<Bytes, ErrorReply> {
    body::read(asked.into_body(), busy, bounds).await.map_err(|error| body_error_reply(error, busy, bounds))
}

/// What is said of a body that is not there.
#[cold]
fn body_error_reply(error: BodyError, busy: &RequestGuard<'_>, bounds: &Bounds) -> ErrorReply {
    let (status, message) = match error {
        BodyError::TooLarge => {
            busy.abandon_body();
            let most = bounds.body_bytes_max;
            let message =
                format!("the body is larger than {most} bytes (hint: send fewer requests at a time)");
            (StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        BodyError::TimedOut => {
            let most = bounds.header_timeout;
            let message =
                format!("the request did not come within {most:?} (hint: is content-length right?)");
            (StatusCode::REQUEST_TIMEOUT, message)
        }
        BodyError::Incomplete => {
            let message = "the body ended before it was over (hint: is content-length right?)";
            (StatusCode::BAD_REQUEST, message.to_owned())
        }
    };
    Problem::new(status, message).closing().into_error_reply()
}

/// What is said of a request that cannot be read.
#[cold]
pub(in crate::serve) fn request_error_reply(error: &RequestError) -> Reply {
    let problem = Problem::new(StatusCode::BAD_REQUEST, error.message.as_str());
    match error.location {
        Some(place) => {
            problem.with_number("line", place.line as u64).with_number("column", place.column as u64).into_reply()
        }
        None => problem.into_reply(),
    }
}

/// What is said of something that was not done.
#[cold]
pub(in crate::serve) fn engine_error_reply(error: &EngineError) -> Reply {
    engine_error_problem(error).into_reply()
}

/// The same, to put elsewhere.
pub(in crate::serve) fn engine_error_problem(error: &EngineError) -> Problem {
    match error {
        EngineError::Store(failure) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, failure.to_string())
            .with_text("result", failure.as_str())
            .with_header(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS)),
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
