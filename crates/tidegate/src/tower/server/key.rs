//! Which counter a request falls under: key extractors for limits without rules.

use std::net::IpAddr;

use tidegate_core::{IntoKey, IpKey, KeyBuf, Timestamp};

use super::{PeerLookup, RequestHead};
use crate::identity::Identity;

/// Finds the key of a request. A function from a [`RequestHead`] to an optional key is one:
///
/// ```
/// use tidegate::tower::server::{KeyExtractor, RequestHead};
///
/// fn is_extractor(_: impl KeyExtractor) {}
/// is_extractor(|request: &RequestHead<'_>| request.header("x-api-key").map(str::to_owned));
/// ```
pub trait KeyExtractor: Send + Sync + 'static {
    /// The key, or none if the request lacks it. `now` is compared with the times in tokens.
    fn key(&self, request: &RequestHead<'_>, now: Timestamp) -> Option<KeyBuf>;

    /// Where the address of the client comes from, if that is the key. For the
    /// [self-checks](super::RateLimitLayer::on_self_check).
    fn client_address(&self) -> Option<&Identity> {
        None
    }
}

impl<F, K> KeyExtractor for F
where
    F: Fn(&RequestHead<'_>) -> Option<K> + Send + Sync + 'static,
    K: IntoKey,
{
    fn key(&self, request: &RequestHead<'_>, _: Timestamp) -> Option<KeyBuf> {
        Some(KeyBuf::from_slice(self(request)?.key_bytes().as_ref()))
    }
}

/// One key for each client address: an IPv4 address, or an IPv6 prefix.
///
/// The address is that of the connection, unless an [`Identity`] says which proxies to trust.
#[derive(Clone, Debug)]
pub struct PerIp {
    peer: PeerLookup,
    identity: Identity,
    v6_prefix_bits: Option<u8>,
}

/// One key for each user, as an [`Identity`] finds them.
#[derive(Clone, Debug)]
pub struct PerUser {
    identity: Identity,
}

/// One key for each value of a header. Clients choose it, so use it only behind something that checks or sets the header.
#[derive(Clone, Debug)]
pub struct PerHeader {
    name: Box<str>,
}

/// One key for all requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneKey;

impl PerIp {
    /// The address of the connection, from an extension that the server adds to requests. In axum:
    /// `PerIp::of(|info: &ConnectInfo<SocketAddr>| info.0.ip())`.
    pub fn of<T: Clone + Send + Sync + 'static>(
        address: impl Fn(&T) -> IpAddr + Send + Sync + 'static,
    ) -> Self {
        Self::with_peer(PeerLookup::in_extension(address))
    }

    /// As [`of`](Self::of), with any lookup.
    pub fn with_peer(peer: PeerLookup) -> Self {
        Self { peer, identity: Identity::default(), v6_prefix_bits: None }
    }

    /// Takes the address from where this identity says, such as `X-Forwarded-For` behind one trusted proxy.
    #[must_use]
    pub fn identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Groups IPv6 addresses by a prefix of this many bits. The default is 64.
    #[must_use]
    pub fn v6_prefix(self, bits: u8) -> Self {
        Self { v6_prefix_bits: Some(bits), ..self }
    }
}

impl KeyExtractor for PerIp {
    #[inline(always)]
    fn key(&self, request: &RequestHead<'_>, _: Timestamp) -> Option<KeyBuf> {
        let address = self.identity.client_address(self.peer.find(request), request.headers)?;
        let key = IpKey::new(address);
        Some(match self.v6_prefix_bits {
            Some(bits) => key.v6_prefix(bits).key_bytes(),
            None => key.key_bytes(),
        })
    }

    fn client_address(&self) -> Option<&Identity> {
        Some(&self.identity)
    }
}

impl PerUser {
    /// The user that this identity finds.
    pub fn new(identity: Identity) -> Self {
        Self { identity }
    }
}

impl KeyExtractor for PerUser {
    fn key(&self, request: &RequestHead<'_>, now: Timestamp) -> Option<KeyBuf> {
        let http_request = request.http_request("*", None);
        let attributes = self.identity.attributes(&http_request, None, now).ok()?;
        attributes.value("user").map(|user| KeyBuf::from_slice(user.as_bytes()))
    }
}

impl PerHeader {
    /// The header with this name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_ascii_lowercase().into() }
    }
}

impl KeyExtractor for PerHeader {
    fn key(&self, request: &RequestHead<'_>, _: Timestamp) -> Option<KeyBuf> {
        request.header(&self.name).map(|value| KeyBuf::from_slice(value.as_bytes()))
    }
}

impl KeyExtractor for OneKey {
    fn key(&self, _: &RequestHead<'_>, _: Timestamp) -> Option<KeyBuf> {
        Some(KeyBuf::from_slice(b""))
    }
}
