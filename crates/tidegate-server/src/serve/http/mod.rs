//! HTTP with JSON, for programs and for people with `curl`.
//!
//! ```text
//! connection.rs   serves requests one after the other        tracker.rs: its state, for timeouts and the drain
//! direct/         answers single checks without hyper         connection_timer.rs: its timeouts
//! routes.rs       finds the endpoint                         cross_site.rs, allowed_hosts.rs: reject other sites
//! body.rs         reads the body                             connection_waker.rs: without a needless wake
//! error_reply.rs  replies to errors
//! bearer_token.rs the admin token of a request
//! forward_auth/   answers proxies                            proxy_protocol.rs: the client of a connection
//! check.rs, explain.rs, leases.rs, rls_json.rs, health.rs, index.rs    the endpoints
//! answer_reply.rs, answer_json.rs, limit_headers.rs, reply.rs  replies and problems
//! admin/          the admin listener, built from the same parts
//! ```
//!
//! `docs/http.md` is the reference.
//!
//! A connection is one task; nothing is spawned for a request. It starts with `direct/`, which answers checks as they come
//! from programs, and leaves everything else to hyper. It has one timer, which is set again when it
//! fires and not for each request. A request that has to wait, for a rule with `delay` or for a shared store, is a
//! future that its connection holds. It leaves its wait queue when the client goes away. The requests of a batch wait
//! at the same time, each with its own waker (`serve/future_set.rs`).

pub mod admin;
mod allowed_hosts;
mod answer_json;
mod answer_reply;
mod bearer_token;
mod body;
mod check;
mod connection;
mod connection_timer;
mod connection_waker;
mod cross_site;
mod direct;
mod error_reply;
mod explain;
pub mod forward_auth;
mod health;
mod index;
mod json_writer;
mod leases;
mod limit_headers;
mod proxy_protocol;
mod reply;
mod rls_json;
mod routes;
mod tracker;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body as _;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Method, StatusCode};

use super::listen::{ConnectionHandler, Stream};
use super::rls::Details;
use super::settings::{Bounds, Secret};
use super::{App, Protocol};
use allowed_hosts::HostCheck;
use answer_json::Provenance;
use connection::{ConnectionContext, HeadBounds, HttpRequest, RequestHandler};
use cross_site::CrossSiteCheck;
use direct::DirectChecks;
use forward_auth::{DenyStatus, ForwardAuth};
use health::Audience;
use proxy_protocol::NoProxyHeader;
use reply::{ContentType, ErrorReply, Reply, reply};
use routes::{JsonContentType, Route};
use tracker::RequestGuard;

pub use allowed_hosts::AllowedHosts;
pub use proxy_protocol::ProxyProtocol;

/// The HTTP listener.
pub struct Http {
    app: Arc<App>,
    bounds: Bounds,
    rls_details: Details,
    hosts: AllowedHosts,
    /// The token that `/metrics` needs.
    metrics_token: Option<Secret>,
    forward_auth: Option<ForwardAuth>,
    proxy_protocol: ProxyProtocol,
}

/// The requests of one connection.
struct HttpHandler<'a> {
    http: &'a Http,
    /// The address of the client; none over a Unix socket.
    peer: Option<IpAddr>,
}

/// The endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// The most frequent one.
    Check,
    Authorize,
    Other(OtherEndpoint),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherEndpoint {
    Peek,
    Explain,
    Acquire,
    Renew,
    Release,
    RlsJson,
    Health,
    Ready,
    HealthCheck,
    Metrics,
    OpenApi,
    Index,
}

