//! Which requests may use the admin listener.
//!
//! With a token: requests that carry it. Without a token: every program that reaches the listener, which is then on
//! this machine only, but no page in a browser. Requests from pages of other sites are rejected, as on the HTTP
//! listener, and such a page cannot read responses, unless its host name is made to resolve to this machine while it is
//! open (DNS rebinding). So without a token, requests whose `host` is a name are rejected.

use std::net::{IpAddr, Ipv6Addr};

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, WWW_AUTHENTICATE};

use crate::serve::http::connection::HttpRequest;
use crate::serve::http::reply::{ErrorReply, Problem};
use crate::serve::http::routes;
use crate::serve::listen::Stream;
use crate::serve::settings::Secret;

/// Which requests of a connection are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum AdminAccess<'a> {
    /// Requests with this token.
    Token(&'a Secret),
    /// Requests whose `host` is an IP address or `localhost`.
    LocalHostOnly,
    /// All requests.
    Open,
}

impl<'a> AdminAccess<'a> {
    /// For a connection over this stream.
    pub fn new(token: Option<&'a Secret>, stream: &Stream) -> Self {
        match (token, stream) {
            (Some(token), _) => Self::Token(token),
            // Browsers do not use Unix sockets.
            (None, Stream::Unix(_)) => Self::Open,
            (None, _) => Self::LocalHostOnly,
        }
    }

    /// Rejects requests without access.
    pub fn check(self, request: &HttpRequest) -> Result<(), ErrorReply> {
        match self {
            Self::Token(_) if is_health_probe(request) => Ok(()),
            Self::Token(token) => match bearer_token(request) {
                Some(sent) if token.matches(sent) => Ok(()),
                _ => Err(unauthorized_reply()),
            },
            Self::LocalHostOnly => match request.headers().get(HOST) {
                Some(host) if !is_local_host(host.as_bytes()) => Err(misdirected_reply()),
                _ => Ok(()),
            },
            Self::Open => Ok(()),
        }
    }
}

/// Whether this is a health probe without details. Probes have no token.
fn is_health_probe(request: &HttpRequest) -> bool {
    let is_brief = routes::parameter(request, "verbose").is_none();
    is_brief && matches!(request.uri().path(), "/healthz" | "/readyz")
}

/// The token after `Bearer`.
fn bearer_token(request: &HttpRequest) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let header = request.headers().get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// Whether this is an IP address or `localhost`, with or without a port.
fn is_local_host(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Some(inner) = host.strip_prefix('[') {
        let address = inner.split_once(']').map(|(address, _)| address);
        return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    let name = host.split(':').next().unwrap_or(host);
    name.eq_ignore_ascii_case("localhost") || name.is_empty() || name.parse::<IpAddr>().is_ok()
}

fn unauthorized_reply() -> ErrorReply {
    let message = "the token is missing or wrong (hint: authorization: Bearer, with the --admin-token)";
    let challenge = HeaderValue::from_static("Bearer realm=\"tidegate\"");
    Problem::new(StatusCode::UNAUTHORIZED, message)
        .with_header(WWW_AUTHENTICATE, challenge)
        .into_error_reply()
}

fn misdirected_reply() -> ErrorReply {
    let message = "the request names the server by a host name, as a page of another site would (hint: use 127.0.0.1 \
                   or localhost, or set --admin-token and send it)";
    Problem::new(StatusCode::MISDIRECTED_REQUEST, message).into_error_reply()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for host in [
            "127.0.0.1:9090",
            "127.0.0.1",
            "localhost",
            "LocalHost:80",
            "[::1]:9090",
            "[::1]",
            "10.1.2.3:1",
            "",
        ] {
            assert!(is_local_host(host.as_bytes()), "{host}");
        }
        for host in
            ["example.org", "localhost.example.org:9090", "127.0.0.1.example.org", "[evil]", "[::1", "a:b:c"]
        {
            assert!(!is_local_host(host.as_bytes()), "{host}");
        }
        assert!(!is_local_host(b"\xff"));
    }
}
