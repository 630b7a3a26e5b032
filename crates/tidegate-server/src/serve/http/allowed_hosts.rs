//! Which host names a request may use to reach a listener on this machine.
//!
//! A page of another site can make its own host name resolve to 127.0.0.1 while it is open (DNS rebinding). The browser
//! then treats the listener as a part of that site, so the page may send any request and read the response. Such a
//! request still has the page's name in `host`. Programs on this machine use an IP address or `localhost`.

use std::net::{IpAddr, Ipv6Addr};

use hyper::StatusCode;
use hyper::header::{HOST, HeaderValue};

use super::connection::HttpRequest;
use super::reply::{ErrorReply, Problem};
use crate::serve::listen::Address;

/// Which values of `host` a listener accepts. A request without `host` does not come from a browser and is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AllowedHosts {
    /// All values.
    #[default]
    Any,
    /// IP addresses, `localhost` and these names.
    Local {
        /// Further names, without a port.
        names: Box<[Box<str>]>,
    },
}

/// Whether the `host` of requests to a route is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostCheck {
    /// By [`AllowedHosts`].
    Required,
    /// Not checked: the response says nothing about the server's state beyond its status.
    None,
}

impl AllowedHosts {
    /// For a listener on this address. Only plain TCP on loopback needs a check: other machines reach the other
    /// addresses by names that the server does not know, browsers do not use Unix sockets, and a certificate is not
    /// valid for the name of another site.
    pub fn for_address(address: &Address, names: &[Box<str>]) -> Self {
        match address {
            Address::Tcp(_) if address.is_local() => Self::Local { names: names.into() },
            _ => Self::Any,
        }
    }

    /// Rejects a request with another host.
    pub(super) fn check(&self, request: &HttpRequest) -> Result<(), ErrorReply> {
        let host = request.headers().get(HOST).map(HeaderValue::as_bytes);
        if self.accept(host) { Ok(()) } else { Err(misdirected_reply()) }
    }

    /// Whether a request with this host is accepted.
    pub(super) fn accept(&self, host: Option<&[u8]>) -> bool {
        match (self, host) {
            (Self::Any, _) | (_, None) => true,
            (Self::Local { names }, Some(host)) => is_local_host(host) || is_listed(names, host),
        }
    }
}

/// Whether this is an IP address or `localhost`, with or without a port.
pub(super) fn is_local_host(host: &[u8]) -> bool {
    // Most programs on this machine use this address, and to parse an address takes longer.
    if let Some([] | [b':', ..]) = host.strip_prefix(b"127.0.0.1") {
        return true;
    }
    let name = host.split(|byte| *byte == b':').next().unwrap_or(host);
    if name.eq_ignore_ascii_case(b"localhost") {
        return true;
    }
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if let Some(inner) = host.strip_prefix('[') {
        let address = inner.split_once(']').map(|(address, _)| address);
        return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    let name = without_port(host);
    name.is_empty() || name.parse::<IpAddr>().is_ok()
}

fn is_listed(names: &[Box<str>], host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    names.iter().any(|name| name.eq_ignore_ascii_case(without_port(host)))
}

fn without_port(host: &str) -> &str {
    host.split(':').next().unwrap_or(host)
}

#[cold]
fn misdirected_reply() -> ErrorReply {
    let message = "the request names the server by a host name, as a page of another site would (hint: use 127.0.0.1 \
                   or localhost, or add the name to --http-hosts)";
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

    #[test]
    fn listed_names() {
        let names = ["limits.internal".into()];
        for host in ["limits.internal", "LIMITS.internal:8080"] {
            assert!(is_listed(&names, host.as_bytes()), "{host}");
        }
        for host in ["internal", "limits.internal.example.org", "x.limits.internal", ""] {
            assert!(!is_listed(&names, host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn only_plain_loopback_addresses_are_checked() {
        for (address, is_checked) in [
            ("127.0.0.1:8080", true),
            ("[::1]:8080", true),
            ("0.0.0.0:8080", false),
            ("10.1.2.3:8080", false),
            ("tls:127.0.0.1:8443", false),
            ("unix:/run/tidegate.sock", false),
        ] {
            let hosts = AllowedHosts::for_address(&address.parse().unwrap(), &[]);
            assert_eq!(hosts != AllowedHosts::Any, is_checked, "{address}");
        }
    }
}
