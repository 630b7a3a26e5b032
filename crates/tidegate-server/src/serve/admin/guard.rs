//! Who may ask.
//!
//! With a token, whoever shows it. Without one, whoever reaches the listener, which is on this machine then: and that is
//! any program on it, and not a page in a browser on it. What a page of another site sends is refused, as on the HTTP
//! listener, and it cannot read what is answered, unless its name is made to mean this machine while it is open; so
//! without a token, requests that call the server by a name are refused.

use std::net::{IpAddr, Ipv6Addr};

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, WWW_AUTHENTICATE};

use crate::serve::http::connection::HttpRequest;
use crate::serve::http::reply::{Problem, ErrorReply};
use crate::serve::http::routes;
use crate::serve::listening::Stream;
use crate::serve::settings::Secret;

/// Who may ask.
#[derive(Clone, Copy, Debug)]
pub(super) enum AdminAccess<'a> {
    /// Whoever shows it.
    Token(&'a Secret),
    /// Whoever does not call the server by a name.
    LocalHostOnly,
    /// Whoever comes.
    Open,
}

impl<'a> AdminAccess<'a> {
    /// For a connection by this stream.
    pub fn new(token: Option<&'a Secret>, stream: &Stream) -> Self {
        match (token, stream) {
            (Some(token), _) => Self::Token(token),
            // No browser comes by one.
            (None, Stream::Unix(_)) => Self::Open,
            (None, _) => Self::LocalHostOnly,
        }
    }

    /// Refuses who may not ask.
    pub fn check(self, asked: &HttpRequest) -> Result<(), ErrorReply> {
        match self {
            Self::Token(_) if is_health_probe(asked) => Ok(()),
            Self::Token(token) => match bearer_token(asked) {
                Some(shown) if token.matches(shown) => Ok(()),
                _ => Err(unauthorized_reply()),
            },
            Self::LocalHostOnly => match asked.headers().get(HOST) {
                Some(host) if !is_local_host(host.as_bytes()) => Err(misdirected_reply()),
                _ => Ok(()),
            },
            Self::Open => Ok(()),
        }
    }
}

/// Whether it only asks whether the server is there: those who watch over it have no token.
fn is_health_probe(asked: &HttpRequest) -> bool {
    let is_brief = routes::parameter(asked, "verbose").is_none();
    is_brief && matches!(asked.uri().path(), "/healthz" | "/readyz")
}

/// What stands after `Bearer`.
fn bearer_token(asked: &HttpRequest) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let said = asked.headers().get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = said.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

/// An address, or `localhost`, with or without a port.
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
    let message = "this is for operators (hint: authorization: Bearer, with the token of --admin-token)";
    let challenge = HeaderValue::from_static("Bearer realm=\"tidegate\"");
    Problem::new(StatusCode::UNAUTHORIZED, message).with_header(WWW_AUTHENTICATE, challenge).into_error_reply()
}

fn misdirected_reply() -> ErrorReply {
    let message = "the request calls the server by a name, as a page of another site would (hint: ask 127.0.0.1 or \
                   localhost, or set --admin-token and show it)";
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
