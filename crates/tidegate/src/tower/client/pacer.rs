//! A layer that sends requests at a steady rate.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

use super::{BoxFuture, ClientError};
use crate::{Pacer, Refused, SystemClock, Timer};

/// A layer that takes a permit of a [`Pacer`] for each request, and waits for it. Works with requests of any type.
///
/// Put it inside a [`RetryLayer`](super::RetryLayer), so that retries are paced too.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::Pacer;
/// use tidegate::tower::client::PacerLayer;
///
/// let pacer = Arc::new(Pacer::new("50/s")?);
/// let layer = PacerLayer::new(pacer);
/// # let _ = layer;
/// # Ok::<(), tidegate::PacerError>(())
/// ```
pub struct PacerLayer<C = SystemClock> {
    pacer: Arc<Pacer<C>>,
    max_wait: Option<Duration>,
}

/// The service of a [`PacerLayer`].
pub struct PacerService<S, C = SystemClock> {
    inner: S,
    layer: PacerLayer<C>,
}

impl<C> PacerLayer<C> {
    /// A layer with this pacer, which several layers can share.
    pub fn new(pacer: Arc<Pacer<C>>) -> Self {
        Self { pacer, max_wait: None }
    }

    /// Sets the longest wait. A request that would have to wait longer fails immediately, with
    /// [`ClientError::WaitTooLong`], and takes no permit.
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self {
        Self { max_wait: Some(max_wait), ..self }
    }
}

impl<S, C> Layer<S> for PacerLayer<C> {
    type Service = PacerService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        PacerService { inner, layer: self.clone() }
    }
}

impl<S, C, R> Service<R> for PacerService<S, C>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    R: Send + 'static,
    C: Timer + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = ClientError<S::Error>;
    type Future = BoxFuture<Result<S::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(ClientError::Inner)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // The service that was polled until it was ready, not a clone of it.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let PacerLayer { pacer, max_wait } = self.layer.clone();
        Box::pin(async move {
            let permits = match max_wait {
                Some(max_wait) => pacer.acquire_within(1, max_wait).await,
                None => pacer.acquire(1).await,
            };
            if let Err(refused) = permits {
                let wait = if let Refused::TooLong { wait: Some(wait) } = refused {
                    wait.into()
                } else {
                    Duration::MAX
                };
                return Err(ClientError::WaitTooLong { wait });
            }
            inner.call(request).await.map_err(ClientError::Inner)
        })
    }
}

impl<C> Clone for PacerLayer<C> {
    fn clone(&self) -> Self {
        Self { pacer: Arc::clone(&self.pacer), max_wait: self.max_wait }
    }
}

impl<S: Clone, C> Clone for PacerService<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<C> fmt::Debug for PacerLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacerLayer").field("max_wait", &self.max_wait).finish_non_exhaustive()
    }
}

impl<S, C> fmt::Debug for PacerService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PacerService").field(&self.layer).finish()
    }
}
