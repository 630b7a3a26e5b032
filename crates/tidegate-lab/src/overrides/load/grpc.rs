//! gRPC, as Envoy calls its rate limit service: one connection, with several streams in flight.

use std::io::{self, BufReader, Write as _};
use std::net::TcpStream;

use super::{Connection, wrong_reply};
use crate::overrides::node::DOMAIN;
use crate::protobuf::bytes_field;
use crate::server::check::connect;
use crate::server::grpc_call::{
    ACK, DATA, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, headers,
    put_call, put_frame, read_frame,
};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The largest amount by which a window can grow: all replies of a run fit into it.
const WINDOW_BYTES: u32 = (1 << 31) - 1 - 65_535;
/// A message that is not compressed begins with five bytes of its own length. `overall_code` is then `OK`.
const OK: &[u8] = &[8, 1];

pub(super) struct GrpcConnection {
    stream: TcpStream,
    input: BufReader<TcpStream>,
    headers: Vec<u8>,
    next_stream: u32,
    calls: Vec<u8>,
}

impl GrpcConnection {
    pub fn connect(port: u16) -> io::Result<Self> {
        let mut stream = connect(port)?;
        let mut start = PREFACE.to_vec();
        put_frame(&mut start, SETTINGS, 0, 0, &[]);
        put_frame(&mut start, WINDOW_UPDATE, 0, 0, &WINDOW_BYTES.to_be_bytes());
        stream.write_all(&start)?;
        let input = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, input, headers: headers(port, PATH), next_stream: 1, calls: Vec::new() })
    }

    fn read_replies(&mut self, expected: usize) -> io::Result<()> {
        let mut seen = 0;
        while seen < expected {
            let frame = read_frame(&mut self.input)?;
            match frame.kind {
                DATA if !frame.payload.is_empty() && frame.payload.get(5..7) != Some(OK) => {
                    return Err(io::Error::other(wrong_reply(&frame.payload)));
                }
                // The reply to a ping is the same text.
                SETTINGS | PING if frame.flags & ACK == 0 => {
                    let mut acknowledged = Vec::new();
                    let payload = if frame.kind == PING { &*frame.payload } else { &[] };
                    put_frame(&mut acknowledged, frame.kind, ACK, 0, payload);
                    self.stream.write_all(&acknowledged)?;
                }
                RST_STREAM | GOAWAY => return Err(io::Error::other("a call was reset")),
                _ => {}
            }
            let ends = matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0;
            seen += usize::from(ends);
        }
        Ok(())
    }
}

impl Connection for GrpcConnection {
    fn decide(&mut self, keys: &[u64]) -> Result<(), String> {
        self.calls.clear();
        for key in keys {
            let value = format!("{key:08}");
            let entry = [bytes_field(1, b"user"), bytes_field(2, value.as_bytes())].concat();
            let descriptor = bytes_field(1, &entry);
            let message = [bytes_field(1, DOMAIN.as_bytes()), bytes_field(2, &descriptor)].concat();
            put_call(&mut self.calls, self.next_stream, &self.headers, &message);
            self.next_stream += 2;
        }
        let sent = self.stream.write_all(&self.calls);
        sent.and_then(|()| self.read_replies(keys.len())).map_err(|error| error.to_string())
    }
}
