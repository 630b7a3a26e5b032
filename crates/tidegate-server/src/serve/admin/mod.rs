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
use super::http::connection::{self, HttpRequest, RequestHandler, ConnectionContext};
use super::http::health::{self, Audience};
use super::http::pace::RequestGuard;
use super::http::reply::{self, ContentType, ErrorReply, Reply, reply};
use super::http::routes::{self, JsonContentType, Route};
use super::listening::{ConnectionHandler, Stream};
use super::settings::{Bounds, Secret};
use super::{App, Protocol};
use changes::AdminChange;
use guard::AdminAccess;

/// Speaks HTTP with operators.
pub struct Admin {
    app: Arc<App>,
    bounds: Bounds,
    token: Option<Secret>,
}

/// What there is to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdminEndpoint {
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

const ROUTES: [Route<AdminEndpoint>; 11] = [
    Route { path: "/healthz", methods: "GET, HEAD", endpoint: AdminEndpoint::Health },
    Route { path: "/readyz", methods: "GET, HEAD", endpoint: AdminEndpoint::Ready },
    Route { path: "/metrics", methods: "GET, HEAD", endpoint: AdminEndpoint::Metrics },
    Route { path: "/v1/rules", methods: "GET, HEAD", endpoint: AdminEndpoint::Rules },
    Route { path: "/v1/signals", methods: "GET, HEAD", endpoint: AdminEndpoint::Signals },
    Route { path: "/v1/signals/{name}", methods: "GET, HEAD, PUT", endpoint: AdminEndpoint::Signal },
    Route { path: "/v1/refund", methods: "POST", endpoint: AdminEndpoint::Refund },
    Route { path: "/v1/reset", methods: "POST", endpoint: AdminEndpoint::Reset },
    Route { path: "/v1/reload", methods: "POST", endpoint: AdminEndpoint::Reload },
    Route { path: "/openapi.json", methods: "GET, HEAD", endpoint: AdminEndpoint::OpenApi },
    Route { path: "/", methods: "GET, HEAD", endpoint: AdminEndpoint::Index },
];

/// What to say to who asks for this path elsewhere, if it is one that operators ask for.
pub(super) fn wrong_listener_hint(path: &str) -> Option<String> {
    let route = ROUTES.iter().find(|route| route.matches_path(path))?;
    Some(format!("{} is on the admin listener, by default at 127.0.0.1:9090", route.path))
}

impl Admin {
    /// In front of this, with everything as it is by default, for whoever comes.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_options(app, Bounds::default(), None)
    }

    /// In front of this, within these bounds, for operators who show the token, if there is one.
    pub fn with_options(app: Arc<App>, bounds: Bounds, token: Option<Secret>) -> Self {
        Self { app, bounds, token }
    }
}

impl ConnectionHandler for Admin {
    const PROTOCOL: Protocol = Protocol::Admin;

    async fn serve(&self, stream: Stream) {
        let guard = AdminAccess::new(self.token.as_ref(), &stream);
        let terms = ConnectionContext { app: &self.app, protocol: Self::PROTOCOL, bounds: &self.bounds };
        connection::serve(&AdminHandler { admin: self, access: guard }, stream, terms).await;
    }
}

/// The listener as a connection meets it.
struct AdminHandler<'a> {
    admin: &'a Admin,
    access: AdminAccess<'a>,
}

impl RequestHandler for AdminHandler<'_> {
    async fn handle(&self, asked: HttpRequest, busy: RequestGuard<'_>) -> Result<Reply, Infallible> {
        let reply = self.answer(asked, &busy).await.unwrap_or_else(|refused| *refused);
        reply::count_rejection(&self.admin.app, Protocol::Admin, &reply);
        Ok(busy.finish(reply))
    }
}

impl AdminHandler<'_> {
    /// Answers; the error is what is said of a request that is wrong.
    async fn answer(&self, asked: HttpRequest, busy: &RequestGuard<'_>) -> Result<Reply, ErrorReply> {
        let app = &*self.admin.app;
        self.access.check(&asked)?;
        Ok(match routes::find_route(&ROUTES, &asked, |_| None)? {
            AdminEndpoint::Health => health::healthz(app, &asked, Audience::Operators),
            AdminEndpoint::Ready => health::readyz(app),
            AdminEndpoint::Metrics => health::metrics(app),
            AdminEndpoint::Rules => rules::page(app, &asked)?,
            AdminEndpoint::Signals => signals::list(app),
            AdminEndpoint::Signal => {
                let name = signals::signal_name(asked.uri().path());
                match *asked.method() {
                    Method::PUT => signals::push(app, name, &self.json_body(asked, busy).await?)?,
                    _ => signals::get(app, &name)?,
                }
            }
            AdminEndpoint::Refund => changes::apply(app, &self.json_body(asked, busy).await?, AdminChange::Refund).await,
            AdminEndpoint::Reset => changes::apply(app, &self.json_body(asked, busy).await?, AdminChange::Reset).await,
            AdminEndpoint::Reload => changes::reload(app, &self.optional_json_body(asked, busy).await?).await,
            AdminEndpoint::OpenApi => reply(StatusCode::OK, ContentType::Json, include_str!("openapi.json")),
            AdminEndpoint::Index => reply(StatusCode::OK, ContentType::Text, include_str!("index.txt")),
        })
    }

    /// The body of a request, which is to be JSON and to say so.
    async fn json_body(&self, asked: HttpRequest, busy: &RequestGuard<'_>) -> Result<Bytes, ErrorReply> {
        routes::check_content_type(&asked, JsonContentType::Required)?;
        asking::read_body(asked, busy, &self.admin.bounds).await
    }

    /// The same of a request that may have no body. Then there is nothing to say of it, either.
    async fn optional_json_body(&self, asked: HttpRequest, busy: &RequestGuard<'_>) -> Result<Bytes, ErrorReply> {
        let said = routes::check_content_type(&asked, JsonContentType::Required);
        let says_nothing = !asked.headers().contains_key(CONTENT_TYPE);
        let body = asking::read_body(asked, busy, &self.admin.bounds).await?;
        if body.is_empty() && says_nothing { Ok(body) } else { said.map(|()| body) }
    }
}
