//! What was read and has yet to be answered.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::buffer::{BufferShrinker, KEPT_BUFFER_BYTES};

/// What is read at once at most, in bytes.
const READ_BYTES_MAX: usize = 64 << 10;
/// What there is room for at least when something is read, in bytes.
const READ_BYTES_MIN: usize = KEPT_BUFFER_BYTES / 4;

/// What was read and has yet to be answered.
#[derive(Debug, Default)]
pub(super) struct InputBuffer {
    bytes: Vec<u8>,
    /// What of it is answered.
    consumed: usize,
    shrinker: BufferShrinker,
}

impl InputBuffer {
    /// What has yet to be answered.
    #[inline]
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// So many bytes of it are answered.
    #[inline]
    pub fn advance(&mut self, length: usize) {
        self.consumed += length;
    }

    /// What was read elsewhere comes behind it. What is answered is forgotten, or it would pile up behind requests that
    /// are held; and nothing is kept for the next time, for most connections have none.
    #[inline]
    pub fn append(&mut self, read: &mut Vec<u8>) {
        if !read.is_empty() {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
            self.bytes.extend_from_slice(&std::mem::take(read));
        }
    }

    /// Forgets what is answered, and makes room.
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

    /// Reads into the room there is.
    #[inline]
    pub fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        pin!(stream.read_buf(&mut self.bytes)).poll(context)
    }
}
