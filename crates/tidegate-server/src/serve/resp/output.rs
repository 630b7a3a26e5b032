//! Replies that are not written yet.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

use super::buffer::BufferShrinker;
use super::reply::Replies;

/// Replies that are not written yet, or not yet sent by the stream.
#[derive(Debug)]
pub(super) struct OutputBuffer {
    pub replies: Replies,
    /// Length of the written part of `replies`.
    written: usize,
    /// Whether the stream, for example TLS, may still buffer written bytes.
    is_unflushed: bool,
    shrinker: BufferShrinker,
    /// How long the client may leave replies unread.
    timeout: Duration,
    /// Runs while the client does not read.
    stall_timer: Option<Pin<Box<Sleep>>>,
}

/// The client has gone, or does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientGone;

impl OutputBuffer {
    /// `timeout` is how long the client may leave replies unread.
    pub fn new(timeout: Duration) -> Self {
        let replies = Replies::default();
        Self {
            replies,
            written: 0,
            is_unflushed: false,
            shrinker: BufferShrinker::default(),
            timeout,
            stall_timer: None,
        }
    }

    /// Bytes that are not written yet.
    #[inline]
    pub fn pending_bytes(&self) -> usize {
        self.replies.bytes().len() - self.written
    }

    /// Writes what the stream accepts. Ready when everything is written and flushed.
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

    /// Writes everything.
    pub async fn write(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> Result<(), ClientGone> {
        poll_fn(|context| self.poll_write(stream, context)).await
    }

    /// Writes what the stream accepts. Ready when at most `bytes_max` bytes are left.
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

    /// Ready with an error when the client has not read for too long.
    #[cold]
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ClientGone>> {
        // Free the written part.
        let written = std::mem::take(&mut self.written);
        self.replies.buffer_mut().drain(..written);
        let timeout = self.timeout;
        let stalled = self.stall_timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
        stalled.as_mut().poll(context).map(|()| Err(ClientGone))
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
