//! The body of a response: of the inner service, or of the layer itself. It holds the request's slot.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::slots::Slot;

pin_project! {
    /// The body of a response that came through a [`RateLimitLayer`](super::RateLimitLayer).
    ///
    /// A request that holds units of a concurrency limit gives them back when its body has ended, or when the body is
    /// dropped because the client is gone.
    #[derive(Debug)]
    pub struct LimitedBody<B> {
        #[pin]
        kind: BodyKind<B>,
        slot: Option<Slot>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = BodyKindProject]
    enum BodyKind<B> {
        Inner { #[pin] body: B },
        Own { data: Option<Bytes> },
    }
}

impl<B> LimitedBody<B> {
    pub(super) fn inner(body: B, slot: Option<Slot>) -> Self {
        Self { kind: BodyKind::Inner { body }, slot }
    }

    pub(super) fn own(data: Bytes) -> Self {
        Self { kind: BodyKind::Own { data: Some(data).filter(|data| !data.is_empty()) }, slot: None }
    }
}

impl<B> Body for LimitedBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        match this.kind.project() {
            BodyKindProject::Own { data } => {
                Poll::Ready(data.take().map(|data| Ok(Frame::data(B::Data::from(data)))))
            }
            BodyKindProject::Inner { body } => {
                let frame = ready!(body.poll_frame(context));
                if !matches!(frame, Some(Ok(_))) {
                    *this.slot = None;
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Inner { body } => body.is_end_stream(),
            BodyKind::Own { data } => data.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Inner { body } => body.size_hint(),
            BodyKind::Own { data } => SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64)),
        }
    }
}
