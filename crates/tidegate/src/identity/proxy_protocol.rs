//! The header of PROXY protocol, versions 1 and 2: a proxy sends it before anything else, with the client's address.
//!
//! A listener that expects the header must refuse connections without it, and only trusted proxies may connect. A listener
//! that does not expect it must not look for it: any client could send one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The most bytes of a header. Version 1 has at most 107; version 2 may carry other data, such as certificates.
pub const PROXY_HEADER_BYTES_MAX: usize = 4 * 1024;
/// With the line end.
const V1_BYTES_MAX: usize = 107;
const V1_START: &[u8] = b"PROXY ";
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, command, family, length.
const V2_HEAD_BYTES: usize = 16;

/// A whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The bytes of the header. What follows is for the application.
    pub length_bytes: usize,
    /// The address of the client; IPv4-mapped IPv6 becomes IPv4. `None` if the proxy speaks for itself (`LOCAL`, such as a
    /// health check), does not know the address (`UNKNOWN`), or the client came over a Unix socket: the address of the
    /// connection counts then.
    pub client: Option<IpAddr>,
}

/// The bytes are not a header. Close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyHeaderError {
    /// The first bytes are those of something else.
    Missing,
    /// It begins like a header, but is not one.
    Malformed,
    /// It has more than [`PROXY_HEADER_BYTES_MAX`] bytes.
    TooLong,
}

impl ProxyHeader {
    /// Reads a header at the start of a connection. `None` if more bytes are needed; at most
    /// [`PROXY_HEADER_BYTES_MAX`] ever are.
    ///
    /// ```
    /// use tidegate::identity::{ProxyHeader, ProxyHeaderError};
    ///
    /// let bytes = b"PROXY TCP4 198.51.100.7 10.0.0.1 50000 443\r\nGET / HTTP/1.1\r\n";
    /// let header = ProxyHeader::read(bytes)?.unwrap();
    /// assert_eq!(header.client, Some([198, 51, 100, 7].into()));
    /// assert!(bytes[header.length_bytes..].starts_with(b"GET"));
    ///
    /// assert_eq!(ProxyHeader::read(b"PRO"), Ok(None));
    /// assert_eq!(ProxyHeader::read(b"GET"), Err(ProxyHeaderError::Missing));
    /// # Ok::<(), ProxyHeaderError>(())
    /// ```
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, ProxyHeaderError> {
        let begins_like = |start: &[u8]| bytes.iter().zip(start).all(|(byte, expected)| byte == expected);
        if begins_like(V1_START) {
            read_v1(bytes)
        } else if begins_like(V2_SIGNATURE) {
            read_v2(bytes)
        } else {
            Err(ProxyHeaderError::Missing)
        }
    }
}

fn read_v1(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let bounded = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = bounded.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < V1_BYTES_MAX { Ok(None) } else { Err(ProxyHeaderError::Malformed) };
    };
    let line = str::from_utf8(&bytes[..end]).map_err(|_| ProxyHeaderError::Malformed)?;
    let words: Vec<&str> = line.split(' ').collect();
    let client = match words[..] {
        [_, "UNKNOWN", ..] => None,
        [_, "TCP4", client, server, client_port, server_port] => {
            let (client, _) = (v1_field::<Ipv4Addr>(client)?, v1_field::<Ipv4Addr>(server)?);
            let _ = (v1_field::<u16>(client_port)?, v1_field::<u16>(server_port)?);
            Some(IpAddr::V4(client))
        }
        [_, "TCP6", client, server, client_port, server_port] => {
            let (client, _) = (v1_field::<Ipv6Addr>(client)?, v1_field::<Ipv6Addr>(server)?);
            let _ = (v1_field::<u16>(client_port)?, v1_field::<u16>(server_port)?);
            Some(IpAddr::V6(client).to_canonical())
        }
        _ => return Err(ProxyHeaderError::Malformed),
    };
    Ok(Some(ProxyHeader { length_bytes: end + 2, client }))
}

fn v1_field<T: FromStr>(text: &str) -> Result<T, ProxyHeaderError> {
    // Numbers may be parsed with a plus sign, which the protocol does not have.
    let field = if text.starts_with('+') { None } else { text.parse().ok() };
    field.ok_or(ProxyHeaderError::Malformed)
}

fn read_v2(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let Some(head) = bytes.get(V2_SIGNATURE.len()..V2_HEAD_BYTES) else { return Ok(None) };
    let &[version_and_command, family, length_high, length_low] = head else { return Ok(None) };
    let length_bytes = V2_HEAD_BYTES + usize::from(u16::from_be_bytes([length_high, length_low]));
    if version_and_command >> 4 != 2 || version_and_command & 0xf > 1 {
        return Err(ProxyHeaderError::Malformed);
    }
    if length_bytes > PROXY_HEADER_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    let Some(body) = bytes.get(V2_HEAD_BYTES..length_bytes) else { return Ok(None) };
    let is_local = version_and_command & 0xf == 0;
    // Client and server address, then the ports.
    let client = match family >> 4 {
        _ if is_local => None,
        1 => Some(v2_address::<4>(body)?.into()),
        2 => Some(IpAddr::from(v2_address::<16>(body)?).to_canonical()),
        // Unspecified, or a Unix socket.
        0 | 3 => None,
        _ => return Err(ProxyHeaderError::Malformed),
    };
    Ok(Some(ProxyHeader { length_bytes, client }))
}

