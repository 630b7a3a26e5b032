//! Finds endpoints, and replies to unknown paths, methods and content types.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use tidegate_core::text::did_you_mean;

use super::allowed_hosts::{AllowedHosts, HostCheck};
use super::connection::HttpRequest;
use super::cross_site::{self, CrossSiteCheck};
use super::reply::{ErrorReply, Problem, Reply};
use crate::text;

/// Maximum characters of a path shown in an error.
const PATH_CHARS_MAX: usize = 100;
/// Maximum number of headers of a request.
pub(super) const HEADERS_MAX: usize = 64;

/// A path with its methods and endpoint.
pub(super) struct Route<E: 'static> {
    pub path: &'static str,
    /// As in the header `allow`.
    pub methods: &'static str,
    pub endpoint: E,
    pub host: HostCheck,
    pub cross_site: CrossSiteCheck,
    /// Maximum number of headers of a request.
    pub headers_max: usize,
}

/// All methods, in [`Route::methods`].
pub(super) const ANY_METHOD: &str = "*";

/// Finds the endpoint of a request, or the reply that rejects it. `elsewhere` returns a hint for paths of the other
/// listener.
pub(super) fn find_route<E: Copy>(
    routes: &[Route<E>],
    request: &HttpRequest,
    hosts: &AllowedHosts,
    elsewhere: impl FnOnce(&str) -> Option<String>,
) -> Result<E, ErrorReply> {
    let path = request.uri().path();
    let route = routes.iter().find(|route| route.matches_path(path));
    let headers_max = route.map_or(HEADERS_MAX, |route| route.headers_max);
    if request.headers().len() > headers_max {
        let message = format!("the request has more than {headers_max} headers (hint: that is the maximum)");
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message)
            .closing()
            .into_error_reply());
    }
    let Some(route) = route else {
        return Err(Box::new(not_found(routes, path, elsewhere)));
    };
    if route.host == HostCheck::Required {
        hosts.check(request)?;
    }
    match route.allows(request.method()) {
        Allowed::Yes => cross_site::reject_cross_site(request, route.cross_site).map(|()| route.endpoint),
        Allowed::No => Err(Problem::method_not_allowed(path, route.methods).into_error_reply()),
    }
}

enum Allowed {
    Yes,
    No,
}

impl<E> Route<E> {
    /// Whether this is its path. `{name}` at the end matches one segment.
    pub fn matches_path(&self, path: &str) -> bool {
        let is_prefixed = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|name| !name.is_empty() && !name.contains('/'))
        };
        path == self.path || self.path.split_once('{').is_some_and(|(prefix, _)| is_prefixed(prefix))
    }

    fn allows(&self, method: &Method) -> Allowed {
        let is_listed = || self.methods.split(", ").any(|listed| listed == method.as_str());
        // Most routes have one method.
        if self.methods == method.as_str() || self.methods == ANY_METHOD || is_listed() {
            Allowed::Yes
        } else {
            Allowed::No
        }
    }
}

fn not_found<E>(routes: &[Route<E>], path: &str, elsewhere: impl FnOnce(&str) -> Option<String>) -> Reply {
    let paths: Vec<&str> = routes.iter().map(|route| route.path).collect();
    let hint = elsewhere(path)
        .or_else(|| did_you_mean(path, &paths))
        .unwrap_or_else(|| "`paths` lists all paths".to_owned());
    let path = text::printable(path.as_bytes(), PATH_CHARS_MAX);
    Problem::new(StatusCode::NOT_FOUND, format!("there is no {path} (hint: {hint})"))
        .with_list("paths", &paths)
        .into_reply()
}

/// Which content types a body may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonContentType {
    /// JSON, none, or the defaults of `curl -d` and of `fetch` with a text. A page of another site can send these, but
    /// its browser says so, and `cross_site.rs` rejects such requests.
    Lenient,
    /// Only JSON: a page of another site can make a browser send anything else.
    Required,
    /// JSON, or a JSON document in each line. A page of another site can send neither.
    JsonLines,
}

/// Rejects a body that is not declared as JSON.
pub(super) fn check_content_type(request: &HttpRequest, required: JsonContentType) -> Result<(), ErrorReply> {
    let content_type = request.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    match content_type_error(content_type, required) {
        None => Ok(()),
        Some(message) => Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_error_reply()),
    }
}

/// Why a body of this content type is rejected; `None` if it is not.
pub(super) fn content_type_error(content_type: &[u8], required: JsonContentType) -> Option<&'static str> {
    // Nearly all requests have exactly this.
    if content_type == b"application/json" {
        return None;
    }
    let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or(content_type).trim_ascii();
    let is = |name: &[u8]| media_type.eq_ignore_ascii_case(name);
    Some(match required {
        _ if is(b"application/json") || is(b"text/json") => return None,
        JsonContentType::JsonLines if is(b"application/x-ndjson") || is(b"application/jsonl") => {
            return None;
        }
        JsonContentType::JsonLines => {
            "the content type must be JSON lines (hint: send the header `content-type: application/x-ndjson`)"
        }
        JsonContentType::Lenient
            if is(b"") || is(b"application/x-www-form-urlencoded") || is(b"text/plain") =>
        {
            return None;
        }
        JsonContentType::Lenient => {
            "the content type of the request body is not JSON (hint: send the header `content-type: application/json`)"
        }
        JsonContentType::Required => {
            "the content type must be JSON, so that pages of other sites cannot make a browser send it (hint: send \
             the header `content-type: application/json`, which `curl --json` does)"
        }
    })
}

/// The raw value of a query parameter; empty if it has none.
pub(super) fn parameter<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    let pairs = request.uri().query().unwrap_or_default().split('&');
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// The decoded value of a query parameter. Forms, and many clients, write spaces as `+`.
pub(super) fn text_parameter(request: &HttpRequest, name: &str) -> Option<String> {
    parameter(request, name).map(|value| percent_decode(&value.replace('+', " ")))
}

/// Decodes percent-encoding, such as `%2F`, in a path or a query.
pub(super) fn percent_decode(text: &str) -> String {
    String::from_utf8_lossy(&text::percent_decode(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_decoded() {
        let cases = [
            ("a", "a"),
            ("a%20b", "a b"),
            ("%c3%A9", "é"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            ("%ff", "\u{fffd}"),
        ];
        for (encoded, text) in cases {
            assert_eq!(percent_decode(encoded), text);
        }
    }
}
