//! Answers over HTTP.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::json;
use crate::serve::{App, Protocol, metrics};

/// An answer over HTTP.
pub(in crate::serve) type Reply = Response<Full<Bytes>>;

/// What is said instead of an answer. Boxed, for it is rare and large.
pub(in crate::serve) type Refused = Box<Reply>;

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Kind {
    Json,
    Problem,
    Text,
    /// Prometheus reads it.
    Metrics,
}

impl Kind {
    fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Problem => "application/problem+json",
            Self::Text => "text/plain; charset=utf-8",
            Self::Metrics => metrics::CONTENT_TYPE,
        })
    }
}

/// A reply with this body.
pub(in crate::serve) fn reply(status: StatusCode, kind: Kind, body: impl Into<Bytes>) -> Reply {
    let mut reply = Reply::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, kind.header());
    reply
}

/// 200 with JSON.
pub(in crate::serve) fn json(value: &serde_json::Value) -> Reply {
    reply(StatusCode::OK, Kind::Json, value.to_string())
}

/// Counts a reply that is none to what was asked.
pub(in crate::serve) fn note(app: &App, by: Protocol, reply: &Reply) {
    let reason = match reply.status() {
        StatusCode::BAD_REQUEST => "bad_request",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "cross_site",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::REQUEST_TIMEOUT => "late",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "wrong_type",
        StatusCode::MISDIRECTED_REQUEST => "misdirected",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "head_too_large",
        // Answers, and what was counted where it was noticed.
        _ => return,
    };
    app.metrics.rejected(by, reason);
}

/// What is wrong with a request, as RFC 9457 has it: problem+json.
///
/// A message that ends in `(hint: ...)`, as all of ours do that have one, is taken apart.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Problem {
    status: StatusCode,
    message: String,
    more: Vec<u8>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// Of this status; the message says what is wrong and what to do.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), more: Vec::new(), headers: Vec::new() }
    }

    /// With a number in it.
    #[must_use]
    pub fn number(mut self, name: &str, number: u64) -> Self {
        self.name(name);
        json::number(&mut self.more, number);
        self
    }

    /// With a text in it.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        self.name(name);
        json::text(&mut self.more, text);
        self
    }

    /// With a document in it.
    #[must_use]
    pub fn json(mut self, name: &str, value: &serde_json::Value) -> Self {
        self.name(name);
        self.more.extend_from_slice(value.to_string().as_bytes());
        self
    }

    /// With a list of texts in it.
    #[must_use]
    pub fn list<T: AsRef<str>>(mut self, name: &str, texts: &[T]) -> Self {
        self.name(name);
        json::list(&mut self.more, texts, |out, text| json::text(out, text.as_ref()));
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// And the connection ends with it, for what the client goes on to send cannot be told from another request.
    #[must_use]
    pub fn closing(self) -> Self {
        self.header(CONNECTION, HeaderValue::from_static("close"))
    }

    /// 405, with the methods that there are.
    pub fn method_not_allowed(path: &str, allowed: &'static str) -> Self {
        let message = format!("{path} is not asked for in this way (hint: use {allowed})");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, message).header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// As what is said instead of an answer.
    pub fn refused(self) -> Refused {
        Box::new(self.reply())
    }

    /// As a reply.
    pub fn reply(self) -> Reply {
        let mut reply = reply(self.status, Kind::Problem, self.body());
        reply.headers_mut().extend(self.headers.into_iter().map(|(name, value)| (Some(name), value)));
        reply
    }

    /// As JSON.
    pub fn body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.message.len() + self.more.len() + 128);
        body.extend_from_slice(br#"{"type":"about:blank","title":"#);
        json::text(&mut body, self.status.canonical_reason().unwrap_or("Error"));
        body.extend_from_slice(br#","status":"#);
        json::number(&mut body, self.status.as_u16().into());
        let (detail, hint) = match self.message.strip_suffix(')').and_then(|all| all.rsplit_once(" (hint: "))
        {
            Some((detail, hint)) => (detail, Some(hint)),
            None => (self.message.as_str(), None),
        };
        body.extend_from_slice(br#","detail":"#);
        json::text(&mut body, detail);
        if let Some(hint) = hint {
            body.extend_from_slice(br#","hint":"#);
            json::text(&mut body, hint);
        }
        body.extend_from_slice(&self.more);
        body.push(b'}');
        body
    }

    fn name(&mut self, name: &str) {
        self.more.push(b',');
        json::text(&mut self.more, name);
        self.more.push(b':');
    }
}
