//! Finds a request that can be answered directly at the start of the input.

use std::mem::MaybeUninit;

use hyper::StatusCode;

use super::connection::DirectChecks;
use crate::serve::http::allowed_hosts::AllowedHosts;
use crate::serve::http::forward_auth::{self, DenyStatus};
use crate::serve::http::routes::{self, JsonContentType};

/// Maximum size of a request that is answered directly, in bytes.
pub(super) const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Maximum number of headers of a request that is answered directly.
pub(super) const HEADERS_MAX: usize = 32;

const METHOD: &str = "POST";
const PATH: &str = "/v1/check";
/// Minor version of HTTP/1.1.
const VERSION: u8 = 1;
/// Methods whose replies have no body, whatever `content-length` says.
const METHODS_WITHOUT_REPLY_BODY: [&str; 2] = ["HEAD", "CONNECT"];

/// What the input starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived<'i, 'h> {
    /// A whole check of this size. Its body may still be anything.
    Check { body: &'i [u8], request_bytes: usize },
    /// A proxy asks about a request with these headers, without a body.
    Authorize { headers: &'h [httparse::Header<'i>], deny_status: DenyStatus, request_bytes: usize },
    /// Part of a head.
    PartOfHead,
    /// The head of a check of this size, and not all of its body.
    PartOfBody { request_bytes: usize },
    /// Anything else: hyper has to read it.
    Other,
}

/// The headers that matter to a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CheckHeaders<'h> {
    host: Option<&'h [u8]>,
    content_type: Option<&'h [u8]>,
    content_length: Option<&'h [u8]>,
}

/// What a header is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderRole {
    Host,
    ContentType,
    ContentLength,
    Connection,
    /// It changes how the request is read or answered.
    Framing,
    /// Browsers send it, for `cross_site.rs`.
    Browser,
}

const HEADER_ROLES: [(&str, HeaderRole); 10] = [
    ("host", HeaderRole::Host),
    ("content-type", HeaderRole::ContentType),
    ("content-length", HeaderRole::ContentLength),
    ("connection", HeaderRole::Connection),
    ("transfer-encoding", HeaderRole::Framing),
    ("expect", HeaderRole::Framing),
    ("upgrade", HeaderRole::Framing),
    ("origin", HeaderRole::Browser),
    ("sec-fetch-site", HeaderRole::Browser),
    ("referer", HeaderRole::Browser),
];

/// Looks at the start of the input, which is not empty. `headers` is memory for it.
pub(super) fn read_request<'i, 'h>(
    input: &'i [u8],
    headers: &'h mut [MaybeUninit<httparse::Header<'i>>; HEADERS_MAX],
    checks: &DirectChecks<'_>,
) -> Arrived<'i, 'h> {
    let mut head = httparse::Request::new(&mut []);
    let head_bytes = match head.parse_with_uninit_headers(input, headers) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if input.len() < REQUEST_BYTES_MAX => return Arrived::PartOfHead,
        _ => return Arrived::Other,
    };
    let has_reply_body = head.method.is_some_and(|method| !METHODS_WITHOUT_REPLY_BODY.contains(&method));
    if head.version != Some(VERSION) || !has_reply_body {
        return Arrived::Other;
    }
    if (head.method, head.path) != (Some(METHOD), Some(PATH)) {
        let authorize = head.path.and_then(deny_status).filter(|_| has_no_body(head.headers));
        return match authorize {
            Some(deny_status) => {
                Arrived::Authorize { headers: head.headers, deny_status, request_bytes: head_bytes }
            }
            None => Arrived::Other,
        };
    }
    let headers = CheckHeaders::read(head.headers);
    let Some(body_bytes) = headers.and_then(|headers| headers.body_bytes(checks.hosts)) else {
        return Arrived::Other;
    };
    let room_bytes = REQUEST_BYTES_MAX.saturating_sub(head_bytes).min(checks.bounds.body_bytes_max);
    if body_bytes > room_bytes {
        return Arrived::Other;
    }
    let request_bytes = head_bytes + body_bytes;
    match input.get(head_bytes..request_bytes) {
        Some(body) => Arrived::Check { body, request_bytes },
        None => Arrived::PartOfBody { request_bytes },
    }
}

/// What the target of a proxy's request says. None if it is another one.
fn deny_status(target: &str) -> Option<DenyStatus> {
    match target.strip_prefix(forward_auth::PATH)? {
        "" => Some(DenyStatus::Real),
        "?deny_status=403" => Some(DenyStatus::Always(StatusCode::FORBIDDEN)),
        _ => None,
    }
}

/// Whether a request with these headers ends with them, and keeps the connection.
fn has_no_body(headers: &[httparse::Header<'_>]) -> bool {
    headers.iter().all(|header| {
        let role = HEADER_ROLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(header.name));
        match role.map(|(_, role)| *role) {
            Some(HeaderRole::ContentLength | HeaderRole::Framing) => false,
            Some(HeaderRole::Connection) => header.value.eq_ignore_ascii_case(b"keep-alive"),
            // No header makes such a request less trusted.
            Some(HeaderRole::Host | HeaderRole::ContentType | HeaderRole::Browser) | None => true,
        }
    })
}

impl<'h> CheckHeaders<'h> {
    /// None if a header needs care, or appears twice.
    fn read(headers: &[httparse::Header<'h>]) -> Option<Self> {
        let mut read = Self::default();
        for header in headers {
            let role = HEADER_ROLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(header.name));
            let slot = match role.map(|(_, role)| *role) {
                Some(HeaderRole::Host) => &mut read.host,
                Some(HeaderRole::ContentType) => &mut read.content_type,
                Some(HeaderRole::ContentLength) => &mut read.content_length,
                Some(HeaderRole::Connection) if header.value.eq_ignore_ascii_case(b"keep-alive") => continue,
                Some(HeaderRole::Connection | HeaderRole::Framing | HeaderRole::Browser) => return None,
                None => continue,
            };
            if slot.replace(header.value).is_some() {
                return None;
            }
        }
        Some(read)
    }

    /// The length of the body, if the request is one for these hosts and its body is declared as JSON.
    fn body_bytes(&self, hosts: &AllowedHosts) -> Option<usize> {
        let content_type = self.content_type.unwrap_or_default();
        let is_json = routes::content_type_error(content_type, JsonContentType::Lenient).is_none();
        if is_json && hosts.accept(self.host) { parse_length(self.content_length?) } else { None }
    }
}

/// Only digits, as hyper reads it.
fn parse_length(digits: &[u8]) -> Option<usize> {
    let add_digit = |length: usize, digit: &u8| match digit {
        b'0'..=b'9' => length.checked_mul(10)?.checked_add(usize::from(digit - b'0')),
        _ => None,
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add_digit) }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
