//! HTTP for operators: the state of the server, and changes by hand.
//!
//! ```text
//! access.rs    which requests are allowed
//! rules.rs     the active rules
//! signals.rs   signals of elastic limits
//! edit.rs      edits of the two below, as tasks
//! overrides/   overrides of single keys
//! stored_rules/ rules in the config store
//! reset.rs     resets
//! changes.rs   refunds, reloads
//! ```
//!
//! Built from the parts of the HTTP listener. `docs/http.md` is the reference.

mod access;
mod changes;
mod edit;
mod overrides;
mod reset;
mod rules;
mod signals;
mod stored_rules;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, StatusCode};

use super::allowed_hosts::{AllowedHosts, HostCheck};
use super::body;
use super::connection::{self, ConnectionContext, HeadBounds, HttpRequest, RequestHandler};
use super::cross_site::CrossSiteCheck;
use super::health::{self, Audience};
use super::index;
use super::reply::{self, ContentType, ErrorReply, Reply, reply};
use super::routes::{self, JsonContentType, Route};
use super::tracker::RequestGuard;
use crate::serve::listen::{ConnectionHandler, Stream};
use crate::serve::settings::{Bounds, MetricsAccess, Secret};
use crate::serve::{App, Protocol};
use access::AdminAccess;
use edit::Edit;

/// The admin listener.
pub struct Admin {
    app: Arc<App>,
    bounds: Bounds,
    token: Option<Secret>,
    metrics: MetricsAccess,
}

/// The endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdminEndpoint {
    Health,
    Ready,
    Metrics,
    Rules,
    PushRules,
    RollBackRules,
    EndRules,
    RulesHistory,
    RulesFiles,
    Signals,
    Signal,
    Refund,
    Reset,
    Reload,
    Overrides,
    ImportOverrides,
    ExportOverrides,
    Ban,
    Unban,
    OpenApi,
    Index,
}

const ROUTES: [Route<AdminEndpoint>; 21] = [
    route("/healthz", "GET, HEAD", AdminEndpoint::Health),
    route("/readyz", "GET, HEAD", AdminEndpoint::Ready),
    route("/metrics", "GET, HEAD", AdminEndpoint::Metrics),
    route("/v1/rules", "GET, HEAD", AdminEndpoint::Rules),
    route("/v1/rules/push", "POST", AdminEndpoint::PushRules),
    route("/v1/rules/rollback", "POST", AdminEndpoint::RollBackRules),
    route("/v1/rules/end", "POST", AdminEndpoint::EndRules),
    route("/v1/rules/history", "GET, HEAD", AdminEndpoint::RulesHistory),
    route("/v1/rules/files", "GET, HEAD", AdminEndpoint::RulesFiles),
    route("/v1/signals", "GET, HEAD", AdminEndpoint::Signals),
    route("/v1/signals/{name}", "GET, HEAD, PUT", AdminEndpoint::Signal),
    route("/v1/refund", "POST", AdminEndpoint::Refund),
    route("/v1/reset", "POST", AdminEndpoint::Reset),
    route("/v1/reload", "POST", AdminEndpoint::Reload),
    route("/v1/overrides", "GET, HEAD, PUT, DELETE", AdminEndpoint::Overrides),
    route("/v1/overrides/import", "POST", AdminEndpoint::ImportOverrides),
    route("/v1/overrides/export", "GET, HEAD", AdminEndpoint::ExportOverrides),
    route("/v1/ban", "POST", AdminEndpoint::Ban),
    route("/v1/unban", "POST", AdminEndpoint::Unban),
    route("/openapi.json", "GET, HEAD", AdminEndpoint::OpenApi),
    route("/", "GET, HEAD", AdminEndpoint::Index),
];

/// `access.rs` checks the host.
const fn route(path: &'static str, methods: &'static str, endpoint: AdminEndpoint) -> Route<AdminEndpoint> {
    let (host, cross_site) = (HostCheck::None, CrossSiteCheck::ExceptReads);
    Route { path, methods, endpoint, host, cross_site, headers_max: routes::HEADERS_MAX }
}

/// The hint for a request to the HTTP listener with a path of the admin listener.
pub(super) fn wrong_listener_hint(path: &str) -> Option<String> {
    let route = ROUTES.iter().find(|route| route.matches_path(path))?;
    Some(format!("{} is on the admin listener, by default at 127.0.0.1:9090", route.path))
}

impl Admin {
    /// With the default bounds, without a token.
    pub fn new(app: Arc<App>) -> Self {
        Self::with_options(app, Bounds::default(), None)
    }

    /// With these bounds. If there is a token, operators must send it.
    pub fn with_options(app: Arc<App>, bounds: Bounds, token: Option<Secret>) -> Self {
        Self { app, bounds, token, metrics: MetricsAccess::default() }
    }

    /// Whether `/metrics` needs the token.
    #[must_use]
    pub fn with_metrics_access(self, metrics: MetricsAccess) -> Self {
        Self { metrics, ..self }
    }
}

impl ConnectionHandler for Admin {
    const PROTOCOL: Protocol = Protocol::Admin;

