//! The layer for servers, and its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tidegate_core::headers::HeaderDialect;
use tidegate_core::rules::OnMissingKey;
use tower_layer::Layer;

use super::limits::ByLimits;
use super::self_check::SelfCheckHook;
use super::{KeptBodies, KeyExtractor, LimitedBodies, LimitedBody, RateLimitService, RequestAnswer};
#[cfg(feature = "rules")]
use super::{PeerLookup, rules::ByRules};
use crate::identity::SelfCheck;
use crate::store::Store;
#[cfg(feature = "rules")]
use crate::{Engine, identity::Identity};
use crate::{Limiter, Timer};

/// A layer that limits the requests of a server: axum, tonic, or hyper.
///
/// It decides by the limits of a [`Limiter`] ([`new`](Self::new)), or by rules (`by_rules`, with the feature `rules`).
///
/// | the request | what the layer does |
/// |---|---|
/// | is allowed | calls the inner service, and adds headers about limits to its response |
/// | is denied | answers 429 with `Retry-After` and a problem as JSON; to gRPC, the status RESOURCE_EXHAUSTED |
/// | cannot be decided (the store is away, and the policy is to deny) | answers 503; to gRPC, UNAVAILABLE |
/// | has a path that cannot be read (by rules) | answers 400; to gRPC, INVALID_ARGUMENT |
/// | is delayed | holds it, then calls the inner service |
/// | is soft, over its quota, or denied by a dry run | calls the inner service; request and response have a [`RequestAnswer`] among their extensions |
/// | is shadow-banned | answers 200 without calling the inner service, unless [`shadow_ban`](Self::shadow_ban) says otherwise |
///
/// A request under a concurrency limit holds its units until the body of its response has ended or the client is gone.
/// They are renewed in the background for as long as that takes.
///
/// Clones, and the services of one layer, share their counters.
pub struct RateLimitLayer<D, W = LimitedBodies> {
    decide: Arc<D>,
    hooks: Hooks,
    bodies: W,
}

/// What happens to a request that a rule shadow-bans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShadowBan {
    /// The layer answers 200 without a body. The inner service is not called.
    #[default]
    Answer,
    /// The inner service is called, and finds a [`RequestAnswer`] of the kind
    /// [`ShadowBanned`](tidegate_core::AnswerKind::ShadowBanned) among the extensions of the request. It should do nothing, and
    /// answer as it would have.
    Mark,
}

/// Builds responses.
pub(super) type ResponseHook = Arc<dyn Fn(&RequestAnswer) -> Response<Bytes> + Send + Sync>;

#[derive(Clone, Default)]
pub(super) struct Hooks {
    pub on_denied: Option<ResponseHook>,
    pub shadow_ban: ShadowBan,
}

impl<K, C, S> RateLimitLayer<ByLimits<K, C, S>>
where
    K: KeyExtractor,
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    /// Limits requests by a limiter, over any store. The extractor finds the key of each request.
    ///
    /// A request without a key is denied, unless [`on_missing_key`](Self::on_missing_key) says otherwise.
    pub fn new(limiter: impl Into<Arc<Limiter<C, S>>>, key: K) -> Self {
        Self::from_decide(ByLimits::new(limiter.into(), key))
    }
}

impl<K, C, S, W> RateLimitLayer<ByLimits<K, C, S>, W>
where
    K: KeyExtractor,
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    /// Sets what happens to requests without a key.
    #[must_use]
    pub fn on_missing_key(self, on_missing: OnMissingKey) -> Self
    where
        K: Clone,
    {
        self.with_decide(|decide| decide.on_missing = on_missing)
    }

    /// Holds requests that are over the limit, first come first served, until they are admitted. Those that would have to
    /// wait for longer than `max_wait` are denied immediately.
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self
    where
        K: Clone,
    {
        self.with_decide(|decide| decide.max_wait = Some(max_wait))
    }

    /// Sets which headers responses have.
    #[must_use]
    pub fn headers(self, dialect: HeaderDialect) -> Self
    where
        K: Clone,
    {
        self.with_decide(|decide| decide.set_dialect(dialect))
    }

    /// Calls `report` with each sign of a wrong configuration, once, and with the limit if it is about one: headers of
    /// proxies while no proxy is trusted, one key for all requests, IPv6 addresses as text in a key.
    ///
    /// Log it. `docs/identity.md` in the repository lists the codes. If the program sets [`PeerAddress`](super::PeerAddress)
    /// from PROXY protocol, ignore [`SelfCheck::ForwardedUntrusted`]: the address is that of the client already.
    #[must_use]
    pub fn on_self_check(self, report: impl Fn(SelfCheck, Option<&str>) + Send + Sync + 'static) -> Self
    where
        K: Clone,
    {
        self.with_decide(|decide| decide.self_check = Some(SelfCheckHook::new(report)))
    }
}

