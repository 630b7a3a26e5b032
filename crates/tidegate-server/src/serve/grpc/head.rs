//! What a call is about, by its headers.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Method as HttpMethod, Response, StatusCode, request};

use super::status::{GrpcCode, GrpcStatus};

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcMethod {
    /// Something that takes one message.
    SingleMessage(SingleMessageMethod),
    /// What can be called, which is a stream of questions.
    Reflection,
}

/// What can be called that takes one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleMessageMethod {
    /// Envoy's rate limit service.
    ShouldRateLimit,
    /// Whether the server is well.
    HealthCheck,
    /// Whether each of its services is.
    HealthList,
    /// The same, whenever it changes.
    HealthWatch,
}

/// Why a call cannot be begun.
#[derive(Debug)]
pub enum CallError {
    /// It is not gRPC.
    Http(StatusCode),
    /// It cannot be done.
    Status(GrpcStatus),
}

impl GrpcMethod {
    fn from_path(path: &str) -> Option<Self> {
        let method = match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => SingleMessageMethod::ShouldRateLimit,
            "/grpc.health.v1.Health/Check" => SingleMessageMethod::HealthCheck,
            "/grpc.health.v1.Health/List" => SingleMessageMethod::HealthList,
            "/grpc.health.v1.Health/Watch" => SingleMessageMethod::HealthWatch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
                return Some(Self::Reflection);
            }
            _ => return None,
        };
        Some(Self::SingleMessage(method))
    }
}

/// What a call is about.
pub fn parse_method(head: &request::Parts) -> Result<GrpcMethod, CallError> {
    if head.method != HttpMethod::POST {
        return Err(CallError::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    if !is_grpc(&head.headers) {
        return Err(CallError::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if let Some(encoding) = head.headers.get(GRPC_ENCODING).filter(|encoding| *encoding != "identity") {
        let encoding = encoding.to_str().unwrap_or("?");
        let message = format!("bodies in `{encoding}` are not understood (hint: send them as they are)");
        return Err(CallError::Status(GrpcStatus::new(GrpcCode::Unimplemented, message)));
    }
    GrpcMethod::from_path(head.uri.path()).ok_or_else(|| {
        let message = format!("there is no method {} (hint: reflection lists them)", head.uri.path());
        CallError::Status(GrpcStatus::new(GrpcCode::Unimplemented, message))
    })
}

impl CallError {
    /// Why, as metrics have it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Http(_) => "not_grpc",
            Self::Status(status) => status.code.as_str(),
        }
    }

    /// As headers that are the whole answer.
    pub fn response(&self) -> Response<()> {
        match self {
            Self::Http(status) => {
                let mut response = Response::new(());
                *response.status_mut() = *status;
                response
            }
            Self::Status(status) => status.trailers_only(),
        }
    }
}

/// `application/grpc`, maybe with what it is made of, as in `application/grpc+proto`.
fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return false };
    match kind.as_bytes().strip_prefix(b"application/grpc") {
        Some(rest) => matches!(rest.first(), None | Some(b'+' | b';')),
        None => false,
    }
}

/// How long the client waits for an answer, if it says so in a way that can be read.
pub fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // Eight digits at most.
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_bytes(value.as_bytes()).unwrap())])
    }

    #[test]
    fn timeouts() {
        let cases = [
            ("20m", Some(Duration::from_millis(20))),
            ("1S", Some(Duration::from_secs(1))),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("5u", Some(Duration::from_micros(5))),
            ("0n", Some(Duration::ZERO)),
            ("100000000S", None),
            ("-1S", None),
            ("S", None),
            ("", None),
            ("1", None),
            ("1x", None),
            ("1é", None),
        ];
        for (text, expected) in cases {
            assert_eq!(timeout(&headers(GRPC_TIMEOUT, text)), expected, "{text}");
        }
    }

    #[test]
    fn content_types() {
        for (kind, is) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(&headers(CONTENT_TYPE, kind)), is, "{kind}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
