//! Rejects requests that a page of another site makes a browser send.
//!
//! Such a page cannot read the response, and cannot send a JSON content type. But it can send a form, as `text/plain`
//! or without a type, to a server that only the browser can reach: on the same machine or in a company's network.
//! Browsers mark such requests in headers that a page cannot change. Programs do not send these headers.
//!
//! A GET, as for an image, has no `Origin`. Browsers send `Sec-Fetch-Site` only to HTTPS and loopback addresses, and a page
//! can leave out `Referer`. So a GET to another address over plain HTTP may not be marked at all (docs/http.md says so).

use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN, REFERER};
use hyper::{Method, StatusCode};

use super::connection::HttpRequest;
use super::reply::{ErrorReply, Problem};

/// Set by browsers: how the page's site relates to the server's.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Which requests to a route are rejected if a page of another site sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrossSiteCheck {
    /// All except GET and HEAD, which change nothing.
    ExceptReads,
    /// All: a GET charges too.
    All,
    /// None: a proxy sends the request with the headers of a browser's request.
    None,
}

/// Rejects a request that may change something, if its headers say that it comes from a page of another site.
pub(super) fn reject_cross_site(request: &HttpRequest, check: CrossSiteCheck) -> Result<(), ErrorReply> {
    let is_read = || matches!(*request.method(), Method::GET | Method::HEAD);
    if check == CrossSiteCheck::None || check == CrossSiteCheck::ExceptReads && is_read() {
        return Ok(());
    }
    let headers = request.headers();
    // Another port, or a subdomain, is the same site, but another page.
    let is_own_page = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    let is_own_host = |url: &HeaderValue| is_same_host(url, own_host(request));
    let is_accepted = headers.get(&SEC_FETCH_SITE).is_none_or(is_own_page)
        && headers.get(ORIGIN).is_none_or(is_own_host)
        && headers.get(REFERER).is_none_or(is_own_host);
    if is_accepted { Ok(()) } else { Err(forbidden_reply()) }
}

/// The server's host, as the client names it.
fn own_host(request: &HttpRequest) -> Option<&[u8]> {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    authority.or_else(|| request.headers().get(HOST).map(HeaderValue::as_bytes))
}

/// Whether an origin such as `http://localhost:8080`, or the URL of a page, has this host. `null` never matches.
fn is_same_host(url: &HeaderValue, host: Option<&[u8]>) -> bool {
    let (origin, host) = (url_origin(url.as_bytes()), host.unwrap_or_default());
    let https = origin.strip_prefix(b"https://").map(|rest| (rest, &b":443"[..]));
    let Some((authority, port)) = https.or_else(|| Some((origin.strip_prefix(b"http://")?, &b":80"[..])))
    else {
        return false;
    };
    // The default port may be present or absent.
    let without_port = |host: &'_ [u8]| host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase();
    !authority.is_empty() && without_port(authority) == without_port(host)
}

/// The URL without its path and query.
fn url_origin(url: &[u8]) -> &[u8] {
    let authority = url.windows(3).position(|bytes| bytes == b"://").map_or(0, |scheme| scheme + 3);
    let path = url[authority..].iter().position(|byte| b"/?#\\".contains(byte));
    path.map_or(url, |path| &url[..authority + path])
}

#[cold]
fn forbidden_reply() -> ErrorReply {
    let message = "a page of another site sent this request (hint: send it from a program, without `origin`, `referer` and \
                   `sec-fetch-site`, or through your own server)";
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
            ("http://localhost:8080/page?a=http://evil.example/", "localhost:8080"),
            ("https://limits.example.org/", "limits.example.org"),
        ] {
            assert!(is(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://localhost:3000", "localhost:8080"),
            ("http://localhost", "localhost:8080"),
            ("http://evil.example", "limits.example.org"),
            ("http://evil.example/limits.example.org", "limits.example.org"),
            ("http://evil.example?limits.example.org", "limits.example.org"),
            ("http://limits.example.org@evil.example/", "limits.example.org"),
            ("http://localhost:3000/page", "localhost:8080"),
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
