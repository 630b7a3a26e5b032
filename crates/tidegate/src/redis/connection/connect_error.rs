//! Why the store cannot be used.

use std::convert::Infallible;
use std::fmt;

use crate::redis::UrlError;

/// Why the store cannot be used, at which endpoint, and what to do. It never contains a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    kind: ConnectErrorKind,
    /// Empty if it is unknown.
    endpoint: Box<str>,
    message: Box<str>,
    hint: Box<str>,
}

/// The kind of a connection error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectErrorKind {
    /// Nothing replies there, or not in time.
    Unreachable,
    /// TLS failed: a certificate is wrong, or one side does not use TLS.
    Tls,
    /// The user or the password is wrong or missing, or the user lacks a permission that Tidegate needs.
    AccessDenied,
    /// The version is older than Tidegate needs.
    TooOld,
    /// The URL says another kind of server: a cluster, a single server, a Sentinel, a replica.
    WrongKind,
    /// The server cannot be used now: it is loading, out of memory, without a master or without slots.
    NotReady,
    /// The URL is wrong.
    BadUrl,
    /// There is no tokio runtime, or a thread cannot be started.
    NoRuntime,
}

impl ConnectError {
    pub(crate) fn new(
        kind: ConnectErrorKind,
        endpoint: impl fmt::Display,
        message: impl Into<Box<str>>,
        hint: impl Into<Box<str>>,
    ) -> Self {
        Self { kind, endpoint: endpoint.to_string().into(), message: message.into(), hint: hint.into() }
    }

    /// The kind of the error.
    pub fn kind(&self) -> ConnectErrorKind {
        self.kind
    }

    /// What is wrong, without the endpoint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Whether the error may go away by itself, so another attempt makes sense.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, ConnectErrorKind::Unreachable | ConnectErrorKind::NotReady)
    }

    /// Whether both have the same cause. The text of the server or of TLS may contain the time, so it is not
    /// compared.
    pub(crate) fn has_same_cause(&self, other: &Self) -> bool {
        self.kind == other.kind && self.endpoint == other.endpoint && self.hint == other.hint
    }

    /// What is wrong and what to do, without the endpoint.
    pub(crate) fn reason(&self) -> String {
        format!("{} (hint: {})", self.message, self.hint)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.endpoint {
            "" => write!(f, "the store cannot be used: {}", self.reason()),
            endpoint => write!(f, "the store at {endpoint} cannot be used: {}", self.reason()),
        }
    }
}

impl From<UrlError> for ConnectError {
    fn from(error: UrlError) -> Self {
        // The URL has no readable address, and may contain a password, so it is not shown.
        Self::new(ConnectErrorKind::BadUrl, "", error.message(), error.hint())
    }
}

/// For [`RedisSettings`](crate::redis::RedisSettings) and [`StoreUrl`](crate::redis::StoreUrl), whose
/// conversion cannot fail.
impl From<Infallible> for ConnectError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for ConnectError {}
