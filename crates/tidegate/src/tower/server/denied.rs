//! The response to a request that does not reach the inner service.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tidegate_core::problem::{ProblemKind, push_json_text};

use super::{RequestAnswer, RequestHead};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Whether the caller speaks gRPC, which has its own status and no bodies of errors.
pub(super) fn is_grpc(request: &RequestHead<'_>) -> bool {
    let content_type = request.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    // gRPC-Web is not: its callers read the status from the body.
    content_type
        .and_then(|value| value.strip_prefix(b"application/grpc"))
        .is_some_and(|rest| !rest.starts_with(b"-web"))
}

/// The response of a request that is denied: a problem as JSON, or a gRPC status without a message.
pub(super) fn denied_response(answer: &RequestAnswer, is_grpc: bool) -> Response<Bytes> {
    let problem = answer.problem.unwrap_or(ProblemKind::QuotaExceeded);
    if is_grpc {
        return grpc_response(answer, problem);
    }
    let mut body = String::from(problem.json_start());
    push_json_text(&mut body, &answer.detail);
    if problem == ProblemKind::QuotaExceeded {
        body.push_str(r#","violated-policies":["#);
        for (index, policy) in answer.violated_policies.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            push_json_text(&mut body, policy);
        }
        body.push(']');
    }
    body.push('}');
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

/// A response with trailers only: without a body, HTTP/2 sends them as its headers.
fn grpc_response(answer: &RequestAnswer, problem: ProblemKind) -> Response<Bytes> {
    let status = match problem {
        ProblemKind::QuotaExceeded => "8", // RESOURCE_EXHAUSTED
        ProblemKind::Forbidden => "7",     // PERMISSION_DENIED
        ProblemKind::Unavailable => "14",  // UNAVAILABLE
        ProblemKind::BadRequest => "3",    // INVALID_ARGUMENT
    };
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(GRPC_STATUS, HeaderValue::from_static(status));
    if let Ok(message) = HeaderValue::try_from(percent_encoded(&answer.detail)) {
        headers.insert(GRPC_MESSAGE, message);
    }
    // Clients that implement retries of gRPC read this, and no Retry-After. Without it they choose the time themselves.
    let pushback = match answer.retry_after.span() {
        Some(span) => HeaderValue::from(span.millis_rounded_up().min(i32::MAX as u64)),
        None => HeaderValue::from_static("-1"),
    };
    headers.insert(GRPC_PUSHBACK, pushback);
    response
}

/// The response to a shadow-banned request: it looks successful.
pub(super) fn shadow_ban_response(is_grpc: bool) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    if is_grpc {
        response.headers_mut().insert(CONTENT_TYPE, GRPC);
        response.headers_mut().insert(GRPC_STATUS, HeaderValue::from_static("0"));
    }
    response
}

/// The encoding of `grpc-message`: printable ASCII, all else percent-encoded.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
