//! Why a store on etcd cannot be used.

use std::convert::Infallible;
use std::fmt;

use super::EtcdUrlError;

/// Why a store on etcd cannot be used, and what to do. It never contains a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdError {
    message: Box<str>,
    kind: ErrorKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorKind {
    /// Another attempt may succeed.
    Transient,
    Permanent,
}

impl EtcdError {
    pub(super) fn permanent(message: impl Into<Box<str>>) -> Self {
        Self { message: message.into(), kind: ErrorKind::Permanent }
    }

    pub(super) fn transient(message: impl Into<Box<str>>) -> Self {
        Self { message: message.into(), kind: ErrorKind::Transient }
    }

    /// Whether the error may go away by itself.
    pub fn is_transient(&self) -> bool {
        self.kind == ErrorKind::Transient
    }
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<EtcdUrlError> for EtcdError {
    fn from(error: EtcdUrlError) -> Self {
        Self::permanent(error.to_string())
    }
}

/// For settings and URLs, whose conversion cannot fail.
impl From<Infallible> for EtcdError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl std::error::Error for EtcdError {}
