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
use std::sync::atomic::{AtomicU32, Ordering};

use hyper::header::HeaderMap;
use tidegate::Timestamp;
use tidegate::engine::ActiveRules;
use tidegate::identity::{Attributes, Headers, HttpRequest, Identity, SelfCheck, SelfChecks};
use tidegate::rules::{Descriptor, Request};
use tidegate::{DecideOutput, EngineError};

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
/// The cost of a request.
const COST: u64 = 1;

/// One in this many requests is looked at for hints at wrong settings.
const OBSERVED_EVERY: u32 = 64;

/// How proxies ask.
#[derive(Debug)]
pub struct ForwardAuth {
    /// The domain whose rules apply.
    domain: Box<str>,
    /// Which headers say what the client requested.
    source: ForwardAuthSource,
    /// Where the attributes come from.
    identity: Identity,
    self_checks: SelfChecks,
    /// Requests so far. Threads may overwrite each other: a sample is enough.
    requests: AtomicU32,
}

impl ForwardAuth {
    /// By the rules of this domain.
    pub fn new(domain: &str, source: ForwardAuthSource, identity: Identity) -> Self {
        let (self_checks, requests) = (SelfChecks::default(), AtomicU32::new(0));
        Self { domain: domain.into(), source, identity, self_checks, requests }
    }

    /// The attributes of the client's request. `rules` name the headers that are needed.
    pub fn attributes<'a, H: Headers>(
        &self,
        headers: &'a H,
        peer: Option<IpAddr>,
        rules: &'a ActiveRules,
        now: Timestamp,
    ) -> Result<Attributes<'a>, OriginalRequestError> {
        if let Some(found) =
            self.self_checks.observe_headers(self.identity.client_address_settings(), headers)
        {
            warn(found);
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
            return Err(reply::too_many_headers(HEADERS_MAX));
        }
        let (headers, rules, mut instant) =
            (HeaderMapLines(headers), app.engine.rules(), SharedInstant::default());
        let attributes = self.attributes(&headers, peer, &rules, instant.now(app));
        let attributes = attributes.map_err(|error| reply::bad_request(&error))?;
        let entries = attributes.entries();
        let descriptors = [Descriptor::new(&entries, COST)];
        let request = Request { domain: &self.domain, descriptors: &descriptors };
        let decided = app.check_with(Protocol::Http, &request, &mut instant, |output| {
            self.observe(output, &descriptors[0]);
            decided_reply(app, output)
        });
        Ok(match decided {
            Ok(reply) => reply,
            Err(pending) => {
                let output = Box::pin(app.finish_check(Protocol::Http, &request, pending)).await;
                decided_reply(app, output.as_ref())
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
            self.observe(output, &descriptors[0]);
            then(output)
        })
    }

    /// Looks for hints at wrong settings in the keys of some requests.
    #[inline]
    fn observe(&self, output: Result<&DecideOutput, &EngineError>, descriptor: &Descriptor<'_>) {
        let requests = self.requests.load(Ordering::Relaxed);
        self.requests.store(requests.wrapping_add(1), Ordering::Relaxed);
        if let (Ok(output), 0) = (output, requests % OBSERVED_EVERY) {
            for limit in output.answer.limits() {
                if let Some(found) =
                    self.self_checks.observe_key(&limit.rule.name, &limit.limit.key, descriptor)
                {
                    warn(found);
                }
            }
        }
    }
}

#[cold]
fn warn(found: SelfCheck) {
    tracing::warn!(code = found.code(), "{found}");
}
