//! How a call ends: a code, and what went wrong.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::text;

/// What says how a call ended.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// What went wrong, as text.
pub const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// What a body may be compressed with.
pub const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// What every answer is.
pub const APPLICATION_GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

const OK: HeaderValue = HeaderValue::from_static("0");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The most characters of a message.
const MESSAGE_CHARS_MAX: usize = 500;

/// What kind of thing went wrong, by the number it has in gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GrpcCode {
    /// The request makes no sense.
    InvalidArgument = 3,
    /// It took longer than the client waits.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// It is too large.
    ResourceExhausted = 8,
    /// There is no such method, or nobody here can do what is asked.
    Unimplemented = 12,
    /// The call or the rules are broken.
    Internal = 13,
    /// The server is about to stop.
    Unavailable = 14,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcStatus {
    /// What kind of thing went wrong.
    pub code: GrpcCode,
    /// What, and what to do.
    pub message: Cow<'static, str>,
}

impl GrpcCode {
    /// As metrics have it.
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
    /// Of this kind, for this reason.
    pub fn new(code: GrpcCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// As headers that are the whole answer.
    pub fn trailers_only(&self) -> Response<()> {
        let mut response = Response::new(());
        response.headers_mut().insert(CONTENT_TYPE, APPLICATION_GRPC);
        self.write_headers(response.headers_mut());
        response
    }

    /// As what stands at the end of an answer.
    pub fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        self.write_headers(&mut trailers);
        trailers
    }

    fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        // It consists of characters that a header may have.
        if let Ok(message) = HeaderValue::from_str(&percent_encode(&self.message)) {
            headers.insert(GRPC_MESSAGE, message);
        }
        if self.code == GrpcCode::Unimplemented {
            headers.insert(GRPC_ACCEPT_ENCODING, IDENTITY);
        }
    }
}

/// What stands at the end of an answer to a call that went well.
pub fn ok_trailers() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, OK);
    trailers
}

/// What stands in front of one.
pub fn ok_headers() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, APPLICATION_GRPC);
    response
}

/// As gRPC has it: bytes of ASCII that can be seen stand for themselves, but for `%`.
fn percent_encode(message: &str) -> String {
    let message = text::printable(message.as_bytes(), MESSAGE_CHARS_MAX);
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded() {
        assert_eq!(percent_encode("100% of größe\n"), "100%25 of gr%C3%B6%C3%9Fe\\n");
        assert_eq!(percent_encode(&"x".repeat(1_000)).len(), MESSAGE_CHARS_MAX + "%E2%80%A6".len());
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
