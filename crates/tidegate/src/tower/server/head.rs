//! What decisions are made by: the head of a request.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::HOST;
use http::{Extensions, HeaderMap, Method, Request, Uri};

use crate::identity::{Headers, HttpRequest};

/// The head of a request: everything but its body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The URI.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// What the server and outer layers have added.
    pub extensions: &'a Extensions,
}

/// The address of the client's connection, as an extension of a request. A program whose server adds no extension of its
/// own can add this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// Finds the address of the connection in the extensions of a request.
///
/// Without it, the address is [`PeerAddress`], or a plain [`SocketAddr`].
#[derive(Clone)]
pub struct PeerLookup(Arc<FindPeer>);

type FindPeer = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;

impl<'a> RequestHead<'a> {
    /// The head of a request.
    pub fn new<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// The value of a header with one line of text. None if it is missing or empty, or has several lines.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())?;
        values.next().is_none().then_some(value)
    }

    /// The request as the module [`identity`](crate::identity) reads it. `target` is the URI as text.
    pub(super) fn http_request(&self, target: &'a str, peer: Option<IpAddr>) -> HttpRequest<'a, HeaderMap> {
        // HTTP/2, and absolute targets: the host that the server acts on. Such a request may have another one as `Host`.
        let authority = self.uri.authority().map(|authority| authority.as_str().as_bytes());
        let host = || self.headers.get(HOST).map(http::HeaderValue::as_bytes);
        HttpRequest {
            method: Some(self.method.as_str()),
            target: Some(target.as_bytes()),
            host: authority.or_else(host),
            peer,
            headers: self.headers,
        }
    }
}

impl PeerLookup {
    /// The address in an extension of type `T`.
    pub fn in_extension<T: Clone + Send + Sync + 'static>(
        address: impl Fn(&T) -> IpAddr + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |extensions| extensions.get::<T>().map(&address)))
    }

    /// The address that a function finds.
    pub fn by(find: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub(super) fn find(&self, head: &RequestHead<'_>) -> Option<IpAddr> {
        self.0(head.extensions)
    }
}

impl Default for PeerLookup {
    fn default() -> Self {
        Self::by(|extensions| {
            let peer = extensions.get::<PeerAddress>().map(|peer| peer.0);
            peer.or_else(|| extensions.get::<SocketAddr>().map(SocketAddr::ip))
        })
    }
}

impl fmt::Debug for PeerLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerLookup")
    }
}

impl Headers for HeaderMap {
    fn values<'h>(&'h self, name: &str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
        self.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }
}
