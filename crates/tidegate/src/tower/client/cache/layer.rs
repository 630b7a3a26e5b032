//! The cache layer and its service.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::body::{CacheBody, Recording};
use super::entry::{CacheableRequest, Entry, cache_key};
use super::store::CacheStore;
use crate::tower::client::BoxFuture;
use crate::{Clock, SystemClock};

/// The size of a cache in bytes, unless [`CacheLayer::with_bytes_max`] sets another.
pub const CACHE_BYTES_MAX_DEFAULT: usize = 8 * 1024 * 1024;

/// A small private cache for HTTP clients, so that they send fewer requests: a subset of RFC 9111.
///
/// - It stores responses to GET that say how long they are fresh (`Cache-Control: max-age`, `Expires`), or that have an
///   `ETag` or `Last-Modified` to ask by. It guesses nothing.
/// - A fresh response is used without a request. One that is no longer fresh is asked for with `If-None-Match`, and used
///   again if the server answers 304. Nothing stale is ever used.
/// - `no-store`, `no-cache` and `max-age` of requests and responses are honoured. `Vary` is: a response is used only for
///   requests with the same values, and also only with the same `Authorization` and `Cookie`. `Vary: *`, `Set-Cookie`
///   and partial responses are not stored.
/// - A successful POST, PUT, PATCH or DELETE removes the stored response of its URI.
/// - It is bounded in bytes, and removes what was not used for longest. A response that takes more than an eighth of the
///   cache is not stored.
///
/// Put it outside a [`RetryLayer`](crate::tower::client::RetryLayer). Clones share one cache.
pub struct CacheLayer<C = SystemClock> {
    store: Arc<CacheStore>,
    clock: C,
}

/// The service of a [`CacheLayer`].
pub struct CacheService<S, C = SystemClock> {
    inner: S,
    layer: CacheLayer<C>,
}

impl CacheLayer {
    /// A cache of 8 MiB.
    pub fn new() -> Self {
        Self::with_bytes_max(CACHE_BYTES_MAX_DEFAULT)
    }

    /// A cache of at most this many bytes.
    pub fn with_bytes_max(bytes: usize) -> Self {
        Self { store: Arc::new(CacheStore::new(bytes)), clock: SystemClock::new() }
    }
}

impl Default for CacheLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> CacheLayer<C> {
    /// Sets the clock.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> CacheLayer<D> {
        CacheLayer { store: self.store, clock }
    }
}

impl<S, C: Clone> Layer<S> for CacheLayer<C> {
    type Service = CacheService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        CacheService { inner, layer: self.clone() }
    }
}

impl<S, C, B, R> Service<Request<B>> for CacheService<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Body + Send + 'static,
    C: Clock + Clone + Send + Sync + 'static,
{
    type Response = Response<CacheBody<R>>;
    type Error = S::Error;
    type Future = BoxFuture<Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that was polled until it was ready, not a clone of it.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(send(inner, request, self.layer.clone()))
    }
}

async fn send<S, B, R, C>(
    mut inner: S,
    request: Request<B>,
    CacheLayer { store, clock }: CacheLayer<C>,
) -> Result<Response<CacheBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
    C: Clock,
{
    let (mut parts, body) = request.into_parts();
    let Some(cacheable) = CacheableRequest::read(&parts) else {
        let key = (!parts.method.is_safe()).then(|| cache_key(&parts));
        let response = inner.call(Request::from_parts(parts, body)).await?;
        if let Some(key) = key
            && (response.status().is_success() || response.status().is_redirection())
        {
            store.remove(&key);
        }
        return Ok(response.map(|body| CacheBody::received(body, None)));
    };
    let stored = store.get(&cacheable);
    if let Some(entry) = &stored
        && entry.is_fresh(&cacheable.control, clock.now())
    {
        return Ok(stored_response(entry, &clock));
    }
    if cacheable.control.only_if_cached {
        let mut response = Response::new(CacheBody::stored(Default::default()));
        *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
        return Ok(response);
    }
    let validated = stored.filter(|entry| entry.add_validators(&mut parts.headers).is_some());
    let response = inner.call(Request::from_parts(parts, body)).await?;
    let now = clock.now();
    let (parts, body) = response.into_parts();
    if let (StatusCode::NOT_MODIFIED, Some(entry)) = (parts.status, validated) {
        let (parts, body) = (entry.confirmed_parts(&parts), entry.body);
        return Ok(match Entry::new(&parts, &cacheable, now) {
            Some(mut refreshed) => {
                refreshed.body = body;
                store.insert(cacheable.key, refreshed.clone());
                stored_response(&refreshed, &clock)
            }
            // The server now forbids to store it. The caller gets it once more.
            None => {
                store.remove(&cacheable.key);
                Response::from_parts(parts, CacheBody::stored(body))
            }
        });
    }
    let recording = match Entry::new(&parts, &cacheable, now) {
        Some(entry) => Some(Recording { store, key: cacheable.key, entry, data: Vec::new() }),
        None => {
            // An error of the server says nothing about what is stored.
            if !parts.status.is_server_error() {
                store.remove(&cacheable.key);
            }
            None
        }
    };
    Ok(Response::from_parts(parts, CacheBody::received(body, recording)))
}

fn stored_response<R: Body>(entry: &Entry, clock: &impl Clock) -> Response<CacheBody<R>> {
    Response::from_parts(entry.response_parts(clock.now()), CacheBody::stored(entry.body.clone()))
}

impl<C: Clone> Clone for CacheLayer<C> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), clock: self.clock.clone() }
    }
}

impl<S: Clone, C: Clone> Clone for CacheService<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<C> fmt::Debug for CacheLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheLayer").finish_non_exhaustive()
    }
}

impl<S, C> fmt::Debug for CacheService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheService").finish_non_exhaustive()
    }
}
