//! Why a config store did not answer.

use std::fmt;

/// Why a config store did not answer. After an error a write may have been done nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigStoreError {
    /// The store cannot be reached, or did not answer in time. Carries the reason.
    Unavailable(Box<str>),
    /// There is no room for the write. Carries the reason.
    Full(Box<str>),
    /// The call is not allowed: a key that is too long, for example. Carries the reason.
    Invalid(Box<str>),
    /// The store answered with an error, or with data that it cannot have. Carries the reason.
    Broken(Box<str>),
}

impl ConfigStoreError {
    /// The name in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Full(_) => "full",
            Self::Invalid(_) => "invalid",
            Self::Broken(_) => "broken",
        }
    }
}

impl fmt::Display for ConfigStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => write!(f, "the config store cannot be reached: {reason}"),
            Self::Full(reason) => write!(f, "the config store is full: {reason}"),
            Self::Invalid(reason) => write!(f, "the config store does not take this: {reason}"),
            Self::Broken(reason) => write!(f, "the config store answered with an error: {reason}"),
        }
    }
}

impl std::error::Error for ConfigStoreError {}
