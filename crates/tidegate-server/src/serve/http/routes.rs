//! What there is to ask for, and what is said of anything else.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use tidegate_core::text::did_you_mean;

use super::connection::HttpRequest;
use super::cross_site;
use super::reply::{Problem, ErrorReply, Reply};
use crate::text;

/// How much of a path from outside a message shows.
const PATH_CHARS_MAX: usize = 100;
/// The most headers of a request.
pub(in crate::serve) const HEADERS_MAX: usize = 64;

/// One thing to ask for.
pub(in crate::serve) struct Route<E: 'static> {
    pub path: &'static str,
    /// As the header `allow` has it.
    pub methods: &'static str,
    pub endpoint: E,
}

/// Finds what is asked for, or says why there is nothing. `elsewhere` has paths that the other listener has.
pub(in crate::serve) fn find_route<E: Copy>(
    routes: &[Route<E>],
    asked: &HttpRequest,
    elsewhere: impl FnOnce(&str) -> Option<String>,
) -> Result<E, ErrorReply> {
    let path = asked.uri().path();
    if asked.headers().len() > HEADERS_MAX {
        let message = format!("the request has more than {HEADERS_MAX} headers (hint: that is the most)");
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message).closing().into_error_reply());
    }
    let Some(route) = routes.iter().find(|route| route.matches_path(path)) else {
        return Err(Box::new(not_found(routes, path, elsewhere)));
    };
    match route.allows(asked.method()) {
        Allowed::Yes => cross_site::reject_cross_site(asked).map(|()| route.endpoint),
        Allowed::No => Err(Problem::method_not_allowed(path, route.methods).into_error_reply()),
    }
}

enum Allowed {
    Yes,
    No,
}

impl<E> Route<E> {
    /// Whether this is its path; `{name}`, at the end, stands for one segment.
    pub fn matches_path(&self, path: &str) -> bool {
        let is_prefixed = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|name| !name.is_empty() && !name.contains('/'))
        };
        path == self.path || self.path.split_once('{').is_some_and(|(prefix, _)| is_prefixed(prefix))
    }

    fn allows(&self, method: &Method) -> Allowed {
        let is_one = |list: &str| list.split(", ").any(|one| one == method.as_str());
        // Most have one.
        if self.methods == method.as_str() || is_one(self.methods) { Allowed::Yes } else { Allowed::No }
    }
}

fn not_found<E>(routes: &[Route<E>], path: &str, elsewhere: impl FnOnce(&str) -> Option<String>) -> Reply {
    let paths: Vec<&str> = routes.iter().map(|route| route.path).collect();
    let hint = elsewhere(path)
        .or_else(|| did_you_mean(path, &paths))
        .unwrap_or_else(|| "`paths` has all that there is".to_owned());
    let path = text::printable(path.as_bytes(), PATH_CHARS_MAX);
    Problem::new(StatusCode::NOT_FOUND, format!("there is no {path} (hint: {hint})"))
        .with_list("paths", &paths)
        .into_reply()
}

/// What the body of a request has to be said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum JsonContentType {
    /// JSON, or nothing, or what `curl -d` says of whatever it sends.
    Lenient,
    /// JSON: a page of another site can have a browser send anything else.
    Required,
}

/// Refuses a body that is said to be something else than JSON.
pub(in crate::serve) fn check_content_type(asked: &HttpRequest, wanted: JsonContentType) -> Result<(), ErrorReply> {
    let said = asked.headers().get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let media_type = said.split(|byte| *byte == b';').next().unwrap_or(said).trim_ascii();
    let is = |one: &[u8]| media_type.eq_ignore_ascii_case(one);
    let message = match wanted {
        _ if is(b"application/json") || is(b"text/json") => return Ok(()),
        JsonContentType::Lenient if is(b"") || is(b"application/x-www-form-urlencoded") => return Ok(()),
        JsonContentType::Lenient => {
            "the body is said to be something else than JSON (hint: content-type: application/json)"
        }
        JsonContentType::Required => {
            "the body has to be said to be JSON, so that no page of another site can have a browser send it (hint: \
             content-type: application/json)"
        }
    };
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_error_reply())
}

/// The value of a parameter in the query, as it stands there; empty if it has none.
pub(in crate::serve) fn parameter<'a>(asked: &'a HttpRequest, name: &str) -> Option<&'a str> {
    let pairs = asked.uri().query().unwrap_or_default().split('&');
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .find(|(one, _)| *one == name)
        .map(|(_, value)| value)
}

/// The same as the text that it stands for. Forms write spaces as `+`, and so do many clients.
pub(in crate::serve) fn text_parameter(asked: &HttpRequest, name: &str) -> Option<String> {
    parameter(asked, name).map(|value| percent_decode(&value.replace('+', " ")))
}

/// Text of a path or a query, with what stands there as `%2F` put back.
pub(in crate::serve) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let digit = |place: usize| more.get(place).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
