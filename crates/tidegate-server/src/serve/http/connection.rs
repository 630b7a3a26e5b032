//! One connection: serves requests one after the other, within bounds, until it ends or the server drains.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::connection_timer::ConnectionTimer;
use super::connection_waker::ConnectionWaker;
use super::direct::{self, DirectChecks, Unread};
use super::reply::Reply;
use super::tracker::{ConnectionTracker, RequestGuard, TrackedStream};
use crate::serve::listen::Stream;
use crate::serve::poll_on_wake::PollOnWake;
use crate::serve::settings::Bounds;
use crate::serve::{App, Protocol};

/// Maximum bytes of a request that are buffered.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes that are discarded after the last response.
const DISCARD_BYTES_MAX: usize = 8 << 20;
/// Maximum bytes that are discarded per read.
const DISCARD_CHUNK_BYTES: usize = 16 << 10;

/// A request as hyper receives it.
pub(super) type HttpRequest = hyper::Request<Incoming>;

/// Answers requests.
pub(super) trait RequestHandler: Send + Sync {
    /// Answers a request. The reply must go through [`RequestGuard::finish`].
    fn handle(
        &self,
        request: HttpRequest,
        guard: RequestGuard<'_>,
    ) -> impl Future<Output = Result<Reply, Infallible>> + Send;

    /// What it needs to answer checks without hyper, if it answers checks.
    fn direct_checks(&self) -> Option<DirectChecks<'_>> {
        None
    }
}

/// What a connection needs.
#[derive(Clone, Copy)]
pub(super) struct ConnectionContext<'a> {
    pub app: &'a App,
    pub protocol: Protocol,
    pub bounds: &'a Bounds,
    pub head: HeadBounds,
}

/// The bounds of a request's head. hyper rejects larger ones itself, with a status and no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadBounds {
    /// Maximum size of the first line and the headers.
    head_bytes_max: usize,
    /// Maximum number of headers. None for hyper's own, which needs no allocation.
    headers_max: Option<usize>,
}

impl HeadBounds {
    /// For programs, which send few headers.
    pub const DEFAULT: Self = Self { head_bytes_max: 16 << 10, headers_max: None };
    /// For the headers of requests that proxies have accepted: nginx accepts 32 KiB. The endpoint has smaller bounds, and
    /// rejects what is larger in its own way, as long as hyper does not.
    pub const FORWARDED: Self = Self { head_bytes_max: BUFFER_BYTES_MAX, headers_max: Some(1_024) };
}

/// How a connection ended.
enum ConnectionEnd {
    /// By itself, or with an error.
    Finished(hyper::Result<()>),
    /// It took too long.
    TimedOut,
}

/// How far the connection is with a drain.
enum DrainState<F> {
    /// The server does not drain.
    Waiting(PollOnWake<F>),
    /// The server drains, and requests that have arrived are still being answered.
    Draining,
    /// All requests are answered.
    Done,
}

/// Serves a connection until it ends.
pub(super) async fn serve(handler: &impl RequestHandler, stream: Stream, context: ConnectionContext<'_>) {
    let ConnectionContext { app, protocol, bounds, head } = context;
    let tracker = ConnectionTracker::new(&app.drain, app.connections_memory.reserve_nothing(protocol));
    let mut timer = ConnectionTimer::new(bounds);
    let unread = match handler.direct_checks() {
        None => Unread { stream, input: Bytes::new() },
        Some(checks) => match direct::serve(checks, stream, &tracker, &mut timer).await {
            Some(unread) => unread,
            None => return,
        },
    };
    let io = TokioIo::new(TrackedStream { unread, tracker: &tracker });
    let service = service_fn(|request| handler.handle(request, tracker.start_request()));
    let mut builder = http1::Builder::new();
    if let Some(headers_max) = head.headers_max {
        builder.max_headers(headers_max);
    }
    let mut connection = builder
        .max_header_size(head.head_bytes_max)
        .max_buf_size(BUFFER_BYTES_MAX)
        // Responses are small: copying the body behind the headers is cheaper than writing two slices.
        .writev(false)
        .serve_connection(io, service);
    let mut drain_state = DrainState::Waiting(PollOnWake::new(Box::pin(app.drain.wait())));
    let mut waker = ConnectionWaker::default();
    let end = poll_fn(|context| {
        loop {
            let mut connection_context = Context::from_waker(waker.of_task(context.waker()));
            if let Poll::Ready(result) = Pin::new(&mut connection).poll(&mut connection_context) {
                return Poll::Ready(ConnectionEnd::Finished(result));
            }
            if let DrainState::Waiting(drain) = &mut drain_state
                && drain.poll(context).is_ready()
            {
                drain_state = DrainState::Draining;
            }
            // hyper does not know of requests that have arrived behind the current one, and would close without
            // answering them.
            if matches!(drain_state, DrainState::Draining) && tracker.is_quiet() {
                drain_state = DrainState::Done;
                Pin::new(&mut connection).graceful_shutdown();
                continue;
            }
            return timer.poll(context, &tracker).map(|()| ConnectionEnd::TimedOut);
        }
    });
    if let ConnectionEnd::Finished(result) = end.await {
        if let Err(error) = result {
            count_error(app, protocol, &error);
        }
        if tracker.has_unread_input() {
            let stream = connection.into_parts().io.into_inner().unread.stream;
            // The connection is closed if this takes longer.
            let _ = timeout(bounds.header_timeout, Box::pin(discard(stream))).await;
        }
    }
}

/// Counts errors that hyper answered itself, with only a status, because the input was not valid HTTP.
#[cold]
fn count_error(app: &App, protocol: Protocol, error: &hyper::Error) {
    if error.is_parse_version_h2() {
        app.metrics.count_wrong_protocol(protocol, "http2");
    } else if error.is_parse_too_large() {
        app.metrics.count_rejected_request(protocol, "head_too_large");
    } else if error.is_parse() {
        app.metrics.count_rejected_request(protocol, "bad_request");
    }
}

/// Discards what the client still sends after the last response. Closing a connection with unread input resets it, and
/// the client might never read the response.
async fn discard(mut stream: Stream) {
    // Already done, unless the input was so invalid that hyper sent no response.
    let _ = stream.shutdown().await;
    let mut discarded = 0;
    let mut chunk = vec![0; DISCARD_CHUNK_BYTES];
    while let Ok(bytes @ 1..) = stream.read(&mut chunk).await {
        discarded += bytes;
        if discarded > DISCARD_BYTES_MAX {
            return;
        }
    }
}
