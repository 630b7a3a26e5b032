//! Parses the headers of a call: its method and its timeout.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Method as HttpMethod, Response, StatusCode, request};

use super::status::{GrpcCode, GrpcStatus};

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The methods that can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcMethod {
    /// A method that takes one message.
    SingleMessage(SingleMessageMethod),
    /// Server reflection, which takes a stream of messages.
    Reflection,
}

/// A method that takes one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleMessageMethod {
    /// Envoy's rate limit service.
    ShouldRateLimit,
    /// Health of one service or of the server.
    HealthCheck,
    /// Health of all services.
    HealthList,
    /// Health of one service, with updates.
    HealthWatch,
}

/// Why a call is rejected by its headers.
#[derive(Debug)]
pub enum CallError {
    /// The request is not gRPC.
    Http(StatusCode),
    /// The method or the encoding is not supported.
    Status(GrpcStatus),
}

impl GrpcMethod {
    fn from_path(path: &str) -> Option<Self> {
        let method = match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => {
                SingleMessageMethod::ShouldRateLimit
            }
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

/// The method that is called.
pub fn parse_method(head: &request::Parts) -> Result<GrpcMethod, CallError> {
    if head.method != HttpMethod::POST {
        return Err(CallError::Http(StatusCode::METHOD_NOT_ALLOWED));
    }
    if !is_grpc(&head.headers) {
        return Err(CallError::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    if let Some(encoding) = head.headers.get(GRPC_ENCODING).filter(|encoding| *encoding != "identity") {
        let encoding = encoding.to_str().unwrap_or("?");
        let message = format!("compression `{encoding}` is not supported (hint: send messages uncompressed)");
        return Err(CallError::Status(GrpcStatus::new(GrpcCode::Unimplemented, message)));
    }
    GrpcMethod::from_path(head.uri.path()).ok_or_else(|| {
        let message = format!("there is no method {} (hint: reflection lists all methods)", head.uri.path());
        CallError::Status(GrpcStatus::new(GrpcCode::Unimplemented, message))
    })
}

impl CallError {
    /// The reason as a metric label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Http(_) => "not_grpc",
            Self::Status(status) => status.code.as_str(),
        }
    }

    /// A response of headers only.
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

/// `application/grpc`, possibly with a suffix such as `+proto`.
fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(CONTENT_TYPE) else { return false };
    match content_type.as_bytes().strip_prefix(b"application/grpc") {
        Some(rest) => matches!(rest.first(), None | Some(b'+' | b';')),
        None => false,
    }
}

/// How long the client waits for the response, if the header is valid.
pub fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // gRPC allows at most eight digits.
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
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(&headers(CONTENT_TYPE, content_type)), expected, "{content_type}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
