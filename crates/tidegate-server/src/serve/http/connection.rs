//! One connection: requests one after the other, within bounds, until it ends or the server drains.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use super::pace::{Busy, Pace, Paced};
use super::reply::Reply;
use crate::serve::listening::Stream;
use crate::serve::settings::Bounds;
use crate::serve::when_woken::WhenWoken;
use crate::serve::{App, Protocol};

/// The largest head of a request, its first line and all headers, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most of a request that is kept before somebody takes it, in bytes.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How much of what nobody reads is thrown away after the last answer, in bytes, and how much at a time.
const DISCARDED_BYTES_MAX: usize = 8 << 20;
const DISCARDED_AT_A_TIME_BYTES: usize = 16 << 10;

/// A request as it comes in.
pub(in crate::serve) type Asked = hyper::Request<Incoming>;

/// Answers requests.
pub(in crate::serve) trait Handles: Send + Sync {
    /// Answers a request. `busy` is to [see the reply off](Busy::sent_off).
    fn handle(&self, asked: Asked, busy: Busy<'_>) -> impl Future<Output = Result<Reply, Infallible>> + Send;
}

/// What a connection is served for, and within which bounds.
#[derive(Clone, Copy)]
pub(in crate::serve) struct Terms<'a> {
    pub app: &'a App,
    pub by: Protocol,
    pub bounds: &'a Bounds,
}

/// Why a connection ends.
enum End {
    /// It came to its end.
    Due(hyper::Result<()>),
    /// It took too long.
    Late,
}

/// What is done about the end of the server.
enum Draining<F> {
    /// It is waited for.
    NotYet(WhenWoken<F>),
    /// It has come, and what has arrived before is to be answered.
    Begun,
    /// All is answered.
    Answered,
}

/// Serves a connection until it ends.
pub(in crate::serve) async fn serve(handles: &impl Handles, stream: Stream, terms: Terms<'_>) {
    let Terms { app, by, bounds } = terms;
    let pace = Pace::of(&app.drain);
    let io = TokioIo::new(Paced { stream, pace: &pace });
    let service = service_fn(|asked| handles.handle(asked, pace.busy()));
    let mut connection = http1::Builder::new()
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        // Answers are small: to copy one behind its head is cheaper than to have two pieces sent.
        .writev(false)
        .serve_connection(io, service);
    let mut draining = Draining::NotYet(WhenWoken::new(Box::pin(app.drain.begun())));
    let first = bounds.header_timeout.min(bounds.idle_timeout);
    let mut alarm = WhenWoken::new(Box::pin(tokio::time::sleep(first)));
    let end = poll_fn(|context| {
        loop {
            if let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
                return Poll::Ready(End::Due(ended));
            }
            if let Draining::NotYet(begun) = &mut draining
                && begun.poll(context).is_ready()
            {
                draining = Draining::Begun;
            }
            // It knows nothing of what has arrived behind a request, and would close on it.
            if matches!(draining, Draining::Begun) && pace.is_quiet() {
                draining = Draining::Answered;
                Pin::new(&mut connection).graceful_shutdown();
                continue;
            }
            if alarm.poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            match pace.deadline(bounds) {
                Some(deadline) if deadline <= now => return Poll::Ready(End::Late),
                deadline => {
                    // Nothing that begins now is over before that.
                    let next = deadline.unwrap_or(now + first).min(now + first);
                    alarm.change().as_mut().reset(next);
                }
            }
        }
    });
    if let End::Due(ended) = end.await {
        if let Err(error) = ended {
            note(app, by, &error);
        }
        if pace.leaves_unread() {
            let stream = connection.into_parts().io.into_inner().stream;
            // If it is not over by then, it is cut off.
            let _ = timeout(bounds.header_timeout, Box::pin(discard(stream))).await;
        }
    }
}

/// Counts what the library has refused by itself, with a status and nothing else: it was no HTTP.
#[cold]
fn note(app: &App, by: Protocol, error: &hyper::Error) {
    if error.is_parse_version_h2() {
        app.metrics.foreign(by, "http2");
    } else if error.is_parse_too_large() {
        app.metrics.rejected(by, "head_too_large");
    } else if error.is_parse() {
        app.metrics.rejected(by, "bad_request");
    }
}

/// Throws away what a client still sends after the last answer. Closed with something unread, a connection is reset, and
/// the client may never get to read the answer.
async fn discard(mut stream: Stream) {
    // It has been, unless what came was so strange that there was nothing to say.
    let _ = stream.shutdown().await;
    let mut discarded = 0;
    let mut piece = vec![0; DISCARDED_AT_A_TIME_BYTES];
    while let Ok(bytes @ 1..) = stream.read(&mut piece).await {
        discarded += bytes;
        if discarded > DISCARDED_BYTES_MAX {
            return;
        }
    }
}
