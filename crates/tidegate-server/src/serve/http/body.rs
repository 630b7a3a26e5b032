//! The body of a request, within bounds.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Frame, Incoming};
use tokio::time::Sleep;

use super::pace::RequestGuard;
use crate::serve::settings::Bounds;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum BodyError {
    /// It is larger than it may be.
    TooLarge,
    /// It took longer than it may take.
    TimedOut,
    /// It ended before it was over, or is not as HTTP says.
    Incomplete,
}

/// Reads the body of a request, whose head nobody needs any more.
pub(in crate::serve) async fn read(
    mut body: Incoming,
    busy: &RequestGuard<'_>,
    bounds: &Bounds,
) -> Result<Bytes, BodyError> {
    let body = &mut body;
    // What is too large is said at once. Whoever sends it may be far from done.
    if body.size_hint().lower() > bounds.body_bytes_max as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut late = BodyTimeout { busy, bounds, pendings: 0, timer: None };
    let Some(first) = next_chunk(body, &mut late).await? else { return Ok(Bytes::new()) };
    // Nearly always it comes in one piece.
    if body.is_end_stream() && first.len() <= bounds.body_bytes_max {
        return Ok(first);
    }
    let (mut whole, mut piece) = (BytesMut::new(), Some(first));
    while let Some(more) = piece {
        if whole.len() + more.len() > bounds.body_bytes_max {
            return Err(BodyError::TooLarge);
        }
        whole.extend_from_slice(&more);
        piece = next_chunk(body, &mut late).await?;
    }
    Ok(whole.freeze())
}

/// The next piece; none at the end.
async fn next_chunk(body: &mut Incoming, late: &mut BodyTimeout<'_>) -> Result<Option<Bytes>, BodyError> {
    loop {
        let frame = poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => late.poll(context).map(|()| Err(BodyError::TimedOut)),
        });
        match frame.await?.map(|frame| frame.map(Frame::into_data)) {
            None => return Ok(None),
            Some(Ok(Ok(data))) if !data.is_empty() => return Ok(Some(data)),
            // What stands behind a body in chunks says nothing to us.
            Some(Ok(_)) => {}
            Some(Err(_)) => return Err(BodyError::Incomplete),
        }
    }
}

/// The time that a body may take: what the head has left of that of the whole request.
///
/// The first poll of a body comes to nothing even if it is there already, for that is how the library learns that
/// somebody wants it. So the alarm is set only by the second.
struct BodyTimeout<'b> {
    busy: &'b RequestGuard<'b>,
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
        let (busy, bounds) = (self.busy, self.bounds);
        let alarm =
            self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(busy.arrival_deadline(bounds))));
        alarm.as_mut().poll(context)
    }
}
