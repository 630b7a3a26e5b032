//! Why an edit was refused.

use std::fmt;

use crate::config::ConfigStoreError;

/// Why an edit was refused. Nothing was changed, unless the store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// It cannot work. Carries the reason, with a hint.
    Refused(Box<str>),
    /// The version is not the one that the operator named. Carries the current one, if there is an override.
    Conflict(Option<u64>),
    /// There is no such override.
    NotFound,
    /// The config store failed.
    Store(ConfigStoreError),
}

impl From<ConfigStoreError> for EditError {
    fn from(error: ConfigStoreError) -> Self {
        match error {
            ConfigStoreError::Invalid(reason) => Self::Refused(reason),
            error => Self::Store(error),
        }
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => f.write_str(reason),
            Self::Conflict(Some(version)) => {
                write!(
                    f,
                    "the override has version {version} now (hint: read it again, then set it with that version)"
                )
            }
            Self::Conflict(None) => {
                f.write_str("there is no override of this key any more (hint: leave the version out)")
            }
            Self::NotFound => f.write_str("there is no such override"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EditError {}
