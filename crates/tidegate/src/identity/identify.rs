//! How requests are identified, configured once.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_core::rules::NamedAttributes;

use super::headers::{joined, only};
use super::path::Target;
use super::request::{Attributes, HttpRequest};
use super::source::{Source, after_named_scheme};
use super::{ClientAddress, Headers, PathError, TokenProblem, VerifyToken, normal_path};

/// The attributes that sources give, in the order of `Identity::sources`.
const SOURCE_NAMES: [&str; 3] = ["user", "tenant", "plan"];

/// Turns HTTP requests into attributes: `method`, `path`, `host`, `ip`, `header.NAME`, `user`, `tenant` and `plan`.
///
/// ```
/// use tidegate::Timestamp;
/// use tidegate::identity::{ClientAddress, ForwardedHeader, HttpRequest, Identity, Source};
///
/// let identity = Identity::default()
///     .with_client_address(ClientAddress::trusted_hops(ForwardedHeader::XForwardedFor, 1))
///     .with_user(Source::header("x-user"));
/// let headers = [("X-Forwarded-For", "198.51.100.7"), ("X-User", "ann")];
/// let request = HttpRequest {
///     method: Some("POST"),
///     target: Some(b"//login?next=/"),
///     host: Some(b"example.org:8080"),
///     peer: Some("10.0.0.1".parse()?),
///     headers: &headers,
/// };
/// let attributes = identity.attributes(&request, None, Timestamp::from_nanos(0))?;
/// assert_eq!(attributes.value("path"), Some("/login"));
/// assert_eq!(attributes.value("host"), Some("example.org"));
/// assert_eq!(attributes.value("ip"), Some("198.51.100.7"));
/// assert_eq!(attributes.value("user"), Some("ann"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Identity {
    client_address: ClientAddress,
    /// Of `user`, `tenant` and `plan`.
    sources: [Option<Source>; SOURCE_NAMES.len()],
    tokens: Option<Arc<dyn VerifyToken>>,
}

impl Identity {
    /// Sets where the address of the client comes from. The default is the peer.
    #[must_use]
    pub fn with_client_address(mut self, client_address: ClientAddress) -> Self {
        self.client_address = client_address;
        self
    }

    /// Sets where `user` comes from.
    #[must_use]
    pub fn with_user(mut self, source: Source) -> Self {
        self.sources[0] = Some(source);
        self
    }

    /// Sets where `tenant` comes from.
    #[must_use]
    pub fn with_tenant(mut self, source: Source) -> Self {
        self.sources[1] = Some(source);
        self
    }

    /// Sets where `plan` comes from.
    #[must_use]
    pub fn with_plan(mut self, source: Source) -> Self {
        self.sources[2] = Some(source);
        self
    }

    /// Sets what verifies the tokens in `Authorization: Bearer`. Without it, claims are missing.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<dyn VerifyToken>) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Where the address of the client comes from.
    pub fn client_address_settings(&self) -> &ClientAddress {
        &self.client_address
    }

    /// Whether a source is a claim of a token.
    pub fn uses_claims(&self) -> bool {
        self.sources.iter().flatten().any(|source| source.claim_name().is_some())
    }

    /// The address of the client.
    #[inline(always)]
    pub fn client_address(&self, peer: Option<IpAddr>, headers: &(impl Headers + ?Sized)) -> Option<IpAddr> {
        match self.client_address.header_name() {
            Some(name) => self.forwarded_address(peer, headers, name),
            None => ClientAddress::of_peer(peer),
        }
    }

    #[inline(never)]
    fn forwarded_address(
        &self,
        peer: Option<IpAddr>,
        headers: &(impl Headers + ?Sized),
        name: &str,
    ) -> Option<IpAddr> {
        self.client_address.find(peer, headers.values(name))
    }