    async fn serve(&self, stream: Stream) {
        let access = AdminAccess::new(self.token.as_ref(), self.metrics, &stream);
        let (app, protocol, bounds) = (&*self.app, Self::PROTOCOL, &self.bounds);
        let context = ConnectionContext { app, protocol, bounds, head: HeadBounds::DEFAULT };
        connection::serve(&AdminHandler { admin: self, access }, stream, context).await;
    }
}

/// Handles the requests of one connection.
struct AdminHandler<'a> {
    admin: &'a Admin,
    access: AdminAccess<'a>,
}

impl RequestHandler for AdminHandler<'_> {
    async fn handle(&self, request: HttpRequest, guard: RequestGuard<'_>) -> Result<Reply, Infallible> {
        let reply = self.answer(request, &guard).await.unwrap_or_else(|reply| *reply);
        reply::count_rejection(&self.admin.app, Protocol::Admin, &reply);
        Ok(guard.finish(reply))
    }
}

impl AdminHandler<'_> {
    /// Answers a request.
    async fn answer(&self, request: HttpRequest, guard: &RequestGuard<'_>) -> Result<Reply, ErrorReply> {
        let app = &self.admin.app;
        self.access.check(&request, app).await?;
        Ok(match routes::find_route(&ROUTES, &request, &AllowedHosts::Any, |_| None)? {
            AdminEndpoint::Health => health::healthz(app, &request, Audience::Operators),
            AdminEndpoint::Ready => health::readyz(app),
            AdminEndpoint::Metrics => health::metrics(app),
            AdminEndpoint::Rules => rules::page(app, &request)?,
            AdminEndpoint::PushRules => {
                routes::check_content_type(&request, JsonContentType::Required)?;
                let bounds = Bounds { body_bytes_max: stored_rules::PUSH_BYTES_MAX, ..self.admin.bounds };
                let body = body::read_body(request.into_body(), guard, &bounds).await?;
                Edit::PushRules.run(app, body).await?
            }
            AdminEndpoint::RollBackRules => {
                Edit::RollBackRules.run(app, self.json_body(request, guard).await?).await?
            }
            AdminEndpoint::EndRules => Edit::EndRules.run(app, self.json_body(request, guard).await?).await?,
            AdminEndpoint::RulesHistory => stored_rules::history(app).await?,
            AdminEndpoint::RulesFiles => stored_rules::files(app, &request).await?,
            AdminEndpoint::Signals => signals::list(app),
            AdminEndpoint::Signal => {
                let name = signals::signal_name(request.uri().path());
                match *request.method() {
                    Method::PUT => signals::push(app, name, &self.json_body(request, guard).await?)?,
                    _ => signals::get(app, &name)?,
                }
            }
            AdminEndpoint::Refund => changes::refund(app, &self.json_body(request, guard).await?).await,
            AdminEndpoint::Reset => reset::reset(app, &self.json_body(request, guard).await?).await,
            AdminEndpoint::Reload => {
                changes::reload(app, &self.optional_json_body(request, guard).await?).await
            }
            AdminEndpoint::Overrides => match *request.method() {
                Method::PUT => Edit::SetOverride.run(app, self.json_body(request, guard).await?).await?,
                Method::DELETE => {
                    Edit::DeleteOverride.run(app, self.json_body(request, guard).await?).await?
                }
                _ => overrides::get(app, &request).await?,
            },
            AdminEndpoint::ImportOverrides => {
                routes::check_content_type(&request, JsonContentType::JsonLines)?;
                let body = body::read_body(request.into_body(), guard, &self.admin.bounds).await?;
                Edit::ImportOverrides.run(app, body).await?
            }
            AdminEndpoint::ExportOverrides => overrides::export(app, &request).await?,
            AdminEndpoint::Ban => Edit::Ban.run(app, self.json_body(request, guard).await?).await?,
            AdminEndpoint::Unban => Edit::Unban.run(app, self.json_body(request, guard).await?).await?,
            AdminEndpoint::OpenApi => reply(StatusCode::OK, ContentType::Json, include_str!("openapi.json")),
            AdminEndpoint::Index => index::page(app, Protocol::Admin, include_str!("index.txt")),
        })
    }

    /// Reads a body that must be declared as JSON.
    async fn json_body(&self, request: HttpRequest, guard: &RequestGuard<'_>) -> Result<Bytes, ErrorReply> {
        routes::check_content_type(&request, JsonContentType::Required)?;
        body::read_body(request.into_body(), guard, &self.admin.bounds).await
    }

    /// The same, but the request may have no body, and then needs no content type.
    async fn optional_json_body(
        &self,
        request: HttpRequest,
        guard: &RequestGuard<'_>,
    ) -> Result<Bytes, ErrorReply> {
        let content_type = routes::check_content_type(&request, JsonContentType::Required);
        let has_no_content_type = !request.headers().contains_key(CONTENT_TYPE);
        let body = body::read_body(request.into_body(), guard, &self.admin.bounds).await?;
        if body.is_empty() && has_no_content_type { Ok(body) } else { content_type.map(|()| body) }
    }
}
