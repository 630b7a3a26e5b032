//! The body of a response: from the server, perhaps recorded, or from the cache.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::entry::Entry;
use super::store::CacheStore;

pin_project! {
    /// The body of a response that came through a [`CacheLayer`](super::CacheLayer).
    #[derive(Debug)]
    pub struct CacheBody<B> {
        #[pin]
        kind: BodyKind<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = BodyKindProject]
    enum BodyKind<B> {
        Stored { data: Option<Bytes> },
        Received { #[pin] body: B, recording: Option<Recording> },
    }
}

/// A response that is stored when its body has been read to the end.
#[derive(Debug)]
pub(super) struct Recording {
    pub store: Arc<CacheStore>,
    pub key: Box<str>,
    pub entry: Entry,
    pub data: Vec<u8>,
}

impl<B: Body> CacheBody<B> {
    /// A stored body.
    pub(super) fn stored(data: Bytes) -> Self {
        Self { kind: BodyKind::Stored { data: Some(data).filter(|data| !data.is_empty()) } }
    }

    /// A body from the server.
    pub(super) fn received(body: B, mut recording: Option<Recording>) -> Self {
        if body.is_end_stream() {
            recording.take().into_iter().for_each(Recording::finish);
        }
        Self { kind: BodyKind::Received { body, recording } }
    }
}

impl Recording {
    fn finish(mut self) {
        self.entry.body = self.data.into();
        if self.entry.is_complete() {
            self.store.insert(self.key, self.entry);
        }
    }
}

impl<B: Body> Body for CacheBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let (mut body, recording) = match self.project().kind.project() {
            BodyKindProject::Stored { data } => {
                return Poll::Ready(data.take().map(|data| Ok(Frame::data(data))));
            }
            BodyKindProject::Received { body, recording } => (body, recording),
        };
        let frame = match ready!(body.as_mut().poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                // The end of the body may follow, but it is not whole.
                *recording = None;
                return Poll::Ready(Some(Err(error)));
            }
            None => {
                recording.take().into_iter().for_each(Recording::finish);
                return Poll::Ready(None);
            }
        };
        let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
        match (frame.data_ref(), recording.as_mut()) {
            (Some(data), Some(recorded))
                if recorded.data.len() + data.len() <= recorded.store.body_bytes_max() =>
            {
                recorded.data.extend_from_slice(data);
            }
            // Too long, or with trailers, which are not stored.
            _ => *recording = None,
        }
        if body.is_end_stream() {
            // A reader may not ask again.
            recording.take().into_iter().for_each(Recording::finish);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Stored { data } => data.is_none(),
            BodyKind::Received { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Stored { data } => {
                SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64))
            }
            BodyKind::Received { body, .. } => body.size_hint(),
        }
    }
}
