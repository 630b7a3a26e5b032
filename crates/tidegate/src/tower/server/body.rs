//! The body of a response: of the inner service, or of the layer itself. It holds the request's slot.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::slots::Slot;

/// Decides the type of the bodies of responses: [`LimitedBodies`] or [`KeptBodies`].
pub trait ResponseBodies<R>: Clone {
    /// The type.
    type Body;

    /// Makes such a body.
    fn make(&self, body: LimitedBody<R>) -> Self::Body;
}

/// Responses have a [`LimitedBody`] around the body of the inner service.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitedBodies;

/// Responses keep the type of the body of the inner service. See [`keep_body`](super::RateLimitLayer::keep_body).
#[derive(Clone, Copy)]
pub struct KeptBodies<F>(pub(super) F);

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

impl<R> ResponseBodies<R> for LimitedBodies {
    type Body = LimitedBody<R>;

    #[inline]
    fn make(&self, body: LimitedBody<R>) -> LimitedBody<R> {
        body
    }
}

impl<R, F: Fn(LimitedBody<R>) -> R + Clone> ResponseBodies<R> for KeptBodies<F> {
    type Body = R;

    #[inline]
    fn make(&self, body: LimitedBody<R>) -> R {
        match body {
            LimitedBody { kind: BodyKind::Inner { body }, slot: None } => body,
            body => self.0(body),
        }
    }
}

impl<F> fmt::Debug for KeptBodies<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeptBodies")
    }
}

impl<B> LimitedBody<B> {
    #[inline]
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
