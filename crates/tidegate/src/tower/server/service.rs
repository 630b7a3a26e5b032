//! The service of the layer for servers.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::answer::{Decide, Deciding};
use super::denied::is_grpc;
use super::future::ResponseFuture;
use super::layer::Hooks;
use super::{LimitedBodies, RequestHead, ResponseBodies};

/// The service of a [`RateLimitLayer`](super::RateLimitLayer).
pub struct RateLimitService<S, D, W = LimitedBodies> {
    inner: S,
    decide: Arc<D>,
    hooks: Hooks,
    bodies: W,
}

impl<S, D, W> RateLimitService<S, D, W> {
    pub(super) fn new(inner: S, decide: Arc<D>, hooks: Hooks, bodies: W) -> Self {
        Self { inner, decide, hooks, bodies }
    }

    /// A request that is not simply allowed.
    #[inline(never)]
    fn call_decided<B>(&mut self, deciding: Deciding, request: Request<B>) -> ResponseFuture<S, B, W>
    where
        S: Service<Request<B>> + Clone,
        W: Clone,
    {
        let is_grpc = is_grpc(&RequestHead::new(&request));
        let bodies = self.bodies.clone();
        match deciding {
            Deciding::Now(decided) => {
                ResponseFuture::decided(decided, request, &mut self.inner, &self.hooks, is_grpc, bodies)
            }
            Deciding::Later(deciding) => {
                // The service that was polled until it was ready, not a clone of it.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::later(deciding, request, inner, self.hooks.clone(), is_grpc, bodies)
            }
        }
    }
}

impl<S, D, W, B, R> Service<Request<B>> for RateLimitService<S, D, W>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    D: Decide,
    W: ResponseBodies<R>,
    R: Body,
    R::Data: From<Bytes>,
{
    type Response = Response<W::Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, W>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The future of most requests is made here and nowhere else, so that it is copied as seldom as possible.
        match self.decide.decide(&RequestHead::new(&request)) {
            Deciding::Now(decided) if decided.answer.is_none() => {
                ResponseFuture::allowed(self.inner.call(request), decided, self.bodies.clone())
            }
            deciding => self.call_decided(deciding, request),
        }
    }
}

impl<S: Clone, D, W: Clone> Clone for RateLimitService<S, D, W> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            decide: Arc::clone(&self.decide),
            hooks: self.hooks.clone(),
            bodies: self.bodies.clone(),
        }
    }
}

impl<S, D: fmt::Debug, W> fmt::Debug for RateLimitService<S, D, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitService").field("decide", &self.decide).finish_non_exhaustive()
    }
}
