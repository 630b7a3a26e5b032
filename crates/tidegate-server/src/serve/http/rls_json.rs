//! `/json`, as envoyproxy/ratelimit has it: the rate limit service as protojson.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};

use super::answered::DEGRADED_HEADER;
use super::asking;
use super::reply::{ContentType, Problem, Reply, reply};
use crate::serve::rls::{self, RlsCode, Details, Overall};
use crate::serve::{App, Protocol};

/// Decides what the body asks: 200; 429 if it is over a limit, or 503 if nobody could be asked.
pub(super) async fn decide(app: &App, details: Details, body: &[u8]) -> Reply {
    let read = match rls::json::read(body) {
        Ok(read) => read,
        Err(error) => return asking::request_error_reply(&error),
    };
    let request = match read.to_request() {
        Ok(request) => request,
        Err(error) => return Problem::new(StatusCode::BAD_REQUEST, error.to_string()).into_reply(),
    };
    let decided = match rls::decide(app, Protocol::Http, &request).await {
        Ok(decided) => decided,
        Err(error) => return asking::engine_error_reply(&error),
    };
    let response = decided.response(&request, details);
    let mut out = String::new();
    rls::json::write(&response, &mut out);
    rls_reply(response.overall, out)
}

fn rls_reply(overall: Overall, body: String) -> Reply {
    let status = match (overall.code, overall.unavailable_seconds) {
        (RlsCode::Ok, _) => StatusCode::OK,
        (RlsCode::OverLimit, None) => StatusCode::TOO_MANY_REQUESTS,
        (RlsCode::OverLimit, Some(_)) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut reply = reply(status, ContentType::Json, body);
    if let Some(seconds) = overall.unavailable_seconds {
        reply.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if overall.degraded {
        reply.headers_mut().insert(DEGRADED_HEADER, HeaderValue::from_static("true"));
    }
    reply
}
