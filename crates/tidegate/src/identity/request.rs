//! A real HTTP request, and its attributes.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

use smallvec::SmallVec;
use tidegate_core::rules::Entry;

use super::TokenProblem;

/// Up to this many attributes need no allocation for the list.
const ENTRIES_INLINE: usize = 8;

/// What a listener or a layer knows of a request. What is `None` becomes a missing attribute.
#[derive(Debug)]
pub struct HttpRequest<'a, H: ?Sized> {
    /// The method.
    pub method: Option<&'a str>,
    /// The request target: a path with its query, an absolute URI, or `*`.
    pub target: Option<&'a [u8]>,
    /// The header `Host`, or the authority of HTTP/2. An absolute URI in `target` takes precedence.
    pub host: Option<&'a [u8]>,
    /// The address of the connection, or of PROXY protocol. A Unix socket has none.
    pub peer: Option<IpAddr>,
    /// The headers.
    pub headers: &'a H,
}

/// The attributes of a request, as one descriptor has them.
pub struct Attributes<'a> {
    pub(super) values: SmallVec<[(&'a str, Cow<'a, str>); ENTRIES_INLINE]>,
    pub(super) client_address: Option<IpAddr>,
    pub(super) token_problem: Option<TokenProblem>,
}

/// The entries of a descriptor.
#[derive(Clone, Debug)]
pub struct Entries<'a>(SmallVec<[Entry<'a>; ENTRIES_INLINE]>);

impl<'a> Attributes<'a> {
    /// The entries of a descriptor with these attributes.
    pub fn entries(&self) -> Entries<'_> {
        Entries(self.values.iter().map(|(key, value)| Entry { key, value }).collect())
    }

    /// Adds an attribute.
    pub fn push(&mut self, name: &'a str, value: impl Into<Cow<'a, str>>) {
        self.values.push((name, value.into()));
    }

    /// The value of an attribute.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(key, _)| *key == name).map(|(_, value)| &**value)
    }

    /// The address of the client.
    pub fn client_address(&self) -> Option<IpAddr> {
        self.client_address
    }

    /// Why the token of the request was not accepted. `None` if it was, or if there is none.
    pub fn token_problem(&self) -> Option<TokenProblem> {
        self.token_problem
    }
}

impl<'a> Deref for Entries<'a> {
    type Target = [Entry<'a>];

    fn deref(&self) -> &[Entry<'a>] {
        &self.0
    }
}

/// Only the names: values may be secret.
impl fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.iter().map(|(name, _)| name)).finish()
    }
}

impl<H: ?Sized> Clone for HttpRequest<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: ?Sized> Copy for HttpRequest<'_, H> {}
