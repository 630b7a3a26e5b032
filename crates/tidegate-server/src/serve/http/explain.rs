//! `/v1/explain`: why a request gets its answer.

use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderValue};
use tidegate::engine::Explanation;
use tidegate::rules::Request;

use super::connection::HttpRequest;
use super::limit_headers::DECISION_HEADER;
use super::reply::{self, ContentType, ErrorReply, Problem, Reply};
use super::{error_reply, routes};
use crate::json::{self, RequestForm};
use crate::serve::App;
use crate::text;

/// Maximum characters of a parameter shown in an error.
const PARAMETER_CHARS_MAX: usize = 40;

/// The format of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExplanationFormat {
    Json,
    Text,
}

/// The requested format: by `?format=text`, or by `accept`.
pub(super) fn requested_format(request: &HttpRequest) -> Result<ExplanationFormat, ErrorReply> {
    match routes::parameter(request, "format") {
        Some("text") => Ok(ExplanationFormat::Text),
        Some("json") => Ok(ExplanationFormat::Json),
        Some(other) => {
            let other = text::printable(other.as_bytes(), PARAMETER_CHARS_MAX);
            let message = format!("unknown format `{other}` (hint: format=text or format=json)");
            Err(Problem::new(StatusCode::BAD_REQUEST, message).into_error_reply())
        }
        None => {
            let accepted = request.headers().get(ACCEPT).map_or(&b""[..], HeaderValue::as_bytes);
            let is_text = accepted.trim_ascii().to_ascii_lowercase().starts_with(b"text/plain");
            Ok(if is_text { ExplanationFormat::Text } else { ExplanationFormat::Json })
        }
    }
}

/// Explains the request in the body.
pub(super) async fn explain(app: &App, body: &[u8], format: ExplanationFormat) -> Reply {
    let json = match json::read_single(body, RequestForm::Check) {
        Ok(json) => json,
        Err(error) => return error_reply::request_error_reply(&error),
    };
    let entries = json.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: json.domain(), descriptors: &descriptors };
    match app.explain(&request).await {
        Ok(explanation) => explanation_reply(&explanation, format),
        Err(error) => error_reply::engine_error_reply(&error),
    }
}

fn explanation_reply(explanation: &Explanation, format: ExplanationFormat) -> Reply {
    let (content_type, body) = match format {
        ExplanationFormat::Json => (ContentType::Json, explanation.to_json()),
        ExplanationFormat::Text => (ContentType::Text, explanation.to_string()),
    };
    let mut reply = reply::reply(StatusCode::OK, content_type, body);
    let decision = HeaderValue::from_static(explanation.answer.kind.as_str());
    reply.headers_mut().insert(DECISION_HEADER, decision);
    reply
}
