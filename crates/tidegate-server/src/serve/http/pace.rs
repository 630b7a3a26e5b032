//! What a connection is doing, and since when: what its deadlines go by.
//!
//! The library's own timeout for heads costs every request a timer and a look at the socket. Here a request costs two
//! looks at the clock, and one timer for each connection is set again only when it is over.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::serve::listening::Stream;
use crate::serve::settings::Bounds;

/// What a connection is doing, and since when.
pub(super) struct Pace {
    opened: Instant,
    doing: AtomicU8,
    /// From when it was opened.
    since_us: AtomicU64,
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
pub(in crate::serve) struct Busy<'p>(&'p Pace);

impl Pace {
    /// Of a connection that was just opened.
    pub fn new() -> Self {
        let doing = AtomicU8::new(Doing::Idle as u8);
        Self { opened: Instant::now(), doing, since_us: AtomicU64::new(0) }
    }

    /// A request is being answered.
    pub fn busy(&self) -> Busy<'_> {
        self.doing.store(Doing::Request as u8, Ordering::Relaxed);
        Busy(self)
    }

    /// When it will have taken too long, if it goes on as now; none if somebody else sees to that.
    pub fn deadline(&self, bounds: &Bounds) -> Option<Instant> {
        let doing = self.doing.load(Ordering::Relaxed);
        let since = self.opened + Duration::from_micros(self.since_us.load(Ordering::Relaxed));
        match doing {
            _ if doing == Doing::Idle as u8 => Some(since + bounds.idle_timeout),
            _ if doing == Doing::Head as u8 => Some(since + bounds.header_timeout),
            _ => None,
        }
    }

    fn arrived(&self) {
        if self.doing.load(Ordering::Relaxed) == Doing::Idle as u8 {
            self.begin(Doing::Head);
        }
    }

    fn begin(&self, doing: Doing) {
        let since_us = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.since_us.store(since_us, Ordering::Relaxed);
        self.doing.store(doing as u8, Ordering::Relaxed);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.begin(Doing::Idle);
    }
}

/// A stream that tells when something arrives.
pub(super) struct Paced<'p> {
    pub stream: Stream,
    pub pace: &'p Pace,
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
        if buffer.filled().len() > before {
            this.pace.arrived();
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
