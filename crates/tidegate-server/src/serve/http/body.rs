//! The body of a request, within bounds.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::header::EXPECT;
use tokio::time::{Instant, Sleep};

use super::connection::Asked;
use crate::serve::settings::Bounds;

/// How much of a body that is too large is read and thrown away, in bytes, so that whoever sends it gets to read why.
const DISCARDED_BYTES_MAX: usize = 8 << 20;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum BodyError {
    /// It is larger than it may be.
    TooLarge,
    /// It took longer than it may take.
    Late,
    /// It ended before it was over, or is not as HTTP says.
    Broken,
}

/// A body that is to be read.
pub(in crate::serve) struct Unread {
    body: Incoming,
    /// Whether the client sends it only if it is asked to.
    waits_to_be_asked: bool,
}

impl From<Asked> for Unread {
    /// Of this request, whose head nobody needs any more.
    fn from(asked: Asked) -> Self {
        let waits_to_be_asked = asked.headers().contains_key(EXPECT);
        Self { body: asked.into_body(), waits_to_be_asked }
    }
}

/// Reads the body of a request.
pub(in crate::serve) async fn read(unread: Unread, bounds: &Bounds) -> Result<Bytes, BodyError> {
    let Unread { mut body, waits_to_be_asked } = unread;
    let body = &mut body;
    let announced = body.size_hint().lower();
    let mut late = Late { after: bounds.header_timeout, pendings: 0, alarm: None };
    if announced > bounds.body_bytes_max as u64 {
        if !waits_to_be_asked && announced <= DISCARDED_BYTES_MAX as u64 {
            discard(body, &mut late).await;
        }
        return Err(BodyError::TooLarge);
    }
    let Some(first) = next(body, &mut late).await? else { return Ok(Bytes::new()) };
    // Nearly always it comes in one piece.
    if body.is_end_stream() && first.len() <= bounds.body_bytes_max {
        return Ok(first);
    }
    let (mut whole, mut piece) = (BytesMut::new(), Some(first));
    while let Some(more) = piece {
        if whole.len() + more.len() > bounds.body_bytes_max {
            discard(body, &mut late).await;
            return Err(BodyError::TooLarge);
        }
        whole.extend_from_slice(&more);
        piece = next(body, &mut late).await?;
    }
    Ok(whole.freeze())
}

/// The next piece; none at the end.
async fn next(body: &mut Incoming, late: &mut Late) -> Result<Option<Bytes>, BodyError> {
    loop {
        let frame = poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => late.poll(context).map(|()| Err(BodyError::Late)),
        });
        match frame.await?.map(|frame| frame.map(Frame::into_data)) {
            None => return Ok(None),
            Some(Ok(Ok(data))) if !data.is_empty() => return Ok(Some(data)),
            // What stands behind a body in chunks says nothing to us.
            Some(Ok(_)) => {}
            Some(Err(_)) => return Err(BodyError::Broken),
        }
    }
}

async fn discard(body: &mut Incoming, late: &mut Late) {
    let mut discarded = 0;
    while let Ok(Some(more)) = next(body, late).await {
        discarded += more.len();
        if discarded > DISCARDED_BYTES_MAX {
            return;
        }
    }
}

/// The time that a body may take.
///
/// The first poll of a body comes to nothing even if it is there already, for that is how the library learns that
/// somebody wants it. So the alarm is set only by the second.
struct Late {
    after: std::time::Duration,
    pendings: u32,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Late {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.pendings = self.pendings.saturating_add(1);
        if self.pendings < 2 {
            return Poll::Pending;
        }
        let after = self.after;
        let alarm =
            self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + after)));
        alarm.as_mut().poll(context)
    }
}
