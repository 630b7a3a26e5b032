//! HTTP for operators: what is loaded, and what is changed by hand.
//!
//! ```text
//! guard.rs     who may ask
//! rules.rs     the rules in force
//! signals.rs   what elastic limits move with
//! changes.rs   refunds, resets, reloads
//! ```
//!
//! Made of the parts of the HTTP listener. `docs/http.md` is the reference.

mod changes;
mod guard;
mod rules;
mod signals;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, StatusCode};

use super::http::asking;
use super::http::connection::{self, Asked, Handles, Terms};
use super::http::health::{self, Audience};
use super::http::pace::Busy;
use super::http::reply::{self, Kind, Refused, Reply, reply};
use super::http::routes::{self, JsonType, Route};
use super::listening::{Serves, Stream};
use super::settings::{Bounds, Secret};
use super::{App, Protocol};
use changes::Change;
use guard::Guard;

/// Speaks HTTP with operators.
pub struct Admin {
    app: Arc<App>,
    bounds: Bounds,
    token: Option<Secret>,
}

/// What there is to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Health,
    Ready,
    Metrics,
    Rules,
    Signals,
    Signal,
    Refund,
    Reset,
    Reload,
    OpenApi,
    Index,
}

const ROUTES: [Route<Endpoint>; 11] = [
    Route { path: "/healthz", methods: "GET, HEAD", endpoint: Endpoint::Health },
    Route { path: "/readyz", methods: "GET, HEAD", endpoint: Endpoint::Ready },
    Route { path: "/metrics", methods: "GET, HEAD", endpoint: Endpoint::Metrics },
    Route { path: "/v1/rules", methods: "GET, HEAD", endpoint: Endpoint::Rules },
    Route { path: "/v1/signals", methods: "GET, HEAD", endpoint: Endpoint::Signals },
    Route { path: "/v1/signals/{name}", methods: "GET, HEAD, PUT", endpoint: Endpoint::Signal },
    Route { path: "/v1/refund", methods: "POST", endpoint: Endpoint::Refund },
    Route { path: "/v1/reset", methods: "POST", endpoint: Endpoint::Reset },
    Route { path: "/v1/reload", methods: "POST", endpoint: Endpoint::Reload },
    Route { path: "/openapi.json", methods: "GET, HEAD", endpoint: Endpoint::OpenApi },
    Route { path: "/", methods: "GET, HEAD", endpoint: Endpoint::Index },
];

/// What to say to who asks for this path elsewhere, if it is one that operators ask for.
pub(super) fn has(path: &str) -> Option<String> {
    let route = ROUTES.iter().find(|route| route.is_of(path))?;
    Some(format!("{} is on the admin listener, by default at 127.0.0.1:9090", route.path))
}

impl Admin {
    /// In front of this, with everything as it is by default, for whoever comes.
    pub fn new(app: Arc<App>) -> Self {
        Self::with(app, Bounds::default(), None)
    }

    /// In front of this, within these bounds, for operators who show the token, if there is one.
    pub fn with(app: Arc<App>, bounds: Bounds, token: Option<Secret>) -> Self {
        Self { app, bounds, token }
    }
}

impl Serves for Admin {
    const PROTOCOL: Protocol = Protocol::Admin;

    async fn serve(&self, stream: Stream) {
        let guard = Guard::of(self.token.as_ref(), &stream);
        let terms = Terms { app: &self.app, by: Self::PROTOCOL, bounds: &self.bounds };
        connection::serve(&Guarded { admin: self, guard }, stream, terms).await;
    }
}

/// The listener as a connection meets it.
struct Guarded<'a> {
    admin: &'a Admin,
    guard: Guard<'a>,
}

impl Handles for Guarded<'_> {
    async fn handle(&self, asked: Asked, busy: Busy<'_>) -> Result<Reply, Infallible> {
        let reply = self.answer(asked, &busy).await.unwrap_or_else(|refused| *refused);
        reply::note(&self.admin.app, Protocol::Admin, &reply);
        Ok(busy.sent_off(reply))
    }
}

impl Guarded<'_> {
    /// Answers; the error is what is said of a request that is wrong.
    async fn answer(&self, asked: Asked, busy: &Busy<'_>) -> Result<Reply, Refused> {
        let app = &*self.admin.app;
        self.guard.look_at(&asked)?;
        Ok(match routes::find(&ROUTES, &asked, |_| None)? {
            Endpoint::Health => health::healthz(app, &asked, Audience::Operators),
            Endpoint::Ready => health::readyz(app),
            Endpoint::Metrics => health::metrics(app),
            Endpoint::Rules => rules::page(app, &asked)?,
            Endpoint::Signals => signals::all(app),
            Endpoint::Signal => {
                let name = signals::name_in(asked.uri().path());
                match *asked.method() {
                    Method::PUT => signals::push(app, name, &self.json(asked, busy).await?)?,
                    _ => signals::one(app, &name)?,
                }
            }
            Endpoint::Refund => changes::change(app, &self.json(asked, busy).await?, Change::Refund).await,
            Endpoint::Reset => changes::change(app, &self.json(asked, busy).await?, Change::Reset).await,
            Endpoint::Reload => changes::reload(app, &self.json_or_nothing(asked, busy).await?).await,
            Endpoint::OpenApi => reply(StatusCode::OK, Kind::Json, include_str!("openapi.json")),
            Endpoint::Index => reply(StatusCode::OK, Kind::Text, include_str!("index.txt")),
        })
    }

    /// The body of a request, which is to be JSON and to say so.
    async fn json(&self, asked: Asked, busy: &Busy<'_>) -> Result<Bytes, Refused> {
        routes::is_json(&asked, JsonType::Said)?;
        asking::body(asked, busy, &self.admin.bounds).await
    }

    /// The same of a request that may have no body. Then there is nothing to say of it, either.
    async fn json_or_nothing(&self, asked: Asked, busy: &Busy<'_>) -> Result<Bytes, Refused> {
        let said = routes::is_json(&asked, JsonType::Said);
        let says_nothing = !asked.headers().contains_key(CONTENT_TYPE);
        let body = asking::body(asked, busy, &self.admin.bounds).await?;
        if body.is_empty() && says_nothing { Ok(body) } else { said.map(|()| body) }
    }
}
