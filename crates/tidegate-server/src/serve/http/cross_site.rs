//! Requests that a page of another site has a browser send.
//!
//! Such a page cannot read what is answered, and cannot send what is said to be JSON. But it can have a form sent, as
//! `text/plain` or with no type at all, to a server that only the browser reaches: on this machine, or in a company's
//! network. Browsers say where such a request comes from, and no page can keep them from it. Programs do not say it.

use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::{Method, StatusCode};

use super::connection::HttpRequest;
use super::reply::{Problem, ErrorReply};

/// What a browser says of the page that asks, compared to who is asked.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request that may change something, if it is said to come from a page that is not this server's own.
pub(super) fn reject_cross_site(asked: &HttpRequest) -> Result<(), ErrorReply> {
    // These change nothing.
    if matches!(*asked.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let headers = asked.headers();
    let is_cross = headers.get(&SEC_FETCH_SITE).is_some_and(|site| site.as_bytes() == b"cross-site");
    match headers.get(ORIGIN) {
        None if !is_cross => Ok(()),
        Some(origin) if !is_cross && is_same_host(origin, own_host(asked)) => Ok(()),
        _ => Err(forbidden_reply()),
    }
}

/// The host that is asked, as the client calls it.
fn own_host(asked: &HttpRequest) -> Option<&[u8]> {
    let in_head = || asked.headers().get(HOST).map(HeaderValue::as_bytes);
    asked.uri().authority().map(|authority| authority.as_str().as_bytes()).or_else(in_head)
}

/// Whether an origin, `http://localhost:8080`, is that of this host. `null` is nobody's.
fn is_same_host(origin: &HeaderValue, host: Option<&[u8]>) -> bool {
    let (origin, host) = (origin.as_bytes(), host.unwrap_or_default());
    let https = origin.strip_prefix(b"https://").map(|rest| (rest, &b":443"[..]));
    let Some((authority, port)) = https.or_else(|| Some((origin.strip_prefix(b"http://")?, &b":80"[..])))
    else {
        return false;
    };
    // The port that goes without saying may be said.
    let bare = |host: &'_ [u8]| host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase();
    !authority.is_empty() && bare(authority) == bare(host)
}

#[cold]
fn forbidden_reply() -> ErrorReply {
    let message = "a page of another site has sent this (hint: ask from a program, which sends neither `origin` nor \
                   `sec-fetch-site`, or by way of your own server)";
    Problem::new(StatusCode::FORBIDDEN, message).into_error_reply()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        let is = |origin: &'static str, host: &str| {
            is_same_host(&HeaderValue::from_static(origin), Some(host.as_bytes()))
        };
        for (origin, host) in [
            ("http://localhost:8080", "localhost:8080"),
            ("http://LocalHost:8080", "localhost:8080"),
            ("http://limits.example.org", "limits.example.org"),
            ("http://limits.example.org", "limits.example.org:80"),
            ("http://limits.example.org:80", "limits.example.org"),
            ("https://limits.example.org", "limits.example.org:443"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            assert!(is(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://localhost:3000", "localhost:8080"),
            ("http://localhost", "localhost:8080"),
            ("http://evil.example", "limits.example.org"),
            ("http://evil.example/limits.example.org", "limits.example.org"),
            ("http://limits.example.org", "limits.example.org:443"),
            ("null", "limits.example.org"),
            ("null", ""),
            ("http://", ""),
            ("", ""),
            ("limits.example.org", "limits.example.org"),
        ] {
            assert!(!is(origin, host), "{origin} {host}");
        }
        assert!(!is_same_host(&HeaderValue::from_static("http://localhost"), None));
    }
}
