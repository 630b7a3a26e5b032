//! What the client requested, in headers that the proxy adds.

use std::fmt;

use tidegate::identity::{Headers, PathError};

use crate::serve::settings::ForwardAuthSource;

/// The client's request. What is `None` was not sent, and the source does not require it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OriginalRequest<'h> {
    pub method: Option<&'h str>,
    /// A path with its query, as the client wrote it.
    pub target: Option<&'h [u8]>,
    pub host: Option<&'h [u8]>,
}

/// Why the client's request is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginalRequestError {
    /// The proxy did not send a header that the source requires.
    Missing {
        /// Its name.
        header: &'static str,
        /// The source.
        source: ForwardAuthSource,
    },
    /// A header has several lines, one of which may be the client's.
    Repeated {
        /// Its name.
        header: &'static str,
    },
    /// The method is not text.
    Method,
    /// The path has no single meaning.
    Path(PathError),
}

/// The headers of one kind of proxy.
struct HeaderNames {
    method: &'static str,
    uri: &'static str,
    host: &'static str,
}

const X_FORWARDED: HeaderNames =
    HeaderNames { method: "x-forwarded-method", uri: "x-forwarded-uri", host: "x-forwarded-host" };
const X_ORIGINAL: HeaderNames =
    HeaderNames { method: "x-original-method", uri: "x-original-uri", host: "x-original-host" };
/// nginx sends the client's `Host` as such.
const HOST: &str = "host";

impl<'h> OriginalRequest<'h> {
    /// Reads the headers of this source.
    pub fn read(
        source: ForwardAuthSource,
        headers: &'h (impl Headers + ?Sized),
    ) -> Result<Self, OriginalRequestError> {
        let required =
            |header| only(headers, header)?.ok_or(OriginalRequestError::Missing { header, source });
        let (method, target, host) = match source {
            ForwardAuthSource::Nginx => {
                (Some(required(X_ORIGINAL.method)?), Some(required(X_ORIGINAL.uri)?), only(headers, HOST)?)
            }
            ForwardAuthSource::Traefik | ForwardAuthSource::Caddy | ForwardAuthSource::Haproxy => (
                Some(required(X_FORWARDED.method)?),
                Some(required(X_FORWARDED.uri)?),
                Some(required(X_FORWARDED.host)?),
            ),
            ForwardAuthSource::Any => {
                let either = |forwarded, original| match only(headers, forwarded)? {
                    Some(value) => Ok(Some(value)),
                    None => only(headers, original),
                };
                (
                    either(X_FORWARDED.method, X_ORIGINAL.method)?,
                    either(X_FORWARDED.uri, X_ORIGINAL.uri)?,
                    either(X_FORWARDED.host, X_ORIGINAL.host)?,
                )
            }
        };
        let method = method.map(str::from_utf8).transpose().map_err(|_| OriginalRequestError::Method)?;
        Ok(Self { method, target, host })
    }
}

/// The value of a header, which may have only one line.
fn only<'h>(
    headers: &'h (impl Headers + ?Sized),
    header: &'static str,
) -> Result<Option<&'h [u8]>, OriginalRequestError> {
    let mut values = headers.values(header);
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(OriginalRequestError::Repeated { header }),
    }
}

impl fmt::Display for OriginalRequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { header, source } => write!(
                f,
                "the proxy did not send the header {header}, which --forward-auth-source {source} needs (hint: \
                 docs/proxies.md has the settings of the proxy)"
            ),
            Self::Repeated { header } => write!(
                f,
                "the header {header} appears twice (hint: let the proxy replace the header of the client, not add a \
                 second one)"
            ),
            Self::Method => f.write_str("the method of the request is not text (hint: is it the client's?)"),
            Self::Path(error) => write!(
                f,
                "{error} (hint: send another spelling; upstreams would read this one in different ways)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARDED: [(&str, &str); 3] =
        [("x-forwarded-method", "PUT"), ("x-forwarded-uri", "/a?b"), ("x-forwarded-host", "h")];
    const ORIGINAL: [(&str, &str); 3] =
        [("x-original-method", "GET"), ("x-original-uri", "/login"), ("host", "shop.example")];

    #[test]
    fn each_source_reads_its_own_headers() {
        let both = [&FORWARDED[..], &ORIGINAL].concat();
        let forwarded = OriginalRequest { method: Some("PUT"), target: Some(b"/a?b"), host: Some(b"h") };
        let original =
            OriginalRequest { method: Some("GET"), target: Some(b"/login"), host: Some(b"shop.example") };
        assert_eq!(OriginalRequest::read(ForwardAuthSource::Nginx, &both[..]), Ok(original));
        for source in [
            ForwardAuthSource::Traefik,
            ForwardAuthSource::Caddy,
            ForwardAuthSource::Haproxy,
            ForwardAuthSource::Any,
        ] {
            assert_eq!(OriginalRequest::read(source, &both[..]), Ok(forwarded), "{source}");
        }
        let without_host = OriginalRequest { host: None, ..original };
        assert_eq!(OriginalRequest::read(ForwardAuthSource::Any, &ORIGINAL), Ok(without_host));
        let nothing = OriginalRequest { method: None, target: None, host: None };
        assert_eq!(OriginalRequest::read(ForwardAuthSource::Any, &[] as &[(&str, &str)]), Ok(nothing));
    }

    #[test]
    fn what_is_missing_or_repeated_is_an_error() {
        for (source, headers) in [
            (ForwardAuthSource::Nginx, &ORIGINAL[..2]),
            (ForwardAuthSource::Traefik, &FORWARDED),
            (ForwardAuthSource::Caddy, &FORWARDED),
            (ForwardAuthSource::Haproxy, &FORWARDED),
        ] {
            for missing in 0..headers.len() {
                let mut headers = headers.to_vec();
                let (header, _) = headers.remove(missing);
                assert_eq!(
                    OriginalRequest::read(source, &headers[..]),
                    Err(OriginalRequestError::Missing { header, source })
                );
            }
        }
        for source in [ForwardAuthSource::Caddy, ForwardAuthSource::Any] {
            let twice = [&FORWARDED[..], &[("x-forwarded-uri", "/other")]].concat();
            let repeated = OriginalRequestError::Repeated { header: "x-forwarded-uri" };
            assert_eq!(OriginalRequest::read(source, &twice[..]), Err(repeated));
        }
    }
}
