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
use super::listening::{Serves, Stream};
use super::rls::Details;
use super::settings::Bounds;
use super::{App, Protocol};
use bytes::Bytes;
use connection::{Asked, Handles, Terms};
use health::Audience;
use hyper::StatusCode;
use pace::Busy;
use reply::{Kind, Refused, Reply, reply};
use routes::{JsonType, Route};

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
    Other(Other),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
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
    route("/v1/peek", "POST", Other::Peek),
    route("/v1/explain", "POST", Other::Explain),
    route("/v1/acquire", "POST", Other::Acquire),
    route("/v1/renew", "POST", Other::Renew),
    route("/v1/release", "POST", Other::Release),
    route("/json", "POST", Other::RlsJson),
    route("/healthz", "GET, HEAD", Other::Health),
    route("/readyz", "GET, HEAD", Other::Ready),
    route("/healthcheck", "GET, HEAD", Other::HealthCheck),
    route("/metrics", "GET, HEAD", Other::Metrics),
    route("/openapi.json", "GET, HEAD", Other::OpenApi),
    route("/", "GET, HEAD", Other::Index),
];

const fn route(path: &'static str, methods: &'static str, other: Other) -> Route<Endpoint> {
    Route { path, methods, endpoint: Endpoint::Other(other) }
}

impl Http {
    /// In front of this, with everything as it is by default.
    pub fn new(app: Arc<App>) -> Self {
        Self::with(app, Bounds::default(), Details::default())
    }

    /// In front of this, within these bounds, with so much said in answers at `/json`.
    pub fn with(app: Arc<App>, bounds: Bounds, rls_details: Details) -> Self {
        Self { app, bounds, rls_details }
    }
}

impl Serves for Http {
    const PROTOCOL: Protocol = Protocol::Http;

    async fn serve(&self, stream: Stream) {
        let terms = Terms { app: &self.app, by: Self::PROTOCOL, bounds: &self.bounds };
        connection::serve(self, stream, terms).await;
    }
}

impl Handles for Http {
    async fn handle(&self, asked: Asked, busy: Busy<'_>) -> Result<Reply, Infallible> {
        let reply = match routes::find(&ROUTES, &asked, admin::has) {
            // What is asked for most has the others out of its way, and their states out of its future.
            Ok(Endpoint::Check) => match routes::is_json(&asked, JsonType::Likely) {
                Ok(()) => match asking::body(asked, &busy, &self.bounds).await {
                    Ok(body) => check::check(&self.app, body).await,
                    Err(refused) => *refused,
                },
                Err(refused) => *refused,
            },
            Ok(Endpoint::Other(other)) => {
                Box::pin(self.answer(other, asked, &busy)).await.unwrap_or_else(|refused| *refused)
            }
            Err(refused) => *refused,
        };
        reply::note(&self.app, Protocol::Http, &reply);
        Ok(busy.sent_off(reply))
    }
}

impl Http {
    /// Answers; the error is what is said of a request that is wrong.
    async fn answer(&self, other: Other, asked: Asked, busy: &Busy<'_>) -> Result<Reply, Refused> {
        let app = &*self.app;
        Ok(match other {
            Other::Peek => check::peek(app, &self.json(asked, busy).await?).await,
            Other::Explain => {
                let written = explain::written(&asked)?;
                explain::explain(app, &self.json(asked, busy).await?, written).await
            }
            Other::Acquire => leases::acquire(app, &self.json(asked, busy).await?).await,
            Other::Renew => leases::renew(app, &self.json(asked, busy).await?).await,
            Other::Release => leases::release(app, &self.json(asked, busy).await?).await,
            Other::RlsJson => {
                // Whatever it is said to be, as there.
                let body = asking::body(asked, busy, &self.bounds).await?;
                rls_json::decide(app, self.rls_details, &body).await
            }
            Other::Health => health::healthz(app, &asked, Audience::Anyone),
            Other::Ready => health::readyz(app),
            Other::HealthCheck => health::healthcheck(app),
            Other::Metrics => health::metrics(app),
            Other::OpenApi => reply(StatusCode::OK, Kind::Json, include_str!("openapi.json")),
            Other::Index => reply(StatusCode::OK, Kind::Text, include_str!("index.txt")),
        })
    }

    /// The body of a request, which is to be JSON.
    async fn json(&self, asked: Asked, busy: &Busy<'_>) -> Result<Bytes, Refused> {
        routes::is_json(&asked, JsonType::Likely)?;
        asking::body(asked, busy, &self.bounds).await
    }
}
