//! Input that was read and not yet handled.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::buffer::{BufferShrinker, KEPT_BUFFER_BYTES};

/// Maximum bytes per read.
const READ_BYTES_MAX: usize = 64 << 10;
/// Minimum free space before a read, in bytes.
const READ_BYTES_MIN: usize = KEPT_BUFFER_BYTES / 4;

/// Input that was read and not yet handled.
#[derive(Debug, Default)]
pub(super) struct InputBuffer {
    bytes: Vec<u8>,
    /// Length of the handled part of `bytes`.
    consumed: usize,
    shrinker: BufferShrinker,
}

impl InputBuffer {
    /// The part that is not handled yet.
    #[inline]
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// Bytes that the buffer takes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Marks bytes as handled.
    #[inline]
    pub fn advance(&mut self, length: usize) {
        self.consumed += length;
    }

    /// Appends input that was read ahead. Drops the handled part first, which would pile up behind waiting commands.
    /// Also frees the buffer of `read_ahead`, because most connections never read ahead.
    #[inline]
    pub fn append(&mut self, read_ahead: &mut Vec<u8>) {
        if !read_ahead.is_empty() {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
            self.bytes.extend_from_slice(&std::mem::take(read_ahead));
        }
    }

    /// Drops the handled part and makes room for the next read.
    #[inline]
    pub fn make_room(&mut self) {
        let used = self.bytes.len();
        let was_full = used == self.bytes.capacity();
        if self.consumed == used {
            self.bytes.clear();
        } else {
            self.bytes.drain(..self.consumed);
        }
        self.consumed = 0;
        self.shrinker.shrink(&mut self.bytes, used);
        self.bytes.reserve(match was_full {
            true => used.clamp(KEPT_BUFFER_BYTES, READ_BYTES_MAX),
            false => READ_BYTES_MIN,
        });
    }

    #[inline]
    pub fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        pin!(stream.read_buf(&mut self.bytes)).poll(context)
    }
}
