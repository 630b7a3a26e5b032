//! gRPC framing: each message in a body has a prefix of five bytes, a compression flag and the length.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::status::{GrpcCode, GrpcStatus};

/// Size of the prefix of a message.
pub const PREFIX_BYTES: usize = 5;

/// Splits a body into messages while it arrives.
#[derive(Debug)]
pub struct MessageReader {
    /// Bytes received and not yet returned by `next`.
    received: BytesMut,
    message_bytes_max: usize,
}

impl MessageReader {
    /// For messages of at most this size.
    pub fn new(message_bytes_max: usize) -> Self {
        Self { received: BytesMut::new(), message_bytes_max }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Bytes received and not yet returned as messages.
    pub fn kept_bytes(&self) -> usize {
        self.received.len()
    }

    /// The next message, if it is complete.
    pub fn next(&mut self) -> Result<Option<Bytes>, GrpcStatus> {
        match message_length(&self.received, self.message_bytes_max)? {
            Some(length) if self.received.len() >= PREFIX_BYTES + length => {
                self.received.advance(PREFIX_BYTES);
                Ok(Some(self.received.split_to(length).freeze()))
            }
            _ => Ok(None),
        }
    }
}

/// The message of a complete body that must have exactly one.
pub fn single_message(mut body: Bytes, message_bytes_max: usize) -> Result<Bytes, GrpcStatus> {
    let expected = match message_length(&body, message_bytes_max)? {
        Some(length) => PREFIX_BYTES + length,
        None => return Err(malformed("the body is not a gRPC message (hint: it needs a 5-byte prefix)")),
    };
    if body.len() < expected {
        return Err(malformed("the body ends in the middle of a message"));
    }
    if body.len() > expected {
        return Err(malformed("the body has more than one message (hint: the method takes one)"));
    }
    body.advance(PREFIX_BYTES);
    Ok(body)
}

/// Writes a message with its prefix to `out`, which must be empty, and splits it off.
pub fn write_framed(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    debug_assert!(out.is_empty(), "the previous message was split off");
    out.put_bytes(0, PREFIX_BYTES);
    write(out);
    // Responses are far shorter than 4 GiB.
    let length = u32::try_from(out.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    out[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    out.split().freeze()
}

/// The length of the message that starts here, or `None` if the prefix is incomplete.
#[inline]
pub fn message_length(received: &[u8], message_bytes_max: usize) -> Result<Option<usize>, GrpcStatus> {
    let Some([compressed, length @ ..]) = received.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    if *compressed != 0 {
        return Err(malformed(
            "the message is compressed without grpc-encoding (hint: send it uncompressed)",
        ));
    }
    let length = u32::from_be_bytes(*length) as usize;
    if length > message_bytes_max {
        let message =
            format!("a message of {length} bytes is too large (hint: the maximum is {message_bytes_max})");
        return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
    }
    Ok(Some(length))
}

#[cold]
fn malformed(message: &'static str) -> GrpcStatus {
    GrpcStatus::new(GrpcCode::Internal, message)
}
