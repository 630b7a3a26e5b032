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

use super::pace::{RequestGuard, ConnectionTracker, TrackedStream};
use super::reply::Reply;
use crate::serve::listening::Stream;
use crate::serve::settings::Bounds;
use crate::serve::when_woken::PollOnWake;
use crate::serve::{App, Protocol};

/// The largest head of a request, its first line and all headers, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most of a request that is kept before somebody takes it, in bytes.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How much of what nobody reads is thrown away after the last answer, in bytes, and how much at a time.
const DISCARD_BYTES_MAX: usize = 8 << 20;
const DISCARD_CHUNK_BYTES: usize = 16 << 10;

/// A request as it comes in.
pub(in crate::serve) type HttpRequest = hyper::Request<Incoming>;

/// Answers requests.
pub(in crate::serve) trait RequestHandler: Send + Sync {
    /// Answers a request. `busy` is to [see the reply off](Busy::sent_off).
    fn handle(&self, asked: HttpRequest, busy: RequestGuard<'_>) -> impl Future<Output = Result<Reply, Infallible>> + Send;
}

/// What a connection is served for, and within which bounds.
#[derive(Clone, Copy)]
pub(in crate::serve) struct ConnectionContext<'a> {
    pub app: &'a App,
    pub protocol: Protocol,
    pub bounds: &'a Bounds,
}

/// Why a connection ends.
enum ConnectionEnd {
    /// It came to its end.
    Finished(hyper::Result<()>),
    /// It took too long.
    TimedOut,
}

/// What is done about the end of the server.
enum DrainState<F> {
    /// It is waited for.
    Waiting(PollOnWake<F>),
    /// It has come, and what has arrived before is to be answered.
    Draining,
    /// All is answered.
    Done,
}

/// Serves a connection until it ends.
pub(in crate::serve) async fn serve(handles: &impl RequestHandler, stream: Stream, terms: ConnectionContext<'_>) {
    let ConnectionContext { app, protocol: by, bounds } = terms;
    let pace = ConnectionTracker::new(&app.drain);
    let io = TokioIo::new(TrackedStream { stream, tracker: &pace });
    let service = service_fn(|asked| handles.handle(asked, pace.start_request()));
    let mut connection = http1::Builder::new()
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        // Answers are small: to copy one behind its head is cheaper than to have two pieces sent.
        .writev(false)
        .serve_connection(io, service);
    let mut draining = DrainState::Waiting(PollOnWake::new(Box::pin(app.drain.wait())));
    let first = bounds.header_timeout.min(bounds.idle_timeout);
    let mut alarm = PollOnWake::new(Box::pin(tokio::time::sleep(first)));
    let end = poll_fn(|context| {
        loop {
            if let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
                return Poll::Ready(ConnectionEnd::Finished(ended));
            }
            if let DrainState::Waiting(begun) = &mut draining
                && begun.poll(context).is_ready()
            {
                draining = DrainState::Draining;
            }
            // It knows nothing of what has arrived behind a request, and would close on it.
            if matches!(draining, DrainState::Draining) && pace.is_quiet() {
                draining = DrainState::Done;
                Pin::new(&mut connection).graceful_shutdown();
                continue;
            }
            if alarm.poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            match pace.deadline(bounds) {
                Some(deadline) if deadline <= now => return Poll::Ready(ConnectionEnd::TimedOut),
                deadline => {
                    // Nothing that begins now is over before that.
                    let next = deadline.unwrap_or(now + first).min(now + first);
                    alarm.future_mut().as_mut().reset(next);
                }
            }
        }
    });
    if let ConnectionEnd::Finished(ended) = end.await {
        if let Err(error) = ended {
            count_error(app, by, &error);
        }
        if pace.has_unread_input() {
            let stream = connection.into_parts().io.into_inner().stream;
            // If it is not over by then, it is cut off.
            let _ = timeout(bounds.header_timeout, Box::pin(discard(stream))).await;
        }
    }
}

/// Counts what the library has refused by itself, with a status and nothing else: it was no HTTP.
#[cold]
fn count_error(app: &App, by: Protocol, error: &hyper::Error) {
    if error.is_parse_version_h2() {
        app.metrics.count_wrong_protocol(by, "http2");
    } else if error.is_parse_too_large() {
        app.metrics.count_rejected_request(by, "head_too_large");
    } else if error.is_parse() {
        app.metrics.count_rejected_request(by, "bad_request");
    }
}

/// Throws away what a client still sends after the last answer. Closed with something unread, a connection is reset, and
/// the client may never get to read the answer.
async fn discard(mut stream: Stream) {
    // It has been, unless what came was so strange that there was nothing to say.
    let _ = stream.shutdown().await;
    let mut discarded = 0;
    let mut piece = vec![0; DISCARD_CHUNK_BYTES];
    while let Ok(bytes @ 1..) = stream.read(&mut piece).await {
        discarded += bytes;
        if discarded > DISCARD_BYTES_MAX {
            return;
        }
    }
}
