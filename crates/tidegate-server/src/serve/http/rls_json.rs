//! `/json`: the rate limit service as protojson, as in envoyproxy/ratelimit.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use tidegate::rules::AnswerKind;

use super::answer_reply::DEGRADED_HEADER;
use super::error_reply;
use super::limit_headers::DECISION_HEADER;
use super::reply::{ContentType, Problem, Reply, reply};
use crate::serve::rls::{self, DecideError, Details, Overall, RlsCode, RlsError};
use crate::serve::{App, Protocol};

/// Decides the request in the body: status 200, 429 if it is over a limit, or 503 if the store did not decide.
pub(super) async fn decide(app: &App, details: Details, body: &[u8]) -> Reply {
    let json = match rls::protojson::read(body) {
        Ok(json) => json,
        Err(error) => return error_reply::request_error_reply(&error),
    };
    let request = match json.to_request() {
        Ok(request) => request,
        Err(error) => return bad_request(&error),
    };
    let decision = match rls::decide(app, Protocol::Http, &request, None).await {
        Ok(decision) => decision,
        Err(DecideError::Request(error)) => return bad_request(&error),
        Err(DecideError::Engine(error)) => return error_reply::engine_error_reply(&error),
    };
    let response = decision.response(&request, details);
    let mut out = String::new();
    rls::protojson::write(&response, &mut out);
    rls_reply(response.overall, decision.kind(), out)
}

#[cold]
fn bad_request(error: &RlsError) -> Reply {
    Problem::new(StatusCode::BAD_REQUEST, error.to_string()).into_reply()
}

fn rls_reply(overall: Overall, kind: AnswerKind, body: String) -> Reply {
    let status = match (overall.code, overall.unavailable_seconds) {
        (RlsCode::Ok, _) => StatusCode::OK,
        (RlsCode::OverLimit, None) => StatusCode::TOO_MANY_REQUESTS,
        (RlsCode::OverLimit, Some(_)) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut reply = reply(status, ContentType::Json, body);
    reply.headers_mut().insert(DECISION_HEADER, HeaderValue::from_static(kind.as_str()));
    if let Some(seconds) = overall.unavailable_seconds {
        reply.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if overall.degraded {
        reply.headers_mut().insert(DEGRADED_HEADER, HeaderValue::from_static("true"));
    }
    reply
}
