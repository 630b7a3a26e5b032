//! `/v1/explain`: why a request gets the answer it gets.

use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderValue};
use tidegate::rules::Request;

use super::connection::HttpRequest;
use super::reply::{self, ContentType, Problem, ErrorReply, Reply};
use super::{asking, routes};
use crate::json::{self, RequestForm};
use crate::serve::App;
use crate::text;

/// How much of a parameter from outside a message shows.
const PARAMETER_CHARS_MAX: usize = 40;

/// How an explanation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExplanationFormat {
    Json,
    Text,
}

/// How it is asked to be written: `?format=text`, or by `accept`.
pub(super) fn requested_format(asked: &HttpRequest) -> Result<ExplanationFormat, ErrorReply> {
    match routes::parameter(asked, "format") {
        Some("text") => Ok(ExplanationFormat::Text),
        Some("json") => Ok(ExplanationFormat::Json),
        Some(other) => {
            let other = text::printable(other.as_bytes(), PARAMETER_CHARS_MAX);
            let message = format!("there is no format `{other}` (hint: format=text or format=json)");
            Err(Problem::new(StatusCode::BAD_REQUEST, message).into_error_reply())
        }
        None => {
            let accepted = asked.headers().get(ACCEPT).map_or(&b""[..], HeaderValue::as_bytes);
            let is_text = accepted.trim_ascii().to_ascii_lowercase().starts_with(b"text/plain");
            Ok(if is_text { ExplanationFormat::Text } else { ExplanationFormat::Json })
        }
    }
}

/// Explains what the body asks.
pub(super) async fn explain(app: &App, body: &[u8], written: ExplanationFormat) -> Reply {
    let read = match json::read_single(body, RequestForm::Check) {
        Ok(read) => read,
        Err(error) => return asking::request_error_reply(&error),
    };
    let entries = read.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    match (app.explain(&request).await, written) {
        (Ok(explanation), ExplanationFormat::Json) => {
            reply::reply(StatusCode::OK, ContentType::Json, explanation.to_json())
        }
        (Ok(explanation), ExplanationFormat::Text) => {
            reply::reply(StatusCode::OK, ContentType::Text, explanation.to_string())
        }
        (Err(error), _) => asking::engine_error_reply(&error),
    }
}
