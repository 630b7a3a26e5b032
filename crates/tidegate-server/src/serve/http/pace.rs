//! What a connection is doing, and since when: what its deadlines go by.
//!
//! The library's own timeout for heads costs every request a timer and a look at the socket. Here a request costs two
//! looks at the clock, and one timer for each connection is set again only when it is over.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::header::{CONNECTION, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::reply::Reply;
use crate::serve::Drain;
use crate::serve::listening::Stream;
use crate::serve::settings::Bounds;

/// What a connection is doing, and since when.
pub(super) struct ConnectionTracker<'d> {
    drain: &'d Drain,
    opened: Instant,
    state: AtomicU8,
    /// From when it was opened.
    since_us: AtomicU64,
    /// Whether all that has arrived was taken: more was asked for, and there was none.
    is_input_drained: AtomicBool,
    /// Whether the client goes on to send what nobody is to read.
    is_body_abandoned: AtomicBool,
    /// Whether the client was found to send nothing any more while a request was being answered.
    has_seen_eof: AtomicBool,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ConnectionState {
    /// Nothing.
    Idle,
    /// It has sent the beginning of a request.
    Head,
    /// A request is being answered. Whoever answers it sees to its time.
    Answering,
}

/// A request is being answered, until this is dropped.
pub(in crate::serve) struct RequestGuard<'p>(&'p ConnectionTracker<'p>);

impl<'d> ConnectionTracker<'d> {
    /// Of a connection that was just opened, and that ends when this drains.
    pub fn new(drain: &'d Drain) -> Self {
        Self {
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
            // It has come along with the one before.
            self.enter(ConnectionState::Answering);
        } else {
            self.state.store(ConnectionState::Answering as u8, Ordering::Relaxed);
        }
        RequestGuard(self)
    }

    /// When it will have taken too long, if it goes on as now; none if somebody else sees to that.
    pub fn deadline(&self, bounds: &Bounds) -> Option<Instant> {
        match self.state.load(Ordering::Relaxed) {
            doing if doing == ConnectionState::Idle as u8 => Some(self.since() + bounds.idle_timeout),
            doing if doing == ConnectionState::Head as u8 => Some(self.since() + bounds.header_timeout),
            _ => None,
        }
    }

    /// Whether all requests that have arrived are answered.
    pub fn is_quiet(&self) -> bool {
        self.is_state(ConnectionState::Idle) && self.is_input_drained()
    }

    /// Whether the client has sent something, or goes on to, that nobody has read.
    pub fn has_unread_input(&self) -> bool {
        self.is_body_abandoned.load(Ordering::Relaxed) || !self.is_input_drained()
    }

    /// The client sends nothing any more, and this is when the library is told of it: it takes such a client for gone, and
    /// would not even look at what that has asked before. What it has looked at, and a rule holds, it drops.
    fn on_eof(&self) -> EofReport {
        match self.is_state(ConnectionState::Answering) && !self.has_seen_eof.swap(true, Ordering::Relaxed) {
            true => EofReport::Later,
            false => EofReport::Now,
        }
    }

    fn is_state(&self, doing: ConnectionState) -> bool {
        self.state.load(Ordering::Relaxed) == doing as u8
    }

    fn is_input_drained(&self) -> bool {
        self.is_input_drained.load(Ordering::Relaxed)
    }

    fn since(&self) -> Instant {
        self.opened + Duration::from_micros(self.since_us.load(Ordering::Relaxed))
    }

    /// More was asked for, and this is what came.
    fn on_read(&self, came: ReadResult) {
        self.is_input_drained.store(came == ReadResult::Empty, Ordering::Relaxed);
        if came == ReadResult::Bytes && self.is_state(ConnectionState::Idle) {
            self.enter(ConnectionState::Head);
        }
    }

    fn enter(&self, doing: ConnectionState) {
        let since_us = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.since_us.store(since_us, Ordering::Relaxed);
        self.state.store(doing as u8, Ordering::Relaxed);
    }
}

impl RequestGuard<'_> {
    /// When the request will have taken too long to arrive, from its first byte to its last.
    pub fn arrival_deadline(&self, bounds: &Bounds) -> Instant {
        self.0.since() + bounds.header_timeout
    }

    /// What the client goes on to send, nobody is to read.
    pub fn abandon_body(&self) {
        self.0.is_body_abandoned.store(true, Ordering::Relaxed);
    }

    /// The reply, as it is to be sent. If the server is about to stop and nothing has arrived behind the request, it says
    /// that it is the last.
    pub fn finish(self, mut reply: Reply) -> Reply {
        // The library takes whatever stands behind a request as soon as it has all of the request, or asks for it: so it
        // is known by now whether anything does.
        if self.0.drain.is_draining() && self.0.is_input_drained() {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.enter(ConnectionState::Idle);
    }
}

/// What came when more was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadResult {
    Bytes,
    /// Not yet, or never.
    Empty,
}

/// When the library is told something.
enum EofReport {
    Now,
    /// When it asks again.
    Later,
}

/// A stream that tells when something arrives.
pub(super) struct TrackedStream<'p> {
    pub stream: Stream,
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
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let came = if buffer.filled().len() > before { ReadResult::Bytes } else { ReadResult::Empty };
        this.tracker.on_read(came);
        if let (Poll::Ready(Ok(())), ReadResult::Empty) = (&read, came)
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
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_when_all_received_requests_are_answered() {
        let drain = Drain::new();
        let pace = ConnectionTracker::new(&drain);
        assert!(!pace.is_quiet(), "nobody has looked yet");
        pace.on_read(ReadResult::Empty);
        assert!(pace.is_quiet());
        pace.on_read(ReadResult::Bytes);
        pace.on_read(ReadResult::Empty);
        assert!(!pace.is_quiet(), "the beginning of a request has arrived");
        let busy = pace.start_request();
        assert!(!pace.is_quiet());
        pace.on_read(ReadResult::Bytes);
        drop(busy);
        assert!(!pace.is_quiet(), "another has arrived meanwhile");
        drop(pace.start_request());
        pace.on_read(ReadResult::Empty);
        assert!(pace.is_quiet() && !pace.has_unread_input());
        pace.start_request().abandon_body();
        assert!(pace.has_unread_input());
    }

    #[test]
    fn request_time_starts_at_the_first_byte() {
        let (drain, bounds) = (Drain::new(), Bounds::default());
        let pace = ConnectionTracker::new(&drain);
        pace.on_read(ReadResult::Bytes);
        let first = pace.since();
        assert_eq!(pace.deadline(&bounds), Some(first + bounds.header_timeout));
        pace.on_read(ReadResult::Bytes);
        let busy = pace.start_request();
        assert_eq!(pace.deadline(&bounds), None, "who answers it sees to it");
        pace.on_read(ReadResult::Bytes);
        assert_eq!(busy.arrival_deadline(&bounds), first + bounds.header_timeout, "its body has what is left");
    }

    #[test]
    fn the_last_reply_closes_the_connection() {
        let drain = Drain::new();
        let pace = ConnectionTracker::new(&drain);
        let closes = |reply: Reply| reply.headers().contains_key(CONNECTION);
        pace.on_read(ReadResult::Empty);
        assert!(!closes(pace.start_request().finish(Reply::default())));
        drain.begin();
        assert!(closes(pace.start_request().finish(Reply::default())));
        pace.on_read(ReadResult::Bytes);
        assert!(!closes(pace.start_request().finish(Reply::default())), "there may be another behind it");
    }
}
