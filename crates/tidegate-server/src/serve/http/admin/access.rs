//! Which requests may use the admin listener.
//!
//! With a token: requests that carry it. Without a token: every program that reaches the listener, which is then on
//! this machine only, but no page in a browser. Requests from pages of other sites are rejected, as on the HTTP
//! listener, and so are requests whose `host` is a name (see `allowed_hosts.rs`).

use hyper::StatusCode;
use hyper::header::HOST;

use crate::serve::http::allowed_hosts::is_local_host;
use crate::serve::http::bearer_token::check_token;
use crate::serve::http::connection::HttpRequest;
use crate::serve::http::reply::{ErrorReply, Problem};
use crate::serve::http::routes;
use crate::serve::listen::Stream;
use crate::serve::settings::{MetricsAccess, Secret};
use crate::serve::{App, Protocol};

/// Which requests of a connection are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum AdminAccess<'a> {
    /// Requests with this token, and the public ones.
    Token { token: &'a Secret, metrics: MetricsAccess },
    /// Requests whose `host` is an IP address or `localhost`.
    LocalHostOnly,
    /// All requests.
    Open,
}

impl<'a> AdminAccess<'a> {
    /// For a connection over this stream.
    pub fn new(token: Option<&'a Secret>, metrics: MetricsAccess, stream: &Stream) -> Self {
        match (token, stream) {
            (Some(token), _) => Self::Token { token, metrics },
            // Browsers do not use Unix sockets.
            (None, Stream::Unix(_)) => Self::Open,
            (None, _) => Self::LocalHostOnly,
        }
    }

    /// Rejects requests without access.
    pub async fn check(self, request: &HttpRequest, app: &App) -> Result<(), ErrorReply> {
        match self {
            Self::Token { metrics, .. } if is_public(request, metrics) => Ok(()),
            Self::Token { token, .. } => check_token(request, token, app, Protocol::Admin).await,
            Self::LocalHostOnly => match request.headers().get(HOST) {
                Some(host) if !is_local_host(host.as_bytes()) => Err(misdirected_reply()),
                _ => Ok(()),
            },
            Self::Open => Ok(()),
        }
    }
}

/// Whether this is a health probe without details, which has no token, or metrics that a setting opens.
fn is_public(request: &HttpRequest, metrics: MetricsAccess) -> bool {
    match request.uri().path() {
        "/healthz" | "/readyz" => routes::parameter(request, "verbose").is_none(),
        "/metrics" => metrics == MetricsAccess::Open,
        _ => false,
    }
}

#[cold]
fn misdirected_reply() -> ErrorReply {
    let message = "the request names the server by a host name, as a page of another site would (hint: use 127.0.0.1 \
                   or localhost, or set --admin-token and send it)";
    Problem::new(StatusCode::MISDIRECTED_REQUEST, message).into_error_reply()
}
