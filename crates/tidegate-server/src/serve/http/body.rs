//! Reads the body of a request, within bounds.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::body::{Body as _, Frame, Incoming};
use tokio::time::Sleep;

use super::connection_waker::{Wakes, hold_back_wakes};
use super::reply::{ErrorReply, OutOfMemory, Problem};
use super::tracker::RequestGuard;
use crate::serve::settings::Bounds;

/// A body of this size in one chunk is part of what its connection may hold.
const SMALL_BODY_BYTES: usize = 8 << 10;

/// Reads a body. The caller has dropped the rest of the request, so that it is not kept, or moved, while this waits.
pub(super) async fn read_body(
    body: Incoming,
    guard: &RequestGuard<'_>,
    bounds: &Bounds,
) -> Result<Bytes, ErrorReply> {
    read(body, guard, bounds).await.map_err(|error| error.into_reply(guard, bounds))
}

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyError {
    TooLarge,
    TimedOut,
    /// Connections hold too much already.
    NoMemory,
    /// The body is shorter than announced, or malformed.
    Incomplete,
}

impl BodyError {
    #[cold]
    fn into_reply(self, guard: &RequestGuard<'_>, bounds: &Bounds) -> ErrorReply {
        let (status, message) = match self {
            Self::TooLarge => {
                guard.abandon_body();
                let max = bounds.body_bytes_max;
                let message = format!(
                    "the body is larger than {max} bytes (hint: send fewer requests at a time, or raise the \
                             server's --request-bytes-max)"
                );
                (StatusCode::PAYLOAD_TOO_LARGE, message)
            }
            Self::TimedOut => {
                let timeout = bounds.header_timeout;
                let message =
                    format!("the request did not arrive within {timeout:?} (hint: is content-length right?)");
                (StatusCode::REQUEST_TIMEOUT, message)
            }
            Self::NoMemory => {
                guard.abandon_body();
                let message = "the server has no memory for the body (hint: try again later, or raise the server's \
                               --connections-memory-max)";
                (StatusCode::SERVICE_UNAVAILABLE, message.to_owned())
            }
            Self::Incomplete => {
                let message = "the body is incomplete (hint: is content-length right?)";
                (StatusCode::BAD_REQUEST, message.to_owned())
            }
        };
        let mut reply = Problem::new(status, message).closing().into_error_reply();
        if self == Self::NoMemory {
            reply.extensions_mut().insert(OutOfMemory);
        }
        reply
    }
}

async fn read(mut body: Incoming, guard: &RequestGuard<'_>, bounds: &Bounds) -> Result<Bytes, BodyError> {
    let body = &mut body;
    // Reject a large body early: the client may need long to send it.
    if body.size_hint().lower() > bounds.body_bytes_max as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut timeout = BodyTimeout { guard, bounds, pendings: 0, timer: None };
    let Some(first) = next_chunk(body, &mut timeout).await? else { return Ok(Bytes::new()) };
    // Nearly always the body comes in one chunk.
    if body.is_end_stream() && first.len() <= bounds.body_bytes_max {
        let has_room = first.len() <= SMALL_BODY_BYTES || guard.try_hold(first.len());
        return if has_room { Ok(first) } else { Err(BodyError::NoMemory) };
    }
    let (mut whole, mut next) = (BytesMut::new(), Some(first));
    while let Some(chunk) = next {
        if whole.len() + chunk.len() > bounds.body_bytes_max {
            return Err(BodyError::TooLarge);
        }
        if !guard.try_hold(whole.len() + chunk.len()) {
            return Err(BodyError::NoMemory);
        }
        whole.extend_from_slice(&chunk);
        next = next_chunk(body, &mut timeout).await?;
    }
    Ok(whole.freeze())
}

/// The next chunk of the body; `None` at the end.
async fn next_chunk(body: &mut Incoming, timeout: &mut BodyTimeout<'_>) -> Result<Option<Bytes>, BodyError> {
    loop {
        let frame = poll_fn(|context| {
            let (frame, wakes) = hold_back_wakes(|| Pin::new(&mut *body).poll_frame(context));
            // hyper needs no wake if it has already passed on the whole body.
            if wakes == Wakes::HeldBack && !body.is_end_stream() {
                context.waker().wake_by_ref();
            }
            match frame {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => timeout.poll(context).map(|()| Err(BodyError::TimedOut)),
            }
        });
        match frame.await?.map(|frame| frame.map(Frame::into_data)) {
            None => return Ok(None),
            Some(Ok(Ok(data))) if !data.is_empty() => return Ok(Some(data)),
            // Trailers are ignored.
            Some(Ok(_)) => {}
            Some(Err(_)) => return Err(BodyError::Incomplete),
        }
    }
}

/// The timeout of a body: the time for the whole request, without what its headers took.
///
/// The first poll of a body is pending even if the body has arrived, because that poll tells hyper that the body is
/// wanted. So the timer is set only at the second poll.
struct BodyTimeout<'b> {
    guard: &'b RequestGuard<'b>,
    bounds: &'b Bounds,
    pendings: u32,
    timer: Option<Pin<Box<Sleep>>>,
}

impl BodyTimeout<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.pendings = self.pendings.saturating_add(1);
        if self.pendings < 2 {
            return Poll::Pending;
        }
        let (guard, bounds) = (self.guard, self.bounds);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(guard.arrival_deadline(bounds))));
        timer.as_mut().poll(context)
    }
}
