//! Unary gRPC calls over HTTP/2, with only the frames that they need.

use std::io::{self, Read, Write};

use super::check::{ANSWER_BYTES_MAX, connect};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
/// The flag of an acknowledgement.
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The first stream of a client.
const STREAM: u32 = 1;
/// The prefix of a message in a gRPC body: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

pub(crate) struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub payload: Vec<u8>,
}

/// Calls a method. The result is empty if the answer is only a status.
pub(super) fn call(port: u16, path: &str, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = connect(port)?;
    let mut request = PREFACE.to_vec();
    put_frame(&mut request, SETTINGS, 0, 0, &[]);
    put_call(&mut request, STREAM, &headers(port, path), message);
    stream.write_all(&request)?;
    let mut answer = Vec::new();
    loop {
        let frame = read_frame(&mut stream)?;
        match frame.kind {
            DATA => answer.extend(&frame.payload),
            SETTINGS if frame.flags & ACK == 0 => {
                let mut acknowledged = Vec::new();
                put_frame(&mut acknowledged, SETTINGS, ACK, 0, &[]);
                stream.write_all(&acknowledged)?;
            }
            RST_STREAM | GOAWAY => return Err(io::Error::other("the call was reset")),
            _ => {}
        }
        if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
            return Ok(answer.split_off(PREFIX_BYTES.min(answer.len())));
        }
    }
}

/// The frames of a call, with these header fields.
pub(crate) fn put_call(to: &mut Vec<u8>, stream: u32, headers: &[u8], message: &[u8]) {
    put_frame(to, HEADERS, END_HEADERS, stream, headers);
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
    body.extend(message);
    put_frame(to, DATA, END_STREAM, stream, &body);
}

pub(crate) fn put_frame(to: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    to.extend(&u32::try_from(payload.len()).unwrap_or(0).to_be_bytes()[1..]);
    to.extend([kind, flags]);
    to.extend(stream.to_be_bytes());
    to.extend(payload);
}

pub(crate) fn read_frame(stream: &mut impl Read) -> io::Result<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    if length > ANSWER_BYTES_MAX {
        return Err(io::Error::other("a frame is too long"));
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok(Frame { kind: head[3], flags: head[4], payload })
}

/// Header fields in HPACK, as literals that are not added to its table.
pub(crate) fn headers(port: u16, path: &str) -> Vec<u8> {
    let authority = format!("127.0.0.1:{port}");
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", &authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ];
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            // All texts are shorter than 127 bytes, so a length is one byte. Its highest bit is clear: no Huffman code.
            block.push(u8::try_from(text.len()).unwrap_or(0));
            block.extend(text.as_bytes());
        }
    }
    block
}
