//! The layer that waits for limits and retries, and its settings.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::backoff::Jitter;
use super::known_limits::KnownLimits;
use super::policy::{Attempt, RetryChoice, RetryHook};
use super::task::send;
use super::{Backoff, ReplayBody, RetryBudget};
use crate::tower::BoxError;
use crate::tower::client::{BoxFuture, ClientError};
use crate::{SystemClock, Timer};

/// The most attempts of a request, unless [`attempts_max`](RetryLayer::attempts_max) sets another number.
pub const ATTEMPTS_MAX_DEFAULT: u32 = 5;
/// The longest that a request takes, with all waits and attempts, unless [`deadline`](RetryLayer::deadline) sets another.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(30);
/// The longest body that is kept to be sent again, in bytes, unless
/// [`replay_bytes_max`](RetryLayer::replay_bytes_max) sets another.
pub const REPLAY_BYTES_MAX_DEFAULT: usize = 64 * 1024;

/// A layer for HTTP clients that keeps to the limits of servers.
///
/// - Before it sends a request, it waits if the server's last answer said that its limits are used up
///   (`ratelimit: "api";r=0;t=12`).
/// - If a request is denied, it waits for as long as `Retry-After` says (seconds or a date), and sends it again.
/// - Each retry waits for a random time longer ([`Backoff`]), and takes from a [`RetryBudget`].
/// - It retries only what is [safe](Attempt::default_choice). A [hook](Self::retry_if) can choose otherwise.
/// - All waits and attempts together end at a [deadline](Self::deadline). A request that would have to wait past it is
///   not sent.
///
/// It works with every client that is a [`Service`] of [`http::Request`]. Clones of the layer, and of its services, share
/// what they know about servers and their budget.
///
/// ```
/// use std::time::Duration;
/// use tidegate::tower::client::{RetryBudget, RetryLayer};
///
/// let layer = RetryLayer::new().deadline(Duration::from_secs(10)).budget(RetryBudget::new(10, 20));
/// # let _ = layer;
/// ```
pub struct RetryLayer<C = SystemClock> {
    settings: RetrySettings,
    state: Arc<RetryState>,
    clock: C,
}

/// The service of a [`RetryLayer`].
pub struct RetryService<S, C = SystemClock> {
    inner: S,
    settings: Arc<RetrySettings>,
    state: Arc<RetryState>,
    clock: C,
}

#[derive(Clone)]
pub(super) struct RetrySettings {
    pub attempts_max: u32,
    pub deadline: Duration,
    pub replay_bytes_max: usize,
    pub backoff: Backoff,
    pub budget: RetryBudget,
    pub hook: Option<RetryHook>,
}

/// What all requests share.
#[derive(Debug)]
pub(super) struct RetryState {
    pub known_limits: KnownLimits,
    pub jitter: Jitter,
}

impl RetryLayer {
    /// A layer with the default settings.
    pub fn new() -> Self {
        Self {
            settings: RetrySettings {
                attempts_max: ATTEMPTS_MAX_DEFAULT,
                deadline: DEADLINE_DEFAULT,
                replay_bytes_max: REPLAY_BYTES_MAX_DEFAULT,
                backoff: Backoff::default(),
                budget: RetryBudget::default(),
                hook: None,
            },
            state: Arc::new(RetryState { known_limits: KnownLimits::default(), jitter: Jitter::random() }),
            clock: SystemClock::new(),
        }
    }
}

impl Default for RetryLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> RetryLayer<C> {
    /// Sets the most attempts of a request, including the first.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.settings.attempts_max = attempts.max(1);
        self
    }

    /// Sets the longest time from the call until the response, with all waits and attempts. It does not include the body
    /// of the response.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Sets the longest body that is kept to be sent again. A request with a longer one is sent once.
    #[must_use]
    pub fn replay_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.replay_bytes_max = bytes;
        self
    }

    /// Sets the pauses before retries.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// Sets the budget of retries.
    #[must_use]
    pub fn budget(mut self, budget: RetryBudget) -> Self {
        self.settings.budget = budget;
        self
    }

    /// Chooses which attempts are retried, instead of [`Attempt::default_choice`].
    #[must_use]
    pub fn retry_if(mut self, hook: impl Fn(&Attempt<'_>) -> RetryChoice + Send + Sync + 'static) -> Self {
        self.settings.hook = Some(Arc::new(hook));
        self
    }

    /// Sets the clock and the seed of the random pauses, for tests that repeat.
    #[must_use]
    pub fn clock_and_seed<D: Timer>(self, clock: D, seed: u64) -> RetryLayer<D> {
        let state = RetryState { known_limits: KnownLimits::default(), jitter: Jitter::seeded(seed) };
        RetryLayer { settings: self.settings, state: Arc::new(state), clock }
    }
}

impl<S, C: Clone> Layer<S> for RetryLayer<C> {
    type Service = RetryService<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { settings, state, clock } = self.clone();
        RetryService { inner, settings: Arc::new(settings), state, clock }
    }
}

impl<S, C, B, R> Service<Request<B>> for RetryService<S, C>
where
    S: Service<Request<ReplayBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Body + Send + 'static,
    B::Error: Into<BoxError>,
    R: Send + 'static,
    C: Timer + Clone + Send + Sync + 'static,
{
    type Response = Response<R>;
    type Error = ClientError<S::Error>;
    type Future = BoxFuture<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(ClientError::Inner)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that was polled until it was ready, not a clone of it.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(send(
            inner,
            request,
            Arc::clone(&self.settings),
            Arc::clone(&self.state),
            self.clock.clone(),
        ))
    }
}

impl<C: Clone> Clone for RetryLayer<C> {
    fn clone(&self) -> Self {
        let Self { settings, state, clock } = self;
        Self { settings: settings.clone(), state: Arc::clone(state), clock: clock.clone() }
    }
}

impl<S: Clone, C: Clone> Clone for RetryService<S, C> {
    fn clone(&self) -> Self {
        let Self { inner, settings, state, clock } = self;
        Self {
            inner: inner.clone(),
            settings: Arc::clone(settings),
            state: Arc::clone(state),
            clock: clock.clone(),
        }
    }
}

impl<C> fmt::Debug for RetryLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryLayer").field(&self.settings).finish()
    }
}

impl<S, C> fmt::Debug for RetryService<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryService").field(&self.settings).finish()
    }
}

impl fmt::Debug for RetrySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetrySettings")
            .field("attempts_max", &self.attempts_max)
            .field("deadline", &self.deadline)
            .field("replay_bytes_max", &self.replay_bytes_max)
            .field("backoff", &self.backoff)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