#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
impl<C, S> RateLimitLayer<ByRules<C, S>>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    /// Limits requests by the rules of a domain, over any store.
    ///
    /// A request that lacks an attribute of a key follows the `missing` of the rule.
    pub fn by_rules(engine: Engine<C, S>, domain: &str) -> Self {
        Self::from_decide(ByRules::new(engine, domain))
    }
}

#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
impl<C, S, W> RateLimitLayer<ByRules<C, S>, W>
where
    C: Timer + Clone + Send + Sync + 'static,
    S: Store + 'static,
{
    /// Sets how requests become attributes: which proxies are trusted, and where the user comes from.
    #[must_use]
    pub fn identity(self, identity: Identity) -> Self {
        self.with_decide(|decide| decide.identity = identity)
    }

    /// Sets where the address of the connection is found. In axum:
    /// `.peer(PeerLookup::in_extension(|info: &ConnectInfo<SocketAddr>| info.0.ip()))`.
    #[must_use]
    pub fn peer(self, peer: PeerLookup) -> Self {
        self.with_decide(|decide| decide.peer = peer)
    }

    /// Sets which headers responses have.
    #[must_use]
    pub fn headers(self, dialect: HeaderDialect) -> Self {
        self.with_decide(|decide| decide.dialect = dialect)
    }

    /// Calls `report` with each sign of a wrong configuration, once, and with the limit if it is about one: headers of
    /// proxies while no proxy is trusted, one key for all requests, IPv6 addresses as text in a key.
    ///
    /// Log it. `docs/identity.md` in the repository lists the codes. If the program sets [`PeerAddress`](super::PeerAddress)
    /// from PROXY protocol, ignore [`SelfCheck::ForwardedUntrusted`]: the address is that of the client already.
    #[must_use]
    pub fn on_self_check(self, report: impl Fn(SelfCheck, Option<&str>) + Send + Sync + 'static) -> Self {
        self.with_decide(|decide| decide.self_check = Some(SelfCheckHook::new(report)))
    }
}

impl<D> RateLimitLayer<D> {
    fn from_decide(decide: D) -> Self {
        Self { decide: Arc::new(decide), hooks: Hooks::default(), bodies: LimitedBodies }
    }
}

impl<D, W> RateLimitLayer<D, W> {
    /// Changes a setting, for this layer and not for its clones.
    fn with_decide(mut self, change: impl FnOnce(&mut D)) -> Self
    where
        D: Clone,
    {
        change(Arc::make_mut(&mut self.decide));
        self
    }

    /// Builds the response to requests that are denied or cannot be decided. The layer adds the headers about limits.
    #[must_use]
    pub fn on_denied(
        mut self,
        response: impl Fn(&RequestAnswer) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.on_denied = Some(Arc::new(response));
        self
    }

    /// Keeps the type of the body of responses. Without this it is a [`LimitedBody`], which frameworks with a body type of
    /// their own put in a box for each response. `wrap` makes a body for the few responses that need another one: those
    /// of the layer itself, and those that hold units of a concurrency limit until they end.
    ///
    /// ```
    /// use axum::{Router, body::Body};
    /// use tidegate::Limiter;
    /// use tidegate::tower::server::{OneKey, RateLimitLayer};
    ///
    /// let layer = RateLimitLayer::new(Limiter::new("100/s")?, OneKey).keep_body(Body::new);
    /// let app: Router = Router::new().layer(layer);
    /// # let _ = app;
    /// # Ok::<(), tidegate::LimiterError>(())
    /// ```
    #[must_use]
    pub fn keep_body<R, F>(self, wrap: F) -> RateLimitLayer<D, KeptBodies<F>>
    where
        F: Fn(LimitedBody<R>) -> R + Clone,
    {
        RateLimitLayer { decide: self.decide, hooks: self.hooks, bodies: KeptBodies(wrap) }
    }

    /// Sets what happens to requests that a rule shadow-bans.
    #[must_use]
    pub fn shadow_ban(mut self, shadow_ban: ShadowBan) -> Self {
        self.hooks.shadow_ban = shadow_ban;
        self
    }
}

impl<S, D, W: Clone> Layer<S> for RateLimitLayer<D, W> {
    type Service = RateLimitService<S, D, W>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimitService::new(inner, Arc::clone(&self.decide), self.hooks.clone(), self.bodies.clone())
    }
}

impl<D, W: Clone> Clone for RateLimitLayer<D, W> {
    fn clone(&self) -> Self {
        Self { decide: Arc::clone(&self.decide), hooks: self.hooks.clone(), bodies: self.bodies.clone() }
    }
}

impl<D: fmt::Debug, W> fmt::Debug for RateLimitLayer<D, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("decide", &self.decide)
            .field("shadow_ban", &self.hooks.shadow_ban)
            .finish_non_exhaustive()
    }
}
