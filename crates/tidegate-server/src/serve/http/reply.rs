//! Replies over HTTP.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::json_writer;
use crate::serve::{App, Protocol, metrics};
use crate::text;

/// A reply over HTTP.
pub(super) type Reply = Response<Full<Bytes>>;

/// A reply to an error. Boxed, because it is rare and large.
pub(super) type ErrorReply = Box<Reply>;

/// The content type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentType {
    Json,
    /// A JSON document in each line.
    JsonLines,
    Problem,
    Text,
    /// For Prometheus.
    Metrics,
}

impl ContentType {
    fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::JsonLines => "application/x-ndjson",
            Self::Problem => "application/problem+json",
            Self::Text => "text/plain; charset=utf-8",
            Self::Metrics => metrics::CONTENT_TYPE,
        })
    }
}

/// A reply with this body.
pub(super) fn reply(status: StatusCode, content_type: ContentType, body: impl Into<Bytes>) -> Reply {
    let mut reply = Reply::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, content_type.header());
    reply
}

/// A reply with status 200 and JSON.
pub(super) fn json(value: &serde_json::Value) -> Reply {
    reply(StatusCode::OK, ContentType::Json, value.to_string())
}

/// Marks a reply to a request that connections had no memory for.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfMemory;

/// Marks a decision with status 403: a rejected request has that status too.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockedKey;

/// Marks a reply that was counted with another status.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted;

/// Counts a reply that rejects a request.
pub(super) fn count_rejection(app: &App, protocol: Protocol, reply: &Reply) {
    let reason = match reply.status() {
        StatusCode::BAD_REQUEST => "bad_request",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN if reply.extensions().get::<BlockedKey>().is_none() => "cross_site",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::REQUEST_TIMEOUT => "late",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "wrong_type",
        StatusCode::MISDIRECTED_REQUEST => "misdirected",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "head_too_large",
        StatusCode::SERVICE_UNAVAILABLE if reply.extensions().get::<OutOfMemory>().is_some() => "memory",
        // Answers, and errors that were counted where they occurred.
        _ => return,
    };
    if reply.extensions().get::<Counted>().is_some() {
        return;
    }
    app.metrics.count_rejected_request(protocol, reason);
}

/// An error as problem+json (RFC 9457).
///
/// A message that ends with `(hint: ...)` is split into `detail` and `hint`.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    message: String,
    fields: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// `message` says what is wrong and what to do.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), fields: String::new(), headers: Vec::new() }
    }

    /// Adds a number.
    #[must_use]
    pub fn with_number(mut self, name: &str, number: u64) -> Self {
        self.write_name(name);
        json_writer::write_number(&mut self.fields, number);
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn with_text(mut self, name: &str, text: &str) -> Self {
        self.write_name(name);
        json_writer::write_text(&mut self.fields, text);
        self
    }

    /// Adds a JSON value.
    #[must_use]
    pub fn with_json(mut self, name: &str, value: &serde_json::Value) -> Self {
        self.write_name(name);
        self.fields.push_str(&value.to_string());
        self
    }

    /// Adds a list of texts.
    #[must_use]
    pub fn with_list<T: AsRef<str>>(mut self, name: &str, texts: &[T]) -> Self {
        self.write_name(name);
        json_writer::write_list(&mut self.fields, texts, |out, text| {
            json_writer::write_text(out, text.as_ref());
        });
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Closes the connection, because the rest of the body cannot be distinguished from another request.
    #[must_use]
    pub fn closing(self) -> Self {
        self.with_header(CONNECTION, HeaderValue::from_static("close"))
    }

    /// Status 405, with the allowed methods.
    pub fn method_not_allowed(path: &str, allowed: &'static str) -> Self {
        let message = format!("{path} does not allow this method (hint: use {allowed})");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, message)
            .with_header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// As an error reply.
    pub fn into_error_reply(self) -> ErrorReply {
        Box::new(self.into_reply())
    }

    /// As a reply.
    pub fn into_reply(self) -> Reply {
        let mut reply = reply(self.status, ContentType::Problem, self.to_json());
        reply.headers_mut().extend(self.headers.into_iter().map(|(name, value)| (Some(name), value)));
        reply
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let mut body = String::with_capacity(self.message.len() + self.fields.len() + 128);
        body.push_str(r#"{"type":"about:blank","title":"#);
        json_writer::write_text(&mut body, self.status.canonical_reason().unwrap_or("Error"));
        body.push_str(r#","status":"#);
        json_writer::write_number(&mut body, self.status.as_u16().into());
        let (detail, hint) = text::split_hint(&self.message);
        body.push_str(r#","detail":"#);
        json_writer::write_text(&mut body, detail);
        if let Some(hint) = hint {
            body.push_str(r#","hint":"#);
            json_writer::write_text(&mut body, hint);
        }
        body.push_str(&self.fields);
        body.push('}');
        body
    }

    fn write_name(&mut self, name: &str) {
        self.fields.push(',');
        json_writer::write_text(&mut self.fields, name);
        self.fields.push(':');
    }
}