/// The first of two addresses of this size, which two ports follow.
fn v2_address<const BYTES: usize>(body: &[u8]) -> Result<[u8; BYTES], ProxyHeaderError> {
    let is_whole = body.len() >= 2 * BYTES + 4;
    body.first_chunk().copied().filter(|_| is_whole).ok_or(ProxyHeaderError::Malformed)
}

impl fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the connection does not begin with a header of PROXY protocol"),
            Self::Malformed => f.write_str("the header of PROXY protocol is malformed"),
            Self::TooLong => {
                write!(f, "the header of PROXY protocol has more than {PROXY_HEADER_BYTES_MAX} bytes")
            }
        }
    }
}

impl std::error::Error for ProxyHeaderError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [V2_SIGNATURE, &[0x20 | command, family], &length, body].concat()
    }

    #[test]
    fn headers_are_read_byte_by_byte() {
        let v4_body = [198, 51, 100, 7, 10, 0, 0, 1, 0xc3, 0x50, 1, 0xbb];
        let v6 = "2001:db8::7".parse::<Ipv6Addr>().unwrap().octets();
        let v6_body = [&v6[..], &[0; 16], &[0xc3, 0x50, 1, 0xbb], b"\x04\0\x03tlv"].concat();
        let mapped = "::ffff:198.51.100.7".parse::<Ipv6Addr>().unwrap().octets();
        let mapped_body = [&mapped[..], &[0; 20]].concat();
        let v1 = |text: &str| text.as_bytes().to_vec();
        for (header, client) in [
            (v1("PROXY TCP4 198.51.100.7 10.0.0.1 50000 443\r\n"), Some("198.51.100.7")),
            (v1("PROXY TCP6 2001:db8::7 ::1 50000 443\r\n"), Some("2001:db8::7")),
            (v1("PROXY TCP6 ::ffff:198.51.100.7 ::1 50000 443\r\n"), Some("198.51.100.7")),
            (v1("PROXY UNKNOWN\r\n"), None),
            (v1("PROXY UNKNOWN a b c\r\n"), None),
            (v2(1, 0x11, &v4_body), Some("198.51.100.7")),
            (v2(1, 0x12, &v4_body), Some("198.51.100.7")),
            (v2(1, 0x21, &v6_body), Some("2001:db8::7")),
            (v2(1, 0x21, &mapped_body), Some("198.51.100.7")),
            (v2(0, 0x11, &v4_body), None),
            (v2(0, 0, &[]), None),
            (v2(1, 0, b"anything"), None),
            (v2(1, 0x31, &[0; 216]), None),
        ] {
            for length in 0..header.len() {
                assert_eq!(ProxyHeader::read(&header[..length]), Ok(None), "{length} of {header:?}");
            }
            let client = client.map(|client| client.parse().unwrap());
            let expected = Ok(Some(ProxyHeader { length_bytes: header.len(), client }));
            assert_eq!(ProxyHeader::read(&header), expected, "{header:?}");
            assert_eq!(ProxyHeader::read(&[&header[..], b"PROXY x\r\n"].concat()), expected, "{header:?}");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        use ProxyHeaderError::{Malformed, Missing, TooLong};
        let v1 = |text: &str| text.as_bytes().to_vec();
        for (bytes, error) in [
            (v1("GET / HTTP/1.1\r\n"), Missing),
            (v1("proxy TCP4"), Missing),
            (v1("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n"), Malformed),
            (v1("PROXY TCP4 ::1 ::1 1 2\r\n"), Malformed),
            (v1("PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n"), Malformed),
            (v1("PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n"), Malformed),
            (v1("PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n"), Malformed),
            (v1("PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n"), Malformed),
            (v1("PROXY \r\n"), Malformed),
            (v1(&format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_BYTES_MAX))), Malformed),
            (v2(1, 0x11, &[0; 11]), Malformed),
            (v2(1, 0x21, &[0; 35]), Malformed),
            (v2(2, 0x11, &[0; 12]), Malformed),
            (v2(1, 0x41, &[0; 12]), Malformed),
            (v2(1, 0, &[0; PROXY_HEADER_BYTES_MAX]), TooLong),
        ] {
            assert_eq!(ProxyHeader::read(&bytes), Err(error), "{bytes:?}");
        }
        let mut version_1 = v2(1, 0, &[]);
        version_1[12] = 0x11;
        assert_eq!(ProxyHeader::read(&version_1), Err(Malformed));
    }
}
