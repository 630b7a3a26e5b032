//! `/v1/authorize`: a proxy asks about a request before it passes it on.
//!
//! ```text
//! original_request.rs   the request of the client, in headers that the proxy adds
//! client_headers.rs     the headers of the client
//! reply.rs              what the proxy needs: a status, and headers for the client and the upstream
//! ```
//!
//! The proxy sends the headers of the client's request as they are, so a client can send any header that the proxy does not
//! replace. This is why each [`ForwardAuthSource`] reads only the headers that its proxy replaces, and why the headers that
//! Tidegate itself sends mean nothing here.
//!
//! `docs/proxies.md` has the settings of the proxies.

mod client_headers;
mod original_request;
mod reply;

use std::net::IpAddr;

use hyper::header::HeaderMap;
use tidegate::Timestamp;
use tidegate::engine::ActiveRules;
use tidegate::identity::{Attributes, Headers, HttpRequest, Identity, SelfChecks};
use tidegate::rules::{Descriptor, Request};
use tidegate::{DecideOutput, EngineError};
use tidegate_core::rules::headers::policy_name;

use super::proxy_protocol::ProxyProtocol;
use super::reply::{ErrorReply, Reply};
use crate::serve::settings::ForwardAuthSource;
use crate::serve::{App, Protocol, SharedInstant};
use original_request::OriginalRequest;

pub(super) use client_headers::{HeaderMapLines, ParsedLines};
pub use original_request::OriginalRequestError;
pub(super) use reply::{DenyStatus, decided_reply, not_configured};

/// The path of the endpoint.
pub(super) const PATH: &str = "/v1/authorize";
/// Maximum number of headers of a request: the client's, and those of the proxy.
const HEADERS_MAX: usize = 200;
/// Maximum size of these headers.
const HEADER_BYTES_MAX: usize = 48 << 10;
/// The cost of a request.
const COST: u64 = 1;

/// How proxies ask.
#[derive(Debug)]
pub struct ForwardAuth {
    /// The domain whose rules apply.
    domain: Box<str>,
    /// Which headers say what the client requested.
    source: ForwardAuthSource,
    /// Where the attributes come from.
    identity: Identity,
    /// Whether connections say who the client is, so that no header has to.
    proxy_protocol: ProxyProtocol,
    self_checks: SelfChecks,
}

impl ForwardAuth {
    /// By the rules of this domain.
    pub fn new(domain: &str, source: ForwardAuthSource, identity: Identity) -> Self {
        let (proxy_protocol, self_checks) = (ProxyProtocol::default(), SelfChecks::default());
        Self { domain: domain.into(), source, identity, proxy_protocol, self_checks }
    }

    /// Sets whether the connections to the listener begin with a header of the PROXY protocol.
    #[must_use]
    pub fn with_proxy_protocol(self, proxy_protocol: ProxyProtocol) -> Self {
        Self { proxy_protocol, ..self }
    }

    /// The attributes of the client's request. `rules` name the headers that are needed.
    pub fn attributes<'a, H: Headers>(
        &self,
        headers: &'a H,
        peer: Option<IpAddr>,
        rules: &'a ActiveRules,
        now: Timestamp,
    ) -> Result<Attributes<'a>, OriginalRequestError> {
        if self.proxy_protocol == ProxyProtocol::Off
            && let Some(found) =
                self.self_checks.observe_headers(self.identity.client_address_settings(), headers)
        {
            tracing::warn!(code = found.code(), "{found}");
        }
        let OriginalRequest { method, target, host } = OriginalRequest::read(self.source, headers)?;
        let request = HttpRequest { method, target, host, peer, headers };
        let named = rules.domain(&self.domain).map(|domain| domain.named_attributes());
        self.identity.attributes(&request, named, now).map_err(OriginalRequestError::Path)
    }

    /// Decides a request, and charges it.
    pub(super) async fn authorize(&self, app: &App, headers: &HeaderMap, peer: Option<IpAddr>) -> Reply {
        match self.try_authorize(app, headers, peer).await {
            Ok(reply) => reply,
            Err(reply) => *reply,
        }
    }

    async fn try_authorize(
        &self,
        app: &App,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Reply, ErrorReply> {
        if headers.len() > HEADERS_MAX {
            return Err(reply::head_too_large(&format_args!("{HEADERS_MAX} headers")));
        }
        if header_bytes(headers) > HEADER_BYTES_MAX {
            return Err(reply::head_too_large(&format_args!("{} KiB of headers", HEADER_BYTES_MAX >> 10)));
        }
        let (headers, rules, mut instant) =
            (HeaderMapLines(headers), app.engine.rules(), SharedInstant::default());
        let attributes = self.attributes(&headers, peer, &rules, instant.now(app));
        let attributes = attributes.map_err(|error| reply::bad_request(&error))?;
        let entries = attributes.entries();
        let descriptors = [Descriptor::new(&entries, COST)];
        let request = Request { domain: &self.domain, descriptors: &descriptors };
        let reply = |output: Result<&DecideOutput, &EngineError>| {
            self.observe(app, &attributes, output, &descriptors[0]);
            decided_reply(app, output)
        };
        Ok(match app.check_with(Protocol::Http, &request, &mut instant, reply) {
            Ok(reply) => reply,
            Err(pending) => {
                let output = Box::pin(app.finish_check(Protocol::Http, &request, pending)).await;
                reply(output.as_ref())
            }
        })
    }

    /// Decides a request as [`authorize`](Self::authorize) does, if memory can decide it at once. None if it cannot, or if
    /// the request is invalid: nothing was charged then.
    pub(super) fn authorize_at_once<R>(
        &self,
        app: &App,
        headers: &ParsedLines<'_, '_>,
        peer: Option<IpAddr>,
        now: Timestamp,
        then: impl FnOnce(Result<&DecideOutput, &EngineError>) -> R,
    ) -> Option<R> {
        let rules = app.engine.rules();
        let attributes = self.attributes(headers, peer, &rules, now).ok()?;
        let entries = attributes.entries();
        let descriptors = [Descriptor::new(&entries, COST)];
        let request = Request { domain: &self.domain, descriptors: &descriptors };
        app.check_at_once(Protocol::Http, &request, now, |output| {
            self.observe(app, &attributes, output, &descriptors[0]);
            then(output)
        })
    }

    /// Counts a token that was not accepted, and looks for hints at wrong settings in the keys of some requests.
    #[inline]
    fn observe(
        &self,
        app: &App,
        attributes: &Attributes<'_>,
        output: Result<&DecideOutput, &EngineError>,
        descriptor: &Descriptor<'_>,
    ) {
        if let Some(problem) = attributes.token_problem() {
            app.metrics.count_token_problem(problem);
        }
        if let Ok(output) = output {
            self.self_checks.observe_limits(output.answer.limits(), descriptor, |found, limit| {
                tracing::warn!(code = found.code(), limit = %policy_name(limit), "{found}");
            });
        }
    }
}

/// The size of headers in a request.
fn header_bytes(headers: &HeaderMap) -> usize {
    const SEPARATORS: usize = ": \r\n".len();
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + SEPARATORS).sum()
}
