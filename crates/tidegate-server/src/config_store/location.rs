//! Which config store the settings name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidegate::config::ConfigStore;
use tokio::runtime::Handle;

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
            "mongodb" | "mongodb+srv" => mongodb::check(url),
            scheme => Err(LocationError::unknown(scheme)),
        }
    }

    /// The store at the URL, if one is named. Does not wait for a connection.
    pub fn open(&self, runtime: &Handle) -> Result<Option<Arc<dyn ConfigStore>>, LocationError> {
        let Self::Url(url) = self else { return Ok(None) };
        match scheme_of(url) {
            "mongodb" | "mongodb+srv" => mongodb::open(url, runtime).map(Some),
            scheme => Err(LocationError::unknown(scheme)),
        }
    }
}

fn scheme_of(url: &str) -> &str {
    url.split_once("://").map_or("", |(scheme, _)| scheme)
}

#[cfg(feature = "mongodb")]
mod mongodb {
    use super::{Arc, ConfigStore, Handle, LocationError};
    use crate::config_store::mongodb::{MongoConfigOptions, MongoConfigStore, MongoUrl};

    fn parse(url: &str) -> Result<MongoUrl, LocationError> {
        MongoUrl::parse(url).map_err(|error| LocationError(error.to_string().into()))
    }

    pub(super) fn check(url: &str) -> Result<(), LocationError> {
        parse(url).map(drop)
    }

    pub(super) fn open(url: &str, runtime: &Handle) -> Result<Arc<dyn ConfigStore>, LocationError> {
        let options = MongoConfigOptions::default();
        Ok(Arc::new(MongoConfigStore::new(parse(url)?, runtime.clone(), options)))
    }
}

#[cfg(not(feature = "mongodb"))]
mod mongodb {
    use super::{Arc, ConfigStore, Handle, LocationError};

    pub(super) fn check(_url: &str) -> Result<(), LocationError> {
        Err(LocationError::without_feature("mongodb"))
    }

    pub(super) fn open(_url: &str, _runtime: &Handle) -> Result<Arc<dyn ConfigStore>, LocationError> {
        Err(LocationError::without_feature("mongodb"))
    }
}

impl LocationError {
    #[allow(dead_code, reason = "a build with all features does not use it")]
    fn without_feature(feature: &str) -> Self {
        let problem = format!(
            "this server was built without {feature} (hint: build it with `cargo build --release --features {feature}`)"
        );
        Self(problem.into())
    }

    fn unknown(scheme: &str) -> Self {
        let scheme: String = scheme.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
        let problem = match &*scheme {
            "redis" | "rediss" | "valkey" => {
                "the config store is on Redis if counters are there (hint: set --store, and leave config_store at auto)"
                    .to_owned()
            }
            _ => format!("no config store has the scheme `{scheme}` (hint: auto)"),
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

    #[test]
    fn urls_of_mongodb_need_the_feature() {
        let location: ConfigStoreLocation = "mongodb://ann:hunter2@127.0.0.1/db".parse().unwrap();
        let checked = location.check().map_err(|error| error.to_string());
        if cfg!(feature = "mongodb") {
            assert_eq!(checked, Ok(()));
        } else {
            let error = checked.unwrap_err();
            assert!(error.contains("--features mongodb") && !error.contains("hunter2"), "{error}");
        }
    }
}
