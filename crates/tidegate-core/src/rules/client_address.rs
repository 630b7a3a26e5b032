//! Reads the address of a client, as proxies and services write it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The address that the value of `ip` names. `None` if it names no address.
///
/// Spaces around the address, brackets, a port and a zone (`fe80::1%eth0`) are dropped: they do not change which client
/// it is, and a client could choose its port. IPv4-mapped IPv6 becomes IPv4.
pub fn parse_client_address(text: &str) -> Option<IpAddr> {
    let address = match text.parse::<IpAddr>() {
        Ok(address) => Some(address),
        Err(_) => parse_decorated(text.trim_ascii()),
    };
    address.map(|address| address.to_canonical())
}

#[cold]
fn parse_decorated(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(with_port) = text.parse::<SocketAddr>() {
        return Some(with_port.ip());
    }
    let (inner, port) = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => (text, ""),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return None;
    }
    let address = inner.split_once('%').map_or(inner, |(address, _zone)| address);
    address.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decorations_are_dropped() {
        for (text, expected) in [
            ("1.2.3.4", "1.2.3.4"),
            ("1.2.3.4 ", "1.2.3.4"),
            ("\t1.2.3.4", "1.2.3.4"),
            ("1.2.3.4:80", "1.2.3.4"),
            (" 1.2.3.4:65535 ", "1.2.3.4"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%eth0]:80", "fe80::1"),
        ] {
            assert_eq!(parse_client_address(text), Some(expected.parse().unwrap()), "{text:?}");
        }
    }

    #[test]
    fn other_text_is_no_address() {
        for text in [
            "",
            " ",
            "unknown",
            "1.2.3",
            "1.2.3.4:",
            "1.2.3.4:x",
            "1.2.3.4:65536",
            "1.2.3.4:+1",
            "1.2.3.4, 5.6.7.8",
            "1.2.3.4/32",
            "01.2.3.4",
            "[1.2.3.4]:80",
            "[2001:db8::1",
            "[2001:db8::1]x",
            "[2001:db8::1]:+1",
            "example.org",
        ] {
            assert_eq!(parse_client_address(text), None, "{text:?}");
        }
    }
}
