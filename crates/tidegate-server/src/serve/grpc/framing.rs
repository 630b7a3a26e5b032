//! Messages within a body: each has five bytes in front, whether it is compressed and how long it is.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::status::{GrpcCode, GrpcStatus};

/// What stands in front of a message, in bytes.
pub const PREFIX_BYTES: usize = 5;

/// The messages of a body, as it arrives.
#[derive(Debug)]
pub struct MessageReader {
    /// What was received and not taken yet.
    received: BytesMut,
    message_bytes_max: usize,
}

impl MessageReader {
    /// Of a body whose messages are no longer than this.
    pub fn new(message_bytes_max: usize) -> Self {
        Self { received: BytesMut::new(), message_bytes_max }
    }

    /// More of the body arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// How much is kept.
    pub fn kept_bytes(&self) -> usize {
        self.received.len()
    }

    /// The next message, if all of it is there.
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

/// The only message of a body that is all there.
pub fn single_message(mut body: Bytes, message_bytes_max: usize) -> Result<Bytes, GrpcStatus> {
    let expected = match message_length(&body, message_bytes_max)? {
        Some(length) => PREFIX_BYTES + length,
        None => return Err(malformed("the body is no message (hint: five bytes stand in front of one)")),
    };
    if body.len() < expected {
        return Err(malformed("the body ends in the middle of a message"));
    }
    if body.len() > expected {
        return Err(malformed("there is more than one message (hint: the method takes one)"));
    }
    body.advance(PREFIX_BYTES);
    Ok(body)
}

/// Writes a message, with what stands in front of it, at the end of `out`, and takes it from there.
pub fn write_framed(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    debug_assert!(out.is_empty(), "what was written before was taken");
    out.put_bytes(0, PREFIX_BYTES);
    write(out);
    // What is written here is far shorter than 4 GiB.
    let length = u32::try_from(out.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    out[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    out.split().freeze()
}

/// How long the message is whose beginning this is; none if not even that is there.
#[inline]
pub fn message_length(received: &[u8], message_bytes_max: usize) -> Result<Option<usize>, GrpcStatus> {
    let Some([compressed, length @ ..]) = received.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    if *compressed != 0 {
        return Err(malformed("the message is compressed and nobody said how (hint: send it as it is)"));
    }
    let length = u32::from_be_bytes(*length) as usize;
    if length > message_bytes_max {
        let message =
            format!("a message of {length} bytes is too large (hint: {message_bytes_max} is the most)");
        return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
    }
    Ok(Some(length))
}

#[cold]
fn malformed(message: &'static str) -> GrpcStatus {
    GrpcStatus::new(GrpcCode::Internal, message)
}
