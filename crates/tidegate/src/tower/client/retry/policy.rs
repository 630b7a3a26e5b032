//! Which attempts are retried.

use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName};
use http::request::Parts;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const GRPC_RESOURCE_EXHAUSTED: &str = "8";
const GRPC_UNAVAILABLE: &str = "14";

/// An attempt that has ended, for a [hook](super::RetryLayer::retry_if).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The request.
    pub request: &'a Parts,
    /// How it ended.
    pub result: AttemptResult<'a>,
    /// Which attempt it was, from 1.
    pub number: u32,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug)]
pub enum AttemptResult<'a> {
    /// With a response.
    Response {
        /// Its status.
        status: StatusCode,
        /// Its headers. A gRPC response without messages has its `grpc-status` here.
        headers: &'a HeaderMap,
    },
    /// With an error of the client. The request may have reached the server.
    Failed,
}

/// Whether to send a request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryChoice {
    /// Send it again, if attempts, budget and deadline allow it and the body can be sent again.
    Retry,
    /// Return what the attempt returned.
    Return,
}

pub(super) type RetryHook = Arc<dyn Fn(&Attempt<'_>) -> RetryChoice + Send + Sync>;

impl Attempt<'_> {
    /// The choice without a hook:
    ///
    /// | attempt | retried |
    /// |---|---|
    /// | 429, or gRPC status RESOURCE_EXHAUSTED | any method, because a limiter answered in place of the service |
    /// | 503, or gRPC status UNAVAILABLE | idempotent methods, and requests with an `Idempotency-Key` |
    /// | an error of the client, such as a lost connection | the same |
    /// | anything else | no |
    ///
    /// A gRPC status counts if the response has no messages, because only then it is in the headers.
    pub fn default_choice(&self) -> RetryChoice {
        let is_retried = match self.result {
            AttemptResult::Response { status: StatusCode::TOO_MANY_REQUESTS, .. } => true,
            AttemptResult::Response { status: StatusCode::SERVICE_UNAVAILABLE, .. } => self.is_idempotent(),
            AttemptResult::Response { headers, .. } => match grpc_status(headers) {
                Some(GRPC_RESOURCE_EXHAUSTED) => true,
                Some(GRPC_UNAVAILABLE) => self.is_idempotent(),
                _ => false,
            },
            AttemptResult::Failed => self.is_idempotent(),
        };
        if is_retried { RetryChoice::Retry } else { RetryChoice::Return }
    }

    /// Whether the request can be sent twice without doing its work twice.
    fn is_idempotent(&self) -> bool {
        self.request.method.is_idempotent() || self.request.headers.contains_key(IDEMPOTENCY_KEY)
    }
}

/// Whether the server answered that a limit is exceeded.
pub(super) fn is_limited(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || grpc_status(headers) == Some(GRPC_RESOURCE_EXHAUSTED)
}

fn grpc_status(headers: &HeaderMap) -> Option<&str> {
    headers.get(GRPC_STATUS).and_then(|status| status.to_str().ok())
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn only_what_is_safe_is_retried() {
        let choice = |method: &Method, status: u16, grpc: Option<&'static str>| {
            let (request, ()) = http::Request::builder().method(method).body(()).unwrap().into_parts();
            let headers: HeaderMap =
                grpc.map(|code| (GRPC_STATUS, code.parse().unwrap())).into_iter().collect();
            let result = match StatusCode::from_u16(status) {
                Ok(status) => AttemptResult::Response { status, headers: &headers },
                Err(_) => AttemptResult::Failed,
            };
            Attempt { request: &request, result, number: 1 }.default_choice() == RetryChoice::Retry
        };
        for (status, grpc, get, post) in [
            (200, None, false, false),
            (429, None, true, true),
            (503, None, true, false),
            (500, None, false, false),
            (404, None, false, false),
            // An error of the client.
            (0, None, true, false),
            (200, Some("0"), false, false),
            (200, Some("8"), true, true),
            (200, Some("14"), true, false),
            (200, Some("13"), false, false),
        ] {
            assert_eq!(choice(&Method::GET, status, grpc), get, "GET {status} {grpc:?}");
            assert_eq!(choice(&Method::PUT, status, grpc), get, "PUT {status} {grpc:?}");
            assert_eq!(choice(&Method::POST, status, grpc), post, "POST {status} {grpc:?}");
        }
    }

    #[test]
    fn an_idempotency_key_makes_a_post_safe() {
        let request = http::Request::post("/").header("idempotency-key", "7").body(()).unwrap();
        let (request, ()) = request.into_parts();
        let attempt = Attempt { request: &request, result: AttemptResult::Failed, number: 1 };
        assert_eq!(attempt.default_choice(), RetryChoice::Retry);
    }
}
