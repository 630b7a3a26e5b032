//! HTTP with JSON, for programs that ask and for people with `curl`.
//!
//! ```text
//! connection.rs   requests one after the other, within bounds        pace.rs
//! routes.rs       what is asked for                                  body.rs, asking.rs: with what
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
mod explain;
pub(super) mod health;
pub(super) mod json;
mod leases;
pub(super) mod pace;
pub(super) mod reply;
mod rls_json;
pub(super) mod routes;
mod spec_text;

use std::convert::Infallible;
use std::sync::Arc;

use super::admin;
use super::listening::{Serves, Stream};
use super::rls::Details;
use super::settings::Bounds;
use super::{App, Protocol};
use bytes::Bytes;
use connection::{Asked, Handles};
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
    Check,
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

/// What is asked for most stands first.
const ROUTES: [Route<Endpoint>; 13] = [
    Route { path: "/v1/check", methods: "POST", endpoint: Endpoint::Check },
    Route { path: "/v1/peek", methods: "POST", endpoint: Endpoint::Peek },
    Route { path: "/v1/explain", methods: "POST", endpoint: Endpoint::Explain },
    Route { path: "/v1/acquire", methods: "POST", endpoint: Endpoint::Acquire },
    Route { path: "/v1/renew", methods: "POST", endpoint: Endpoint::Renew },
    Route { path: "/v1/release", methods: "POST", endpoint: Endpoint::Release },
    Route { path: "/json", methods: "POST", endpoint: Endpoint::RlsJson },
    Route { path: "/healthz", methods: "GET, HEAD", endpoint: Endpoint::Health },
    Route { path: "/readyz", methods: "GET, HEAD", endpoint: Endpoint::Ready },
    Route { path: "/healthcheck", methods: "GET, HEAD", endpoint: Endpoint::HealthCheck },
    Route { path: "/metrics", methods: "GET, HEAD", endpoint: Endpoint::Metrics },
    Route { path: "/openapi.json", methods: "GET, HEAD", endpoint: Endpoint::OpenApi },
    Route { path: "/", methods: "GET, HEAD", endpoint: Endpoint::Index },
];

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
        connection::serve(self, stream, &self.bounds, &self.app.drain).await;
    }
}

impl Handles for Http {
    async fn handle(&self, asked: Asked, _busy: Busy<'_>) -> Result<Reply, Infallible> {
        let reply = match routes::find(&ROUTES, &asked, admin::has) {
            // What is asked for most has the others out of its way, and their states out of its future.
            Ok(Endpoint::Check) => match routes::is_json(&asked, JsonType::Likely) {
                Ok(()) => match asking::body(asked.into(), &self.bounds).await {
                    Ok(body) => check::check(&self.app, body).await,
                    Err(refused) => *refused,
                },
                Err(refused) => *refused,
            },
            Ok(endpoint) => Box::pin(self.answer(endpoint, asked)).await.unwrap_or_else(|refused| *refused),
            Err(refused) => *refused,
        };
        reply::note(&self.app, Protocol::Http, &reply);
        Ok(reply)
    }
}

impl Http {
    /// Answers; the error is what is said of a request that is wrong.
    async fn answer(&self, endpoint: Endpoint, asked: Asked) -> Result<Reply, Refused> {
        let (app, bounds) = (&*self.app, &self.bounds);
        Ok(match endpoint {
            Endpoint::Check => check::check(app, self.json(asked).await?).await,
            Endpoint::Peek => check::peek(app, &self.json(asked).await?),
            Endpoint::Explain => {
                let written = explain::written(&asked)?;
                explain::explain(app, &self.json(asked).await?, written)
            }
            Endpoint::Acquire => leases::acquire(app, &self.json(asked).await?).await,
            Endpoint::Renew => leases::renew(app, &self.json(asked).await?),
            Endpoint::Release => leases::release(app, &self.json(asked).await?),
            Endpoint::RlsJson => {
                // Whatever it is said to be, as there.
                let body = asking::body(asked.into(), bounds).await?;
                rls_json::decide(app, self.rls_details, &body).await
            }
            Endpoint::Health => health::healthz(app, &asked),
            Endpoint::Ready => health::readyz(app),
            Endpoint::HealthCheck => health::healthcheck(app),
            Endpoint::Metrics => health::metrics(app),
            Endpoint::OpenApi => reply(StatusCode::OK, Kind::Json, include_str!("openapi.json")),
            Endpoint::Index => reply(StatusCode::OK, Kind::Text, include_str!("index.txt")),
        })
    }

    /// The body of a request, which is to be JSON.
    async fn json(&self, asked: Asked) -> Result<Bytes, Refused> {
        routes::is_json(&asked, JsonType::Likely)?;
        asking::body(asked.into(), &self.bounds).await
    }
}