const ROUTES: [Route<Endpoint>; 14] = [
    Route {
        path: "/v1/check",
        methods: "POST, GET",
        endpoint: Endpoint::Check,
        host: HostCheck::Required,
        cross_site: CrossSiteCheck::All,
        headers_max: routes::HEADERS_MAX,
    },
    // Proxies send the headers of browsers' requests. `forward_auth` counts them itself.
    Route {
        path: forward_auth::PATH,
        methods: routes::ANY_METHOD,
        endpoint: Endpoint::Authorize,
        host: HostCheck::None,
        cross_site: CrossSiteCheck::None,
        headers_max: usize::MAX,
    },
    route("/v1/peek", "POST", OtherEndpoint::Peek),
    route("/v1/explain", "POST", OtherEndpoint::Explain),
    route("/v1/acquire", "POST", OtherEndpoint::Acquire),
    route("/v1/renew", "POST", OtherEndpoint::Renew),
    route("/v1/release", "POST", OtherEndpoint::Release),
    route("/json", "POST", OtherEndpoint::RlsJson),
    route("/healthz", "GET, HEAD", OtherEndpoint::Health),
    probe_route("/readyz", OtherEndpoint::Ready),
    probe_route("/healthcheck", OtherEndpoint::HealthCheck),
    route("/metrics", "GET, HEAD", OtherEndpoint::Metrics),
    route("/openapi.json", "GET, HEAD", OtherEndpoint::OpenApi),
    route("/", "GET, HEAD", OtherEndpoint::Index),
];

const fn route(path: &'static str, methods: &'static str, other: OtherEndpoint) -> Route<Endpoint> {
    let (endpoint, host) = (Endpoint::Other(other), HostCheck::Required);
    let cross_site = CrossSiteCheck::ExceptReads;
    Route { path, methods, endpoint, host, cross_site, headers_max: routes::HEADERS_MAX }
}

/// Probes of load balancers name the server in many ways, and learn only whether it is ready.
const fn probe_route(path: &'static str, other: OtherEndpoint) -> Route<Endpoint> {
    Route { host: HostCheck::None, ..route(path, "GET, HEAD", other) }
}

impl Http {
    /// With the default bounds and details.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_options(app, Bounds::default(), Details::default())
    }

    /// With these bounds. `rls_details` selects the headers and metadata of responses at `/json`.
    pub fn with_options(app: Arc<App>, bounds: Bounds, rls_details: Details) -> Self {
        Self {
            app,
            bounds,
            rls_details,
            hosts: AllowedHosts::Any,
            metrics_token: None,
            forward_auth: None,
            proxy_protocol: ProxyProtocol::Off,
        }
    }

    /// Answers proxies that ask about requests.
    #[must_use]
    pub fn with_forward_auth(self, forward_auth: Option<ForwardAuth>) -> Self {
        Self { forward_auth, ..self }
    }

    /// Whether each connection begins with a header of PROXY protocol.
    #[must_use]
    pub fn with_proxy_protocol(self, proxy_protocol: ProxyProtocol) -> Self {
        Self { proxy_protocol, ..self }
    }

    /// Accepts only these hosts.
    #[must_use]
    pub fn with_allowed_hosts(self, hosts: AllowedHosts) -> Self {
        Self { hosts, ..self }
    }

    /// Requires this token for `/metrics`.
    #[must_use]
    pub fn with_metrics_token(self, metrics_token: Option<Secret>) -> Self {
        Self { metrics_token, ..self }
    }
}

impl ConnectionHandler for Http {
    const PROTOCOL: Protocol = Protocol::Http;

    async fn serve(&self, mut stream: Stream) {
        let peer = match self.proxy_protocol {
            ProxyProtocol::Off => stream.peer_ip(),
            ProxyProtocol::Required => match proxy_protocol::read_client(&mut stream, self).await {
                Ok(client) => client,
                Err(NoProxyHeader) => return,
            },
        };
        let head = if self.forward_auth.is_some() { HeadBounds::FORWARDED } else { HeadBounds::DEFAULT };
        let (app, protocol, bounds) = (&*self.app, Self::PROTOCOL, &self.bounds);
        let context = ConnectionContext { app, protocol, bounds, head };
        connection::serve(&HttpHandler { http: self, peer }, stream, context).await;
    }
}

