//! Replies to proxies. Proxies may pass them on to the client, so they say less than those to programs.

use std::fmt;

use hyper::StatusCode;
use hyper::header::HeaderName;
use tidegate::rules::AnswerKind;
use tidegate::{DecideOutput, EngineError};

use super::OriginalRequestError;
use crate::serve::http::connection::HttpRequest;
use crate::serve::http::reply::{self, Counted, ErrorReply, Problem, Reply};
use crate::serve::http::{answer_reply, error_reply, routes};
use crate::serve::{App, Protocol, rls, rounding};
use crate::text;

/// The status of a request that does not pass, whatever the status of the reply.
const STATUS_HEADER: HeaderName = HeaderName::from_static("x-tidegate-status");
/// For a leaky bucket: how long the upstream should hold the request.
const DELAY_HEADER: HeaderName = HeaderName::from_static(rls::DELAY_HEADER);
/// The parameter of the endpoint.
const PARAMETER: &str = "deny_status";
/// Maximum characters of a parameter shown in an error.
const PARAMETER_CHARS_MAX: usize = 40;

/// The status of replies for requests that do not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DenyStatus {
    /// What it is.
    #[default]
    Real,
    /// 401 or 403: nginx passes on no others.
    Always(StatusCode),
}

impl DenyStatus {
    /// As `?deny_status=403` says. Some proxies send the query of the client here, so there is no way to let a request
    /// pass.
    pub fn requested(request: &HttpRequest) -> Result<Self, ErrorReply> {
        match routes::parameter(request, PARAMETER) {
            None => Ok(Self::Real),
            Some("401") => Ok(Self::Always(StatusCode::UNAUTHORIZED)),
            Some("403") => Ok(Self::Always(StatusCode::FORBIDDEN)),
            Some(other) => {
                let other = text::printable(other.as_bytes(), PARAMETER_CHARS_MAX);
                let message = format!("`{PARAMETER}` cannot be `{other}` (hint: use 403 or 401)");
                Err(Problem::new(StatusCode::BAD_REQUEST, message).into_error_reply())
            }
        }
    }

    /// Names the real status of a reply that does not let the request pass, and changes its status.
    pub fn apply(self, app: &App, reply: &mut Reply) {
        let status = reply.status();
        if status.is_success() {
            return;
        }
        reply.headers_mut().insert(STATUS_HEADER, status.as_u16().into());
        if let Self::Always(status) = self {
            reply::count_rejection(app, Protocol::Http, reply);
            reply.extensions_mut().insert(Counted);
            *reply.status_mut() = status;
        }
    }
}

/// The reply to a decided request.
pub(crate) fn decided_reply(app: &App, output: Result<&DecideOutput, &EngineError>) -> Reply {
    let answer = match output {
        Ok(output) => &output.answer,
        Err(error) => return error_reply::engine_error_reply(error),
    };
    let mut text = String::new();
    let layout = answer_reply::write_client_answer(&mut text, app, answer);
    let mut reply = answer_reply::reply_of(text, &layout, answer);
    if answer.kind == AnswerKind::Delayed {
        reply.headers_mut().insert(DELAY_HEADER, rounding::ceil_millis(answer.delay).into());
    }
    reply
}

/// The reply if the server has no domain for this endpoint.
#[cold]
pub(crate) fn not_configured() -> ErrorReply {
    let message = "forward auth is off (hint: name the domain whose rules apply with --forward-auth-domain, see \
                   docs/proxies.md)";
    Problem::new(StatusCode::NOT_FOUND, message).into_error_reply()
}

#[cold]
pub(super) fn bad_request(error: &OriginalRequestError) -> ErrorReply {
    Problem::new(StatusCode::BAD_REQUEST, error.to_string()).into_error_reply()
}

#[cold]
pub(super) fn head_too_large(max: &fmt::Arguments<'_>) -> ErrorReply {
    let message = format!("the request has more than {max} (hint: that is the maximum)");
    Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message).into_error_reply()
}
