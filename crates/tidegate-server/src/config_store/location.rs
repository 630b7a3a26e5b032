//! Which config store the settings name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidegate::config::ConfigStore;
use tokio::runtime::Handle;

#[cfg(feature = "dynamodb")]
use super::dynamodb::{DynamoConfigStore, DynamoSettings};

/// The value for the config store that fits the other settings.
const AUTO: &str = "auto";

/// Where overrides are kept. A URL may contain a password, and clap prints a value that it rejects, so the URL is parsed
/// later. `Debug` hides it.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum ConfigStoreLocation {
    /// On the Redis servers of the fleet, else in the data directory, else in memory.
    #[default]
    Auto,
    /// At this URL, as written.
    Url(Arc<str>),
}

/// Why a URL names no config store. Carries the reason, with a hint. Does not contain the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationError(Box<str>);

impl ConfigStoreLocation {
    /// Checks the URL, without a connection.
    pub fn check(&self) -> Result<(), LocationError> {
        let Self::Url(url) = self else { return Ok(()) };
        match scheme_of(url) {
            #[cfg(feature = "dynamodb")]
            "dynamodb" => DynamoSettings::parse(url, variable).map(drop).map_err(LocationError::new),
            scheme => Err(LocationError::unknown(scheme)),
        }
    }

    /// Opens the store at the URL, without a connection. `None` for the store that fits the other settings.
    #[cfg_attr(
        not(feature = "dynamodb"),
        allow(unused_variables, reason = "no store of this build needs it")
    )]
    pub fn open(&self, runtime: &Handle) -> Result<Option<Arc<dyn ConfigStore>>, LocationError> {
        let Self::Url(url) = self else { return Ok(None) };
        match scheme_of(url) {
            #[cfg(feature = "dynamodb")]
            "dynamodb" => {
                let store = DynamoSettings::parse(url, variable)
                    .and_then(|settings| DynamoConfigStore::open(settings, variable, runtime));
                Ok(Some(Arc::new(store.map_err(LocationError::new)?)))
            }
            scheme => Err(LocationError::unknown(scheme)),
        }
    }
}

/// The part of a URL before `://`.
fn scheme_of(url: &str) -> &str {
    url.split_once("://").map_or("", |(scheme, _)| scheme)
}

/// A variable of the environment.
#[cfg(feature = "dynamodb")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl LocationError {
    #[cfg(feature = "dynamodb")]
    fn new(problem: String) -> Self {
        Self(problem.into())
    }

    fn unknown(scheme: &str) -> Self {
        let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
        let problem = match &*scheme {
            "redis" | "rediss" | "valkey" => {
                "the config store is on Redis if counters are there (hint: set --store, and leave config_store at auto)"
                    .to_owned()
            }
            "dynamodb" => {
                "this binary has no support for DynamoDB (hint: build it with `cargo build --release -p tidegate-server \
                 --features dynamodb`)"
                    .to_owned()
            }
            _ => format!("no config store has the scheme `{scheme}` (hint: auto, or dynamodb://TABLE?region=REGION)"),
        };
        Self(problem.into())
    }
}

impl FromStr for ConfigStoreLocation {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            AUTO => Self::Auto,
            url => Self::Url(url.into()),
        })
    }
}

impl fmt::Debug for ConfigStoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "Auto",
            Self::Url(_) => "Url(..)",
        })
    }
}

impl fmt::Display for LocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "config_store: {}", self.0)
    }
}

impl std::error::Error for LocationError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_and_errors_hide_the_url() {
        let location: ConfigStoreLocation = "nosuch://ann:hunter2@127.0.0.1".parse().unwrap();
        assert_eq!(format!("{location:?}"), "Url(..)");
        let error = location.check().unwrap_err().to_string();
        assert!(error.contains("`nosuch`") && !error.contains("hunter2"), "{error}");
        assert_eq!("auto".parse(), Ok(ConfigStoreLocation::Auto));
    }

    #[cfg(feature = "dynamodb")]
    #[test]
    fn urls_of_dynamodb_are_checked() {
        let location = |url: &str| url.parse::<ConfigStoreLocation>().unwrap();
        assert_eq!(location("dynamodb://table?region=us-east-1").check(), Ok(()));
        assert!(location("dynamodb://?region=us-east-1").check().is_err());
    }

    #[test]
    fn a_build_without_dynamodb_says_how_to_get_it() {
        let error = LocationError::unknown("dynamodb").to_string();
        assert!(error.contains("--features dynamodb"), "{error}");
    }
}
