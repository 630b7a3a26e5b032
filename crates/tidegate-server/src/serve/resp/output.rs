//! Answers on their way out.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

use super::buffer::BufferShrinker;
use super::reply::Replies;

/// Answers that have yet to be written, or to be read by who asked.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    pub replies: Replies,
    /// What of them is written.
    written: usize,
    /// Whether any of what is written may still be on its way through the stream, as through encryption.
    is_unflushed: bool,
    shrinker: BufferShrinker,
    /// How long the client may leave them unread.
    timeout: Duration,
    /// Since when it does.
    stall_timer: Option<Pin<Box<Sleep>>>,
}

/// The client has gone, or does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientGone;

impl OutputBuffer {
    /// To a client that may leave it unread for so long.
    pub fn new(timeout: Duration) -> Self {
        let replies = Replies::default();
        Self { replies, written: 0, is_unflushed: false, shrinker: BufferShrinker::default(), timeout, stall_timer: None }
    }

    /// How many bytes have yet to be written.
    #[inline]
    pub fn pending_bytes(&self) -> usize {
        self.replies.bytes().len() - self.written
    }

    /// Writes what the stream takes; ready when all of it is written.
    #[inline]
    pub fn poll_write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ClientGone>> {
        if self.pending_bytes() == 0 && !self.is_unflushed {
            return Poll::Ready(Ok(()));
        }
        match self.poll_all(stream, context) {
            Poll::Pending => self.poll_stalled(context),
            ready => {
                self.stall_timer = None;
                ready
            }
        }
    }

    /// Writes all of it.
    pub async fn write(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> Result<(), ClientGone> {
        poll_fn(|context| self.poll_write(stream, context)).await
    }

    /// Writes what the stream takes; ready when no more than so many bytes are left.
    pub fn poll_write_until(
        &mut self,
        bytes_max: usize,
        stream: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ClientGone>> {
        match self.poll_write(stream, context) {
            Poll::Pending if self.pending_bytes() <= bytes_max => Poll::Ready(Ok(())),
            other => other,
        }
    }

    #[inline]
    fn poll_all(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ClientGone>> {
        while self.pending_bytes() > 0 {
            let bytes = &self.replies.bytes()[self.written..];
            match ready!(Pin::new(&mut *stream).poll_write(context, bytes)) {
                Ok(written @ 1..) => {
                    self.written += written;
                    self.is_unflushed = true;
                    // The client reads.
                    self.stall_timer = None;
                }
                Ok(0) | Err(_) => return Poll::Ready(Err(ClientGone)),
            }
        }
        if self.written > 0 {
            let used = std::mem::take(&mut self.written);
            self.replies.buffer_mut().clear();
            self.shrinker.shrink(self.replies.buffer_mut(), used);
        }
        let flushed = ready!(Pin::new(stream).poll_flush(context));
        self.is_unflushed = false;
        Poll::Ready(flushed.map_err(|_| ClientGone))
    }

    /// Gone once it has not read for too long.
    #[cold]
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ClientGone>> {
        // What is written is not kept for the sake of what is not.
        let written = std::mem::take(&mut self.written);
        self.replies.buffer_mut().drain(..written);
        let timeout = self.timeout;
        let stalled = self.stall_timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
        stalled.as_mut().poll(context).map(|()| Err(ClientGone))
    }
}

#[cfg(test)]
mod tests;
