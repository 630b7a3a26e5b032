//! One connection: requests one after the other, within bounds, until it ends or the server drains.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::pace::{Busy, Pace, Paced};
use super::reply::Reply;
use crate::serve::Drain;
use crate::serve::listening::Stream;
use crate::serve::settings::Bounds;
use crate::serve::when_woken::WhenWoken;

/// The largest head of a request, its first line and all headers, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most of a request that is kept before somebody takes it, in bytes.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// A request as it comes in.
pub(in crate::serve) type Asked = hyper::Request<Incoming>;

/// Answers requests.
pub(in crate::serve) trait Handles: Send + Sync {
    /// Answers a request. `busy` is to be dropped when that is done.
    fn handle(&self, asked: Asked, busy: Busy<'_>) -> impl Future<Output = Result<Reply, Infallible>> + Send;
}

/// Serves a connection until it ends.
pub(in crate::serve) async fn serve(handles: &impl Handles, stream: Stream, bounds: &Bounds, drain: &Drain) {
    let pace = Pace::new();
    let io = TokioIo::new(Paced { stream, pace: &pace });
    let service = service_fn(|asked| handles.handle(asked, pace.busy()));
    let connection = http1::Builder::new()
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        // Answers are small: to copy one behind its head is cheaper than to have two pieces sent.
        .writev(false)
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let mut draining = Some(WhenWoken::new(Box::pin(drain.begun())));
    let first = bounds.header_timeout.min(bounds.idle_timeout);
    let mut alarm = WhenWoken::new(Box::pin(tokio::time::sleep(first)));
    poll_fn(|context| {
        loop {
            // What it ends with is the client's doing: it went away, or what it sent was no HTTP and it was told so.
            if connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            if let Some(begun) = &mut draining
                && begun.poll(context).is_ready()
            {
                draining = None;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            if alarm.poll(context).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            match pace.deadline(bounds) {
                Some(deadline) if deadline <= now => return Poll::Ready(()),
                deadline => {
                    // Nothing that begins now is over before that.
                    let next = deadline.unwrap_or(now + first).min(now + first);
                    alarm.change().as_mut().reset(next);
                }
            }
        }
    })
    .await;
}
