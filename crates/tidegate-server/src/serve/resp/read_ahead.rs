//! Reads input while a reply is pending, because only a read shows that the client has gone.

use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BufMut as _;
use tokio::io::AsyncReadExt as _;

use super::Stream;

/// Maximum bytes read ahead, including those already buffered. Beyond this, a disconnect is not noticed.
const READ_AHEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes per read.
const READ_AHEAD_CHUNK_BYTES: usize = 4 << 10;

/// Why a client sends no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// It closed its sending side, and may still read.
    HalfClosed,
    /// The connection is closed.
    Closed,
}

/// Input that was read while a reply was pending.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    pub bytes: Vec<u8>,
    /// Maximum length of `bytes`.
    bytes_max: usize,
}

impl ReadAhead {
    /// Allows reading when this many bytes after the command are already buffered.
    pub fn allow_after(&mut self, bytes: usize) {
        self.bytes_max = READ_AHEAD_BYTES_MAX.saturating_sub(bytes);
    }

    /// Stops reading.
    pub fn stop(&mut self) {
        self.bytes_max = 0;
    }

    /// Reads while there is room. Ready when the client sends no more.
    pub fn poll(&mut self, stream: &mut Stream, context: &mut Context<'_>) -> Poll<ReadEnd> {
        while let room @ 1.. = self.bytes_max.saturating_sub(self.bytes.len()) {
            // A vector may have more capacity than was reserved.
            let mut read = (&mut self.bytes).limit(room.min(READ_AHEAD_CHUNK_BYTES));
            match pin!(stream.read_buf(&mut read)).poll(context) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => return Poll::Ready(ReadEnd::HalfClosed),
                Poll::Ready(Err(_)) => return Poll::Ready(ReadEnd::Closed),
                Poll::Pending => break,
            }
        }
        Poll::Pending
    }
}
