//! A request body that can be sent again.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::tower::BoxError;

/// The body of an attempt. It keeps what it has read, so that the next attempt can send the same again.
///
/// Only the body of the last attempt may be read. An earlier one fails when it is read: the connection then does not send
/// the rest of a request that was already answered.
#[derive(Debug)]
pub struct ReplayBody<B> {
    shared: Arc<Mutex<ReplayState<B>>>,
    attempt: u32,
    /// How many recorded frames this attempt has sent.
    sent: usize,
}

/// Makes the bodies of all attempts.
#[derive(Debug)]
pub(super) struct ReplaySource<B>(Arc<Mutex<ReplayState<B>>>);

#[derive(Debug)]
struct ReplayState<B> {
    /// The caller's body. None once it has ended.
    body: Option<Pin<Box<B>>>,
    /// What was read from it. None once it is too long to keep.
    recorded: Option<Recorded>,
    /// The last attempt.
    attempt: u32,
}

#[derive(Debug, Default)]
struct Recorded {
    data: Vec<Bytes>,
    bytes: usize,
    bytes_max: usize,
    trailers: Option<HeaderMap>,
}

impl<B: Body> ReplaySource<B> {
    /// Bodies of more than `bytes_max` bytes are sent once.
    pub fn new(body: B, bytes_max: usize) -> Self {
        let body = (!body.is_end_stream()).then(|| Box::pin(body));
        let recorded = Some(Recorded { bytes_max, ..Recorded::default() });
        Self(Arc::new(Mutex::new(ReplayState { body, recorded, attempt: 0 })))
    }

    /// The body of the next attempt: of the first one, or after [`stop_attempt`](Self::stop_attempt).
    pub fn next_attempt(&self) -> ReplayBody<B> {
        let mut state = lock(&self.0);
        state.attempt += 1;
        ReplayBody { shared: Arc::clone(&self.0), attempt: state.attempt, sent: 0 }
    }

    /// Whether the body can be sent again.
    pub fn is_replayable(&self) -> bool {
        lock(&self.0).recorded.is_some()
    }

    /// Ends the last attempt, whose connection may still be reading the body: what it reads now could make the body too long
    /// to be sent again. None if it is already too long.
    pub fn stop_attempt(&self) -> Option<()> {
        let mut state = lock(&self.0);
        state.recorded.as_ref()?;
        state.attempt += 1;
        Some(())
    }
}

impl<B> Body for ReplayBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let mut state = lock(&this.shared);
        if state.attempt != this.attempt {
            return Poll::Ready(Some(Err("the request was sent again".into())));
        }
        if let Some(data) = state.recorded.as_ref().and_then(|recorded| recorded.data.get(this.sent)) {
            this.sent += 1;
            return Poll::Ready(Some(Ok(Frame::data(data.clone()))));
        }
        let frame = match &mut state.body {
            Some(body) => ready!(body.as_mut().poll_frame(context)),
            None => {
                let trailers = state.recorded.as_ref().and_then(|recorded| recorded.trailers.clone());
                // The caller's trailers come after all data, once.
                let is_first = this.sent != usize::MAX;
                this.sent = usize::MAX;
                return Poll::Ready(
                    trailers.filter(|_| is_first).map(|trailers| Ok(Frame::trailers(trailers))),
                );
            }
        };
        let Some(frame) = frame else {
            state.body = None;
            return Poll::Ready(None);
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                // What is left of the body is unknown.
                (state.body, state.recorded) = (None, None);
                return Poll::Ready(Some(Err(error.into())));
            }
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(mut data) => {
                let data = data.copy_to_bytes(data.remaining());
                state.record_data(&data);
                this.sent += 1;
                Frame::data(data)
            }
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => {
                    state.body = None;
                    this.sent = usize::MAX;
                    if let Some(recorded) = &mut state.recorded {
                        recorded.trailers = Some(trailers.clone());
                    }
                    Frame::trailers(trailers)
                }
                // A kind of frame that is not known yet cannot be kept.
                Err(_) => return Poll::Ready(Some(Err("a frame of an unknown kind".into()))),
            },
        })))
    }

    fn is_end_stream(&self) -> bool {
        let state = lock(&self.shared);
        let is_sent = |recorded: &Recorded| {
            self.sent == usize::MAX || (self.sent >= recorded.data.len() && recorded.trailers.is_none())
        };
        let is_read = state.body.as_ref().is_none_or(|body| body.is_end_stream());
        is_read && state.recorded.as_ref().is_none_or(is_sent)
    }

    fn size_hint(&self) -> SizeHint {
        let state = lock(&self.shared);
        let unread = state.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.size_hint());
        let recorded = state.recorded.as_ref().map_or(&[][..], |recorded| &recorded.data);
        let unsent = recorded.iter().skip(self.sent).map(|data| data.len() as u64).sum::<u64>();
        let mut hint = SizeHint::new();
        hint.set_lower(unread.lower() + unsent);
        if let Some(upper) = unread.upper() {
            hint.set_upper(upper + unsent);
        }
        hint
    }
}

impl<B> ReplayState<B> {
    fn record_data(&mut self, data: &Bytes) {
        let Some(recorded) = &mut self.recorded else { return };
        recorded.bytes += data.len();
        match recorded.bytes <= recorded.bytes_max {
            true => recorded.data.push(data.clone()),
            false => self.recorded = None,
        }
    }
}

fn lock<B>(state: &Mutex<ReplayState<B>>) -> MutexGuard<'_, ReplayState<B>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