    /// The attributes of a request. Of the headers only those that `named` has are read, and `user`, `tenant` and
    /// `plan` only if it has them; without `named` no headers, and all of these three.
    ///
    /// `now` is compared with the times in a token.
    pub fn attributes<'a, H: Headers + ?Sized>(
        &self,
        request: &HttpRequest<'a, H>,
        named: Option<&'a NamedAttributes>,
        now: Timestamp,
    ) -> Result<Attributes<'a>, PathError> {
        let client_address = self.client_address(request.peer, request.headers);
        let mut attributes = Attributes { values: Default::default(), client_address, token_problem: None };
        if let Some(method) = request.method {
            attributes.push("method", method);
        }
        let authority = request.target.map(Target::split).transpose()?.and_then(|target| target.authority);
        if let Some(target) = request.target {
            attributes.push("path", normal_path(target)?);
        }
        // An authority without a host, as in `http:///login`, must not hide the header.
        if let Some(host) = authority.and_then(host_name).or_else(|| request.host.and_then(host_name)) {
            attributes.push("host", host);
        }
        if let Some(address) = client_address {
            attributes.push("ip", address.to_string());
        }
        for (key, name) in named.iter().flat_map(|named| named.headers()) {
            if let Some(value) = joined(request.headers, name) {
                attributes.push(key, value);
            }
        }
        let is_wanted = |name: &str| named.is_none_or(|named| named.has(name));
        self.push_sources(request.headers, is_wanted, now, &mut attributes);
        Ok(attributes)
    }

    /// Adds `user`, `tenant` and `plan`, as far as they are wanted.
    fn push_sources<'a, H: Headers + ?Sized>(
        &self,
        headers: &'a H,
        is_wanted: impl Fn(&str) -> bool,
        now: Timestamp,
        attributes: &mut Attributes<'a>,
    ) {
        let wanted = || SOURCE_NAMES.iter().zip(&self.sources).filter(|(name, _)| is_wanted(name));
        let claims: Vec<&str> =
            wanted().filter_map(|(_, source)| source.as_ref().and_then(Source::claim_name)).collect();
        let mut claim_values = match self.verify_token(headers, &claims, now) {
            Ok(values) => values,
            Err(problem) => {
                attributes.token_problem = Some(problem);
                Vec::new()
            }
        }
        .into_iter();
        for (name, source) in wanted() {
            let Some(source) = source else { continue };
            let value = match source.claim_name() {
                Some(_) => claim_values.next().flatten().map(Cow::Owned),
                None => source.header_value(headers),
            };
            if let Some(value) = value {
                attributes.push(name, value);
            }
        }
    }

    /// The values of claims in the token of the request. Empty without a token.
    fn verify_token(
        &self,
        headers: &(impl Headers + ?Sized),
        claims: &[&str],
        now: Timestamp,
    ) -> Result<Vec<Option<String>>, TokenProblem> {
        let Some(tokens) = self.tokens.as_ref().filter(|_| !claims.is_empty()) else { return Ok(Vec::new()) };
        let value = only(headers, "authorization");
        let Some(token) = value.and_then(|value| after_named_scheme(value, "bearer")) else {
            return Ok(Vec::new());
        };
        let token = str::from_utf8(token).map_err(|_| TokenProblem::Malformed)?;
        tokens.verify(token, claims, now)
    }
}

/// The host without user, port and the dot of a complete domain name: spellings of one host.
fn host_name(authority: &[u8]) -> Option<Cow<'_, str>> {
    let host = match authority.iter().rposition(|byte| *byte == b'@') {
        Some(at) => &authority[at + 1..],
        None => authority,
    };
    let host = host.trim_ascii();
    let end = match host.first() {
        Some(b'[') => host.iter().position(|byte| *byte == b']').map_or(host.len(), |end| end + 1),
        _ => host.iter().position(|byte| *byte == b':').unwrap_or(host.len()),
    };
    let host = host[..end].strip_suffix(b".").unwrap_or(&host[..end]);
    (!host.is_empty()).then(|| String::from_utf8_lossy(host))
}
