//! The result of a decision that was made immediately, or the future of one that is made later.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_core::rules::Request;

use super::admitted::RequestCopy;
use super::{AdmittedRequest, DecideOutput, Engine, EngineError, RequestRefused};
use crate::Clock;
use crate::store::Store;

/// A decision. It is already made, unless the store answers later or a rule makes the request wait. Then this is its
/// future.
///
/// A future that is dropped while the request waits leaves the queue, and was charged nothing. If it is dropped while a
/// shared store is being asked, the request may have been charged. A woken future must be polled, because the requests
/// behind it wait for it.
#[must_use = "futures do nothing unless they are polled"]
pub struct DecideFuture(DecideState);

#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each decision")]
enum DecideState {
    /// Taken when it is polled.
    Now(Option<Result<DecideOutput, EngineError>>),
    Later(Pin<Box<dyn Future<Output = Result<DecideOutput, EngineError>> + Send>>),
}

impl DecideFuture {
    #[inline]
    pub(super) fn now(decided: DecideOutput) -> Self {
        Self(DecideState::Now(Some(Ok(decided))))
    }

    #[cold]
    pub(super) fn failed(error: EngineError) -> Self {
        Self(DecideState::Now(Some(Err(error))))
    }

    pub(super) fn later(
        future: impl Future<Output = Result<DecideOutput, EngineError>> + Send + 'static,
    ) -> Self {
        Self(DecideState::Later(Box::pin(future)))
    }

    /// The decision, if it is already made and not taken yet. It is large, so use this to read it without moving it.
    #[inline]
    pub fn as_now(&self) -> Option<&Result<DecideOutput, EngineError>> {
        match &self.0 {
            DecideState::Now(decided) => decided.as_ref(),
            DecideState::Later(_) => None,
        }
    }

    /// The decision, if it is already made. Otherwise the future.
    #[inline]
    #[allow(clippy::result_large_err, reason = "a pending decision is small")]
    pub fn try_now(self) -> Result<Result<DecideOutput, EngineError>, Self> {
        match self.0 {
            DecideState::Now(Some(decided)) => Ok(decided),
            other => Err(Self(other)),
        }
    }
}

impl Future for DecideFuture {
    type Output = Result<DecideOutput, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            DecideState::Now(decided) => {
                Poll::Ready(decided.take().expect("a future was polled after it was done"))
            }
            DecideState::Later(future) => future.as_mut().poll(context),
        }
    }
}

impl std::fmt::Debug for DecideFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            DecideState::Now(_) => "DecideFuture::Now",
            DecideState::Later(_) => "DecideFuture::Later",
        })
    }
}

/// The future of an [`AdmittedRequest`]. Returned by [`Engine::acquire`] and its variants.
///
/// The rules for dropping and polling a [`DecideFuture`] also apply here.
#[must_use = "futures do nothing unless they are polled"]
pub struct AcquireRequestFuture<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    deciding: DecideFuture,
    /// None once the future is done.
    pending: Option<(Engine<C, S>, RequestCopy)>,
}

impl<C, S> AcquireRequestFuture<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    pub(super) fn new(engine: &Engine<C, S>, request: &Request<'_>, deciding: DecideFuture) -> Self {
        Self { deciding, pending: Some((engine.clone(), RequestCopy::from_request(request))) }
    }
}

impl<C, S> Future for AcquireRequestFuture<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    type Output = Result<AdmittedRequest<C, S>, RequestRefused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let decided = ready!(Pin::new(&mut self.deciding).poll(context));
        let (engine, request) = self.pending.take().expect("a future was polled after it was done");
        Poll::Ready(AdmittedRequest::from_output(engine, request, decided))
    }
}

/// Releases the lease of a decision that was made but never taken by the caller.
impl<C, S> Drop for AcquireRequestFuture<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    fn drop(&mut self) {
        if let DecideState::Now(decided) = &mut self.deciding.0
            && let (Some(decided), Some((engine, request))) = (decided.take(), self.pending.take())
        {
            drop(AdmittedRequest::from_output(engine, request, decided));
        }
    }
}

impl<C, S> std::fmt::Debug for AcquireRequestFuture<C, S>
where
    C: Clock + Send + Sync + 'static,
    S: Store + 'static,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AcquireRequestFuture").field(&self.deciding).finish()
    }
}
