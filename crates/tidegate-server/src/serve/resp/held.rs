//! What is read of a client while it waits for an answer: that is how it is noticed that the client has gone.

use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BufMut as _;
use tokio::io::AsyncReadExt as _;

use super::Stream;

/// What is read ahead of the answer at most, in bytes, with what was read before. Past that, whether the client is still
/// there is not known.
const READ_AHEAD_BYTES_MAX: usize = 64 << 10;
/// What of it is read at once at most, in bytes.
const READ_AHEAD_CHUNK_BYTES: usize = 4 << 10;

/// Why nothing more comes of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// It says so, and may go on listening.
    HalfClosed,
    /// It has gone.
    Closed,
}

/// What is read while a request is held: that is how a client's leaving is noticed.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    pub bytes: Vec<u8>,
    /// How much of it there may be.
    bytes_max: usize,
}

impl ReadAhead {
    /// There are so many bytes behind the request already.
    pub fn allow_after(&mut self, bytes: usize) {
        self.bytes_max = READ_AHEAD_BYTES_MAX.saturating_sub(bytes);
    }

    /// Nothing more is read.
    pub fn stop(&mut self) {
        self.bytes_max = 0;
    }

    /// Reads as far as there is room; ready when nothing more comes.
    pub fn poll(&mut self, stream: &mut Stream, context: &mut Context<'_>) -> Poll<ReadEnd> {
        while let room @ 1.. = self.bytes_max.saturating_sub(self.bytes.len()) {
            // A vector may have more room than it was asked for.
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
