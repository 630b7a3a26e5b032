//! HTTP with JSON, for programs that ask and for people with `curl`.
//!
//! ```text
//! connection.rs   requests one after the other, within bounds        pace.rs
//! routes.rs       what is asked for, cross_site.rs: and by whom       body.rs, asking.rs: with what
//! check.rs, explain.rs, leases.rs   what is answered                 answered.rs, answer_json.rs: and how
//! reply.rs        replies, and what is said of a request that is wrong
//! ```
//!
//! `docs/http.md` is the reference. The admin listener is made of the same parts.

mod answer_json;
mod answered;
pub(super) mod asking;
pub(super) mod body;
pub(super) mod check;
pub(super) mod connection;
mod cross_site;
mod explain;
pub(super) mod health;
pub(super) mod json;
mod leases;
pub(super) mod pace;
pub(super) mod reply;
mod rls_json;
pub(super) mod routes;

use std::convert::Infallible;
use std::sync::Arc;

use super::admin;
use super::listening::{ConnectionHandler, Stream};
use super::rls::Details;
use super::settings::Bounds;
use super::{App, Protocol};
use bytes::Bytes;
use connection::{HttpRequest, RequestHandler, ConnectionContext};
use health::Audience;
use hyper::StatusCode;
use pace::RequestGuard;
use reply::{ContentType, ErrorReply, Reply, reply};
use routes::{JsonContentType, Route};

/// Speaks HTTP.
pub struct Http {
    app: Arc<App>,
    bounds: Bounds,
    rls_details: Details,
}

/// What there is to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    /// What is asked for most.
    Check,
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

const ROUTES: [Route<Endpoint>; 13] = [
    Route { path: "/v1/check", methods: "POST", endpoint: Endpoint::Check },
    route("/v1/peek", "POST", OtherEndpoint::Peek),
    route("/v1/explain", "POST", OtherEndpoint::Explain),
    route("/v1/acquire", "POST", OtherEndpoint::Acquire),
    route("/v1/renew", "POST", OtherEndpoint::Renew),
    route("/v1/release", "POST", OtherEndpoint::Release),
    route("/json", "POST", OtherEndpoint::RlsJson),
    route("/healthz", "GET, HEAD", OtherEndpoint::Health),
    route("/readyz", "GET, HEAD", OtherEndpoint::Ready),
    route("/healthcheck", "GET, HEAD", OtherEndpoint::HealthCheck),
    route("/metrics", "GET, HEAD", OtherEndpoint::Metrics),
    route("/openapi.json", "GET, HEAD", OtherEndpoint::OpenApi),
    route("/", "GET, HEAD", OtherEndpoint::Index),
];

const fn route(path: &'static str, methods: &'static str, other: OtherEndpoint) -> Route<Endpoint> {
    Route { path, methods, endpoint: Endpoint::Other(other) }
}

impl Http {
    /// In front of this, with everything as it is by default.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_options(app, Bounds::default(), Details::default())
    }

    /// In front of this, within these bounds, with so much said in answers at `/json`.
    pub fn with_options(app: Arc<App>, bounds: Bounds, rls_details: Details) -> Self {
        Self { app, bounds, rls_details }
    }
}

impl ConnectionHandler for Http {
    const PROTOCOL: Protocol = Protocol::Http;

    async fn serve(&self, stream: Stream) {
        let terms = ConnectionContext { app: &self.app, protocol: Self::PROTOCOL, bounds: &self.bounds };
        connection::serve(self, stream, terms).await;
    }
}

impl RequestHandler for Http {
    async fn handle(&self, asked: HttpRequest, busy: RequestGuard<'_>) -> Result<Reply, Infallible> {
        let reply = match routes::find_route(&ROUTES, &asked, admin::wrong_listener_hint) {
            // What is asked for most has the others out of its way, and their states out of its future.
            Ok(Endpoint::Check) => match routes::check_content_type(&asked, JsonContentType::Lenient) {
                Ok(()) => match asking::read_body(asked, &busy, &self.bounds).await {
                    Ok(body) => check::check(&self.app, body).await,
                    Err(refused) => *refused,
                },
                Err(refused) => *refused,
            },
            Ok(Endpoint::Other(other)) => {
                Box::pin(self.answer_other(other, asked, &busy)).await.unwrap_or_else(|refused| *refused)
            }
            Err(refused) => *refused,
        };
        reply::count_rejection(&self.app, Protocol::Http, &reply);
        Ok(busy.finish(reply))
    }
}

impl Http {
    /// Answers; the error is what is said of a request that is wrong.
    async fn answer_other(&self, other: OtherEndpoint, asked: HttpRequest, busy: &RequestGuard<'_>) -> Result<Reply, ErrorReply> {
        let app = &*self.app;
        Ok(match other {
            OtherEndpoint::Peek => check::peek(app, &self.json_body(asked, busy).await?).await,
            OtherEndpoint::Explain => {
                let written = explain::requested_format(&asked)?;
                explain::explain(app, &self.json_body(asked, busy).await?, written).await
            }
            OtherEndpoint::Acquire => leases::acquire(app, &self.json_body(asked, busy).await?).await,
            OtherEndpoint::Renew => leases::renew(app, &self.json_body(asked, busy).await?).await,
            OtherEndpoint::Release => leases::release(app, &self.json_body(asked, busy).await?).await,
            OtherEndpoint::RlsJson => {
                // Whatever it is said to be, as there.
                let body = asking::read_body(asked, busy, &self.bounds).await?;
                rls_json::decide(app, self.rls_details, &body).await
            }
            OtherEndpoint::Health => health::healthz(app, &asked, Audience::Anyone),
            OtherEndpoint::Ready => health::readyz(app),
            OtherEndpoint::HealthCheck => health::healthcheck(app),
            OtherEndpoint::Metrics => health::metrics(app),
            OtherEndpoint::OpenApi => reply(StatusCode::OK, ContentType::Json, include_str!("openapi.json")),
            OtherEndpoint::Index => reply(StatusCode::OK, ContentType::Text, include_str!("index.txt")),
        })
    }

    /// The body of a request, which is to be JSON.
    async fn json_body(&self, asked: HttpRequest, busy: &RequestGuard<'_>) -> Result<Bytes, ErrorReply> {
        routes::check_content_type(&asked, JsonContentType::Lenient)?;
        asking::read_body(asked, busy, &self.bounds).await
    }
}
