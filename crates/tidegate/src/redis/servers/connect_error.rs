//! Why the store cannot be used.

use std::convert::Infallible;
use std::fmt;

use crate::redis::UrlError;

/// Why the store cannot be used, where, and what to do. It never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    kind: ConnectErrorKind,
    /// Empty if it is not known where.
    endpoint: Box<str>,
    message: Box<str>,
    hint: Box<str>,
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectErrorKind {
    /// Nobody answers there, or not in time.
    Unreachable,
    /// The connection cannot be made secure: certificates, or one side that does not speak TLS.
    Tls,
    /// The user or the password is wrong or missing, or that user may not do what Tidegate does.
    AccessDenied,
    /// It is an older version than Tidegate needs.
    TooOld,
    /// It is another kind of server than the URL says: a cluster, a single server, a Sentinel, a replica.
    WrongKind,
    /// It is there, and cannot be used for now: it is loading, out of memory, without a master, without slots.
    NotReady,
    /// The URL is wrong.
    BadUrl,
    /// There is no tokio runtime to run on, or a thread cannot be started.
    NoRuntime,
}

impl ConnectError {
    pub(in crate::redis) fn new(
        kind: ConnectErrorKind,
        place: impl fmt::Display,
        what: impl Into<Box<str>>,
        hint: impl Into<Box<str>>,
    ) -> Self {
        Self { kind, endpoint: place.to_string().into(), message: what.into(), hint: hint.into() }
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> ConnectErrorKind {
        self.kind
    }

    /// What was wrong, without where.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Whether it may go away by itself, so that it is worth another try.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self.kind, ConnectErrorKind::Unreachable | ConnectErrorKind::NotReady)
    }

    /// Whether both have the same cause. What the server or TLS says may hold the time, so the texts may differ.
    pub(super) fn has_same_cause(&self, other: &Self) -> bool {
        self.kind == other.kind && self.endpoint == other.endpoint && self.hint == other.hint
    }

    /// What was wrong and what to do, without where.
    pub(super) fn reason(&self) -> String {
        format!("{} (hint: {})", self.message, self.hint)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.endpoint {
            "" => write!(f, "the store cannot be used: {}", self.reason()),
            place => write!(f, "the store at {place} cannot be used: {}", self.reason()),
        }
    }
}

impl From<UrlError> for ConnectError {
    fn from(error: UrlError) -> Self {
        // Where it is, is what cannot be read. The URL may hold a password, so it is not repeated.
        Self::new(ConnectErrorKind::BadUrl, "", error.message(), error.hint())
    }
}

/// For [`RedisSettings`](crate::redis::RedisSettings) and [`StoreUrl`](crate::redis::StoreUrl), which cannot be wrong.
impl From<Infallible> for ConnectError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for ConnectError {}
