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
pub(super) struct Pace<'d> {
    drain: &'d Drain,
    opened: Instant,
    doing: AtomicU8,
    /// From when it was opened.
    since_us: AtomicU64,
    /// Whether all that has arrived was taken: more was asked for, and there was none.
    is_all_taken: AtomicBool,
    /// Whether the client goes on to send what nobody is to read.
    is_abandoned: AtomicBool,
    /// Whether the client was found to send nothing any more while a request was being answered.
    has_ended: AtomicBool,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Doing {
    /// Nothing.
    Idle,
    /// It has sent the beginning of a request.
    Head,
    /// A request is being answered. Whoever answers it sees to its time.
    Request,
}

/// A request is being answered, until this is dropped.
pub(in crate::serve) struct Busy<'p>(&'p Pace<'p>);

impl<'d> Pace<'d> {
    /// Of a connection that was just opened, and that ends when this drains.
    pub fn of(drain: &'d Drain) -> Self {
        Self {
            drain,
            opened: Instant::now(),
            doing: AtomicU8::new(Doing::Idle as u8),
            since_us: AtomicU64::new(0),
            is_all_taken: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }
    }

    /// A request is being answered.
    pub fn busy(&self) -> Busy<'_> {
        if self.is(Doing::Idle) {
            // It has come along with the one before.
            self.begin(Doing::Request);
        } else {
            self.doing.store(Doing::Request as u8, Ordering::Relaxed);
        }
        Busy(self)
    }

    /// When it will have taken too long, if it goes on as now; none if somebody else sees to that.
    pub fn deadline(&self, bounds: &Bounds) -> Option<Instant> {
        match self.doing.load(Ordering::Relaxed) {
            doing if doing == Doing::Idle as u8 => Some(self.since() + bounds.idle_timeout),
            doing if doing == Doing::Head as u8 => Some(self.since() + bounds.header_timeout),
            _ => None,
        }
    }

    /// Whether all requests that have arrived are answered.
    pub fn is_quiet(&self) -> bool {
        self.is(Doing::Idle) && self.is_all_taken()
    }

    /// Whether the client has sent something, or goes on to, that nobody has read.
    pub fn leaves_unread(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed) || !self.is_all_taken()
    }

    /// The client sends nothing any more, and this is when the library is told of it: it takes such a client for gone, and
    /// would not even look at what that has asked before. What it has looked at, and a rule holds, it drops.
    fn ended(&self) -> Told {
        match self.is(Doing::Request) && !self.has_ended.swap(true, Ordering::Relaxed) {
            true => Told::Later,
            false => Told::Now,
        }
    }

    fn is(&self, doing: Doing) -> bool {
        self.doing.load(Ordering::Relaxed) == doing as u8
    }

    fn is_all_taken(&self) -> bool {
        self.is_all_taken.load(Ordering::Relaxed)
    }

    fn since(&self) -> Instant {
        self.opened + Duration::from_micros(self.since_us.load(Ordering::Relaxed))
    }

    /// More was asked for, and this is what came.
    fn took(&self, came: Came) {
        self.is_all_taken.store(came == Came::Nothing, Ordering::Relaxed);
        if came == Came::Something && self.is(Doing::Idle) {
            self.begin(Doing::Head);
        }
    }

    fn begin(&self, doing: Doing) {
        let since_us = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.since_us.store(since_us, Ordering::Relaxed);
        self.doing.store(doing as u8, Ordering::Relaxed);
    }
}

impl Busy<'_> {
    /// When the request will have taken too long to arrive, from its first byte to its last.
    pub fn arrives_by(&self, bounds: &Bounds) -> Instant {
        self.0.since() + bounds.header_timeout
    }

    /// What the client goes on to send, nobody is to read.
    pub fn abandon(&self) {
        self.0.is_abandoned.store(true, Ordering::Relaxed);
    }

    /// The reply, as it is to be sent. If the server is about to stop and nothing has arrived behind the request, it says
    /// that it is the last.
    pub fn sent_off(self, mut reply: Reply) -> Reply {
        // The library takes whatever stands behind a request as soon as it has all of the request, or asks for it: so it
        // is known by now whether anything does.
        if self.0.drain.is_on() && self.0.is_all_taken() {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.begin(Doing::Idle);
    }
}

/// What came when more was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Something,
    /// Not yet, or never.
    Nothing,
}

/// When the library is told something.
enum Told {
    Now,
    /// When it asks again.
    Later,
}

/// A stream that tells when something arrives.
pub(super) struct Paced<'p> {
    pub stream: Stream,
    pub pace: &'p Pace<'p>,
}

impl AsyncRead for Paced<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let came = if buffer.filled().len() > before { Came::Something } else { Came::Nothing };
        this.pace.took(came);
        if let (Poll::Ready(Ok(())), Came::Nothing) = (&read, came)
            && let Told::Later = this.pace.ended()
        {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        read
    }
}

impl AsyncWrite for Paced<'_> {
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
    fn quiet_when_all_that_has_arrived_is_answered() {
        let drain = Drain::new();
        let pace = Pace::of(&drain);
        assert!(!pace.is_quiet(), "nobody has looked yet");
        pace.took(Came::Nothing);
        assert!(pace.is_quiet());
        pace.took(Came::Something);
        pace.took(Came::Nothing);
        assert!(!pace.is_quiet(), "the beginning of a request has arrived");
        let busy = pace.busy();
        assert!(!pace.is_quiet());
        pace.took(Came::Something);
        drop(busy);
        assert!(!pace.is_quiet(), "another has arrived meanwhile");
        drop(pace.busy());
        pace.took(Came::Nothing);
        assert!(pace.is_quiet() && !pace.leaves_unread());
        pace.busy().abandon();
        assert!(pace.leaves_unread());
    }

    #[test]
    fn the_time_of_a_request_begins_with_its_first_byte() {
        let (drain, bounds) = (Drain::new(), Bounds::default());
        let pace = Pace::of(&drain);
        pace.took(Came::Something);
        let first = pace.since();
        assert_eq!(pace.deadline(&bounds), Some(first + bounds.header_timeout));
        pace.took(Came::Something);
        let busy = pace.busy();
        assert_eq!(pace.deadline(&bounds), None, "who answers it sees to it");
        pace.took(Came::Something);
        assert_eq!(busy.arrives_by(&bounds), first + bounds.header_timeout, "its body has what is left");
    }

    #[test]
    fn the_last_reply_says_that_it_is() {
        let drain = Drain::new();
        let pace = Pace::of(&drain);
        let closes = |reply: Reply| reply.headers().contains_key(CONNECTION);
        pace.took(Came::Nothing);
        assert!(!closes(pace.busy().sent_off(Reply::default())));
        drain.begin();
        assert!(closes(pace.busy().sent_off(Reply::default())));
        pace.took(Came::Something);
        assert!(!closes(pace.busy().sent_off(Reply::default())), "there may be another behind it");
    }
}
