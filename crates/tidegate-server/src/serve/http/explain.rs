//! `/v1/explain`: why a request gets the answer it gets.

use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderValue};
use tidegate::rules::Request;

use super::connection::Asked;
use super::reply::{self, Kind, Problem, Refused, Reply};
use super::{asking, routes};
use crate::request_json::{self, Form};
use crate::serve::App;
use crate::shown;

/// How much of a parameter from outside a message shows.
const PARAMETER_CHARS_MAX: usize = 40;

/// How an explanation is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    ForPrograms,
    ForPeople,
}

/// How it is asked to be written: `?format=text`, or by `accept`.
pub(super) fn written(asked: &Asked) -> Result<Written, Refused> {
    match routes::parameter(asked, "format") {
        Some("text") => Ok(Written::ForPeople),
        Some("json") => Ok(Written::ForPrograms),
        Some(other) => {
            let other = shown::text(other.as_bytes(), PARAMETER_CHARS_MAX);
            let message = format!("there is no format `{other}` (hint: format=text or format=json)");
            Err(Problem::new(StatusCode::BAD_REQUEST, message).refused())
        }
        None => {
            let accepted = asked.headers().get(ACCEPT).map_or(&b""[..], HeaderValue::as_bytes);
            let is_text = accepted.trim_ascii().to_ascii_lowercase().starts_with(b"text/plain");
            Ok(if is_text { Written::ForPeople } else { Written::ForPrograms })
        }
    }
}

/// Explains what the body asks.
pub(super) async fn explain(app: &App, body: &[u8], written: Written) -> Reply {
    let read = match request_json::read_one(body, Form::Check) {
        Ok(read) => read,
        Err(error) => return asking::of_request(&error),
    };
    let entries = read.entries();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    match (app.explain(&request).await, written) {
        (Ok(explanation), Written::ForPrograms) => {
            reply::reply(StatusCode::OK, Kind::Json, explanation.to_json())
        }
        (Ok(explanation), Written::ForPeople) => {
            reply::reply(StatusCode::OK, Kind::Text, explanation.to_string())
        }
        (Err(error), _) => asking::of_error(&error),
    }
}