impl RequestHandler for HttpHandler<'_> {
    fn direct_checks(&self) -> Option<DirectChecks<'_>> {
        let Http { app, hosts, bounds, forward_auth, .. } = self.http;
        // Answers of a shared store come later.
        let is_local = !app.has_shared_store();
        let forward_auth = forward_auth.as_ref();
        is_local.then_some(DirectChecks { app, hosts, bounds, forward_auth, peer: self.peer })
    }

    async fn handle(&self, request: HttpRequest, guard: RequestGuard<'_>) -> Result<Reply, Infallible> {
        let http = self.http;
        let reply = match routes::find_route(&ROUTES, &request, &http.hosts, admin::wrong_listener_hint) {
            Ok(Endpoint::Check) if request.method() == Method::GET => {
                Box::pin(check::check_query(&http.app, request.uri().query().unwrap_or_default())).await
            }
            // The most frequent endpoint is handled here, so that its future does not contain the states of the others.
            Ok(Endpoint::Check) => match routes::check_content_type(&request, JsonContentType::Lenient) {
                Ok(()) => {
                    let provenance = Provenance::requested(&request);
                    match body::read_body(request.into_body(), &guard, &http.bounds).await {
                        Ok(body) => check::check(&http.app, body, provenance).await,
                        Err(reply) => *reply,
                    }
                }
                Err(reply) => *reply,
            },
            Ok(Endpoint::Authorize) => Box::pin(self.authorize(request, &guard)).await,
            Ok(Endpoint::Other(other)) => {
                Box::pin(http.answer_other(other, request, &guard)).await.unwrap_or_else(|reply| *reply)
            }
            Err(reply) => *reply,
        };
        reply::count_rejection(&http.app, Protocol::Http, &reply);
        Ok(guard.finish(reply))
    }
}

impl HttpHandler<'_> {
    /// Answers a proxy.
    async fn authorize(&self, request: HttpRequest, guard: &RequestGuard<'_>) -> Reply {
        let Http { app, forward_auth, .. } = self.http;
        let (mut reply, deny_status) = match (forward_auth, DenyStatus::requested(&request)) {
            (None, _) => (*forward_auth::not_configured(), DenyStatus::Real),
            (_, Err(error)) => (*error, DenyStatus::Real),
            (Some(forward_auth), Ok(deny_status)) => {
                (forward_auth.authorize(app, request.headers(), self.peer).await, deny_status)
            }
        };
        deny_status.apply(app, &mut reply);
        if !request.body().is_end_stream() {
            // The body is not read, so the next request cannot be found.
            guard.abandon_body();
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}

impl Http {
    /// Answers a request at another endpoint.
    async fn answer_other(
        &self,
        other: OtherEndpoint,
        request: HttpRequest,
        guard: &RequestGuard<'_>,
    ) -> Result<Reply, ErrorReply> {
        let app = &*self.app;
        Ok(match other {
            OtherEndpoint::Peek => {
                let provenance = Provenance::requested(&request);
                check::peek(app, &self.json_body(request, guard).await?, provenance).await
            }
            OtherEndpoint::Explain => {
                let format = explain::requested_format(&request)?;
                explain::explain(app, &self.json_body(request, guard).await?, format).await
            }
            OtherEndpoint::Acquire => leases::acquire(app, &self.json_body(request, guard).await?).await,
            OtherEndpoint::Renew => leases::renew(app, &self.json_body(request, guard).await?).await,
            OtherEndpoint::Release => leases::release(app, &self.json_body(request, guard).await?).await,
            OtherEndpoint::RlsJson => {
                // Any content type, as in envoyproxy/ratelimit.
                let body = body::read_body(request.into_body(), guard, &self.bounds).await?;
                rls_json::decide(app, self.rls_details, &body).await
            }
            OtherEndpoint::Health => health::healthz(app, &request, Audience::Anyone),
            OtherEndpoint::Ready => health::readyz(app),
            OtherEndpoint::HealthCheck => health::healthcheck(app),
            OtherEndpoint::Metrics => {
                if let Some(token) = &self.metrics_token {
                    bearer_token::check_token(&request, token, app, Protocol::Http).await?;
                }
                health::metrics(app)
            }
            OtherEndpoint::OpenApi => reply(StatusCode::OK, ContentType::Json, include_str!("openapi.json")),
            OtherEndpoint::Index => index::page(app, Protocol::Http, include_str!("index.txt")),
        })
    }

    /// Reads a body that must be JSON.
    async fn json_body(&self, request: HttpRequest, guard: &RequestGuard<'_>) -> Result<Bytes, ErrorReply> {
        routes::check_content_type(&request, JsonContentType::Lenient)?;
        body::read_body(request.into_body(), guard, &self.bounds).await
    }
}
