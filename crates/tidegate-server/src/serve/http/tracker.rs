//! Tracks what a connection is doing and since when, for its timeouts and the drain.
//!
//! hyper's own timeout for request heads costs a timer and a poll of the socket per request. Here a request reads the
//! clock twice, and a connection has one timer, which is set again only when it fires.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::header::{CONNECTION, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::direct::Unread;
use super::reply::Reply;
use crate::serve::Drain;
use crate::serve::connections_memory::HeldBytes;
use crate::serve::settings::Bounds;

/// What a connection is doing, and since when.
pub(super) struct ConnectionTracker<'d> {
    drain: &'d Drain,
    opened: Instant,
    state: AtomicU8,
    /// Microseconds since it was opened.
    since_us: AtomicU64,
    /// Whether all received bytes were read: the last read found nothing.
    is_input_drained: AtomicBool,
    /// Whether the client may still send a body that the server will not read.
    is_body_abandoned: AtomicBool,
    /// Whether the end of the client's input was seen while a request was being answered.
    has_seen_eof: AtomicBool,
    /// Reserved for the body of the current request, if it is large.
    body: HeldBytes,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ConnectionState {
    /// No request has started.
    Idle,
    /// Part of a request has arrived.
    Head,
    /// A request is being answered. The handler is responsible for its timeouts.
    Answering,
}

/// Marks a request as being answered, until dropped.
pub(super) struct RequestGuard<'p>(&'p ConnectionTracker<'p>);

impl<'d> ConnectionTracker<'d> {
    /// For a new connection, which ends when `drain` starts. `body` is a reservation for the bodies of its requests.
    pub fn new(drain: &'d Drain, body: HeldBytes) -> Self {
        Self {
            body,
            drain,
            opened: Instant::now(),
            state: AtomicU8::new(ConnectionState::Idle as u8),
            since_us: AtomicU64::new(0),
            is_input_drained: AtomicBool::new(false),
            is_body_abandoned: AtomicBool::new(false),
            has_seen_eof: AtomicBool::new(false),
        }
    }

    /// A request is being answered.
    pub fn start_request(&self) -> RequestGuard<'_> {
        if self.is_state(ConnectionState::Idle) {
            // It arrived together with the request before it.
            self.enter(ConnectionState::Answering);
        } else {
            self.state.store(ConnectionState::Answering as u8, Ordering::Relaxed);
        }
        RequestGuard(self)
    }

    /// When the current state times out; `None` if the handler is responsible for that.
    pub fn deadline(&self, bounds: &Bounds) -> Option<Instant> {
        match self.state.load(Ordering::Relaxed) {
            state if state == ConnectionState::Idle as u8 => Some(self.since() + bounds.idle_timeout),
            state if state == ConnectionState::Head as u8 => Some(self.since() + bounds.header_timeout),
            _ => None,
        }
    }

    /// Whether all requests that have arrived are answered.
    pub fn is_quiet(&self) -> bool {
        self.is_state(ConnectionState::Idle) && self.is_input_drained()
    }

    /// Whether the client has sent, or still sends, bytes that are not read.
    pub fn has_unread_input(&self) -> bool {
        self.is_body_abandoned.load(Ordering::Relaxed) || !self.is_input_drained()
    }

    /// The client has ended its input. hyper treats such a client as gone: if it learned that now, it would ignore the
    /// requests that the client sent before. So while a request is being answered, the end is reported one read later.
    /// A request that still waits for a rule is then dropped.
    fn on_eof(&self) -> EofReport {
        match self.is_state(ConnectionState::Answering) && !self.has_seen_eof.swap(true, Ordering::Relaxed) {
            true => EofReport::Later,
            false => EofReport::Now,
        }
    }

    /// Whether the connection is doing this.
    pub fn is_state(&self, state: ConnectionState) -> bool {
        self.state.load(Ordering::Relaxed) == state as u8
    }

    fn is_input_drained(&self) -> bool {
        self.is_input_drained.load(Ordering::Relaxed)
    }

    fn since(&self) -> Instant {
        self.opened + Duration::from_micros(self.since_us.load(Ordering::Relaxed))
    }

    /// Records the result of a read.
    fn on_read(&self, result: ReadResult) {
        self.is_input_drained.store(result == ReadResult::Empty, Ordering::Relaxed);
        if result == ReadResult::Bytes && self.is_state(ConnectionState::Idle) {
            self.enter(ConnectionState::Head);
        }
    }

    /// The connection is doing this from now on.
    pub fn enter(&self, state: ConnectionState) {
        let since_us = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.since_us.store(since_us, Ordering::Relaxed);
        self.state.store(state as u8, Ordering::Relaxed);
    }
}

