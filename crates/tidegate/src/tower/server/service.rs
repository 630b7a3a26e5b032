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
use super::{LimitedBody, RequestHead};

/// The service of a [`RateLimitLayer`](super::RateLimitLayer).
pub struct RateLimitService<S, D> {
    inner: S,
    decide: Arc<D>,
    hooks: Hooks,
}

impl<S, D> RateLimitService<S, D> {
    pub(super) fn new(inner: S, decide: Arc<D>, hooks: Hooks) -> Self {
        Self { inner, decide, hooks }
    }
}

impl<S, D, B, R> Service<Request<B>> for RateLimitService<S, D>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    D: Decide,
    R: Body,
    R::Data: From<Bytes>,
{
    type Response = Response<LimitedBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let head = RequestHead::new(&request);
        match self.decide.decide(&head) {
            Deciding::Now(decided) => {
                let is_grpc = !decided.passes() && is_grpc(&head);
                ResponseFuture::decided(decided, request, &mut self.inner, &self.hooks, is_grpc)
            }
            Deciding::Later(deciding) => {
                let is_grpc = is_grpc(&head);
                // The service that was polled until it was ready, not a clone of it.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::later(deciding, request, inner, self.hooks.clone(), is_grpc)
            }
        }
    }
}

impl<S: Clone, D> Clone for RateLimitService<S, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), decide: Arc::clone(&self.decide), hooks: self.hooks.clone() }
    }
}

impl<S, D: fmt::Debug> fmt::Debug for RateLimitService<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitService").field("decide", &self.decide).finish_non_exhaustive()
    }
}
