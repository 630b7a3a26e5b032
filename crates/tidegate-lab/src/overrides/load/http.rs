//! HTTP/1.1 with JSON: connections that stay open, with one request in flight on each.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use super::{Connection, IN_FLIGHT, wrong_reply};
use crate::overrides::node::DOMAIN;
use crate::server::check::connect;

const ALLOWED: &[u8] = b"\"decision\":\"allowed\"";

pub(super) struct HttpConnections {
    streams: Vec<TcpStream>,
    reply: Vec<u8>,
}

impl HttpConnections {
    pub fn connect(port: u16) -> io::Result<Self> {
        let streams = (0..IN_FLIGHT).map(|_| connect(port)).collect::<io::Result<_>>()?;
        Ok(Self { streams, reply: vec![0; 16 << 10] })
    }
}

impl Connection for HttpConnections {
    fn decide(&mut self, keys: &[u64]) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        for (key, stream) in keys.iter().zip(&mut self.streams) {
            let body = format!(r#"{{"domain":"{DOMAIN}","attributes":{{"user":"{key:08}"}}}}"#);
            let request = format!(
                "POST /v1/check HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).map_err(failed)?;
        }
        for (_, stream) in keys.iter().zip(&mut self.streams) {
            let mut filled = 0;
            while !is_complete(&self.reply[..filled]) {
                let bytes = stream.read(&mut self.reply[filled..]).map_err(failed)?;
                if bytes == 0 {
                    return Err(wrong_reply(&self.reply[..filled]));
                }
                filled += bytes;
            }
            let reply = &self.reply[..filled];
            if !reply.windows(ALLOWED.len()).any(|window| window == ALLOWED) {
                return Err(wrong_reply(reply));
            }
        }
        Ok(())
    }
}

/// Whether all bytes of the body are there that the header field says.
fn is_complete(reply: &[u8]) -> bool {
    const LENGTH: &str = "content-length:";
    let Some(head) = reply.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&reply[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix(LENGTH)?.trim().parse::<usize>().ok());
    length.is_none_or(|length| reply.len() >= head + 4 + length)
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn a_reply_is_complete_with_its_body() {
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert!(is_complete(reply));
        for length in 0..reply.len() {
            assert!(!is_complete(&reply[..length]), "{length}");
        }
    }
}