impl RequestGuard<'_> {
    /// When the request must have arrived, from its first byte to its last.
    pub fn arrival_deadline(&self, bounds: &Bounds) -> Instant {
        self.0.since() + bounds.header_timeout
    }

    /// Reserves memory for this many bytes of the body. False if there is none.
    pub fn try_hold(&self, body_bytes: usize) -> bool {
        self.0.body.try_hold(body_bytes as u64)
    }

    /// The server will not read the rest of the body.
    pub fn abandon_body(&self) {
        self.0.is_body_abandoned.store(true, Ordering::Relaxed);
    }

    /// Finishes the reply. If the server drains and no further request has arrived, the reply closes the connection.
    pub fn finish(self, mut reply: Reply) -> Reply {
        // hyper reads on as soon as it has the whole request, so it is known by now whether another request has
        // arrived.
        if self.0.drain.is_draining() && self.0.is_input_drained() {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        // It cannot fail.
        let _ = self.0.body.try_hold(0);
        self.0.enter(ConnectionState::Idle);
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadResult {
    Bytes,
    /// Nothing yet, or the end.
    Empty,
}

/// When to report the end of input to hyper.
enum EofReport {
    Now,
    /// At its next read.
    Later,
}

/// A stream that records what it reads.
pub(super) struct TrackedStream<'p> {
    pub unread: Unread,
    pub tracker: &'p ConnectionTracker<'p>,
}

impl AsyncRead for TrackedStream<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = this.unread.poll_read(context, buffer);
        let result = if buffer.filled().len() > before { ReadResult::Bytes } else { ReadResult::Empty };
        this.tracker.on_read(result);
        if let (Poll::Ready(Ok(())), ReadResult::Empty) = (&read, result)
            && let EofReport::Later = this.tracker.on_eof()
        {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        read
    }
}

impl AsyncWrite for TrackedStream<'_> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().unread.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().unread.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.unread.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().unread.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().unread.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::serve::Protocol;
    use crate::serve::connections_memory::ConnectionsMemory;

    fn unbounded() -> HeldBytes {
        Arc::new(ConnectionsMemory::unbounded()).reserve_nothing(Protocol::Http)
    }

    #[test]
    fn quiet_when_all_received_requests_are_answered() {
        let drain = Drain::new();
        let tracker = ConnectionTracker::new(&drain, unbounded());
        assert!(!tracker.is_quiet(), "nothing was read yet");
        tracker.on_read(ReadResult::Empty);
        assert!(tracker.is_quiet());
        tracker.on_read(ReadResult::Bytes);
        tracker.on_read(ReadResult::Empty);
        assert!(!tracker.is_quiet(), "part of a request has arrived");
        let guard = tracker.start_request();
        assert!(!tracker.is_quiet());
        tracker.on_read(ReadResult::Bytes);
        drop(guard);
        assert!(!tracker.is_quiet(), "another request has arrived meanwhile");
        drop(tracker.start_request());
        tracker.on_read(ReadResult::Empty);
        assert!(tracker.is_quiet() && !tracker.has_unread_input());
        tracker.start_request().abandon_body();
        assert!(tracker.has_unread_input());
    }

    #[test]
    fn request_time_starts_at_the_first_byte() {
        let (drain, bounds) = (Drain::new(), Bounds::default());
        let tracker = ConnectionTracker::new(&drain, unbounded());
        tracker.on_read(ReadResult::Bytes);
        let first = tracker.since();
        assert_eq!(tracker.deadline(&bounds), Some(first + bounds.header_timeout));
        tracker.on_read(ReadResult::Bytes);
        let guard = tracker.start_request();
        assert_eq!(tracker.deadline(&bounds), None, "the handler is responsible");
        tracker.on_read(ReadResult::Bytes);
        assert_eq!(guard.arrival_deadline(&bounds), first + bounds.header_timeout, "the body has the rest");
    }

    #[test]
    fn the_last_reply_closes_the_connection() {
        let drain = Drain::new();
        let tracker = ConnectionTracker::new(&drain, unbounded());
        let closes = |reply: Reply| reply.headers().contains_key(CONNECTION);
        tracker.on_read(ReadResult::Empty);
        assert!(!closes(tracker.start_request().finish(Reply::default())));
        drain.begin();
        assert!(closes(tracker.start_request().finish(Reply::default())));
        tracker.on_read(ReadResult::Bytes);
        assert!(!closes(tracker.start_request().finish(Reply::default())), "another request may follow");
    }
}
