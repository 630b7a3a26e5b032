//! How a call ends: a status code and a message.

use std::borrow::Cow;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use tidegate_core::text::percent_encode;

use crate::text;

/// The status code of a call.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// The error message of a call.
pub const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The supported compressions.
pub const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// The content type of every response.
pub const APPLICATION_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

const OK: HeaderValue = HeaderValue::from_static("0");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Maximum characters of a message.
const MESSAGE_CHARS_MAX: usize = 500;

/// Status codes with their numbers in gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GrpcCode {
    /// The request is invalid.
    InvalidArgument = 3,
    /// The call took longer than the client waits.
    DeadlineExceeded = 4,
    /// The service does not exist.
    NotFound = 5,
    /// The request is too large.
    ResourceExhausted = 8,
    /// The method or the compression is not supported.
    Unimplemented = 12,
    /// The framing of the message is invalid, or the decision failed.
    Internal = 13,
    /// The server is shutting down.
    Unavailable = 14,
}

/// The error that a call ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcStatus {
    pub code: GrpcCode,
    /// What went wrong, and what to do.
    pub message: Cow<'static, str>,
}

impl GrpcCode {
    /// The code as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
        }
    }
}

impl GrpcStatus {
    pub fn new(code: GrpcCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// A response of headers only.
    pub fn trailers_only(&self) -> Response<()> {
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, APPLICATION_GRPC);
        self.write_headers(response.headers_mut());
        response
    }

    /// The trailers that end a response.
    pub fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        self.write_headers(&mut trailers);
        trailers
    }

    fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        // The percent-encoded message has only characters that a header allows.
        if let Ok(message) = HeaderValue::from_str(&encode_message(&self.message)) {
            headers.insert(GRPC_MESSAGE, message);
        }
        if self.code == GrpcCode::Unimplemented {
            headers.insert(GRPC_ACCEPT_ENCODING, IDENTITY);
        }
    }
}

/// The trailers of a successful call.
pub fn ok_trailers() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, OK);
    trailers
}

/// The headers of a successful call.
pub fn ok_headers() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, APPLICATION_GRPC);
    response
}

/// gRPC's percent-encoding: printable ASCII except `%` stays as it is.
fn encode_message(message: &str) -> String {
    let message = text::printable(message.as_bytes(), MESSAGE_CHARS_MAX);
    percent_encode(&message, |c| matches!(c, ' '..='~') && c != '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded() {
        assert_eq!(encode_message("100% of größe\n"), "100%25 of gr%C3%B6%C3%9Fe\\n");
        assert_eq!(encode_message(&"x".repeat(1_000)).len(), MESSAGE_CHARS_MAX + "%E2%80%A6".len());
    }

    #[test]
    fn trailers_only_response() {
        let status = GrpcStatus::new(GrpcCode::NotFound, "no such service");
        let response = status.trailers_only();
        assert_eq!(response.headers()[GRPC_STATUS], "5");
        assert_eq!(response.headers()[GRPC_MESSAGE], "no such service");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/grpc");
    }
}
