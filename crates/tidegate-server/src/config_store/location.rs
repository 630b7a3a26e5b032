//! Which config store the settings name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidegate::config::ConfigStore;
use tokio::runtime::Handle;

#[cfg(feature = "dynamodb")]
use super::dynamodb::{DynamoConfigStore, DynamoSettings};
#[cfg(feature = "mongodb")]
use super::mongodb::{MongoConfigOptions, MongoConfigStore, MongoUrl};

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

/// A URL that was parsed.
enum NamedStore {
    #[cfg(feature = "dynamodb")]
    Dynamo(DynamoSettings),
    #[cfg(feature = "mongodb")]
    Mongo(Box<MongoUrl>),
}

impl ConfigStoreLocation {
    /// Checks the URL, without a connection.
    pub fn check(&self) -> Result<(), LocationError> {
        self.parse_url().map(drop)
    }

    /// Opens the store at the URL, without a connection. `None` for the store that fits the other settings.
    pub fn open(&self, runtime: &Handle) -> Result<Option<Arc<dyn ConfigStore>>, LocationError> {
        self.parse_url()?.map(|named| named.open(runtime)).transpose()
    }

    fn parse_url(&self) -> Result<Option<NamedStore>, LocationError> {
        let Self::Url(url) = self else { return Ok(None) };
        NamedStore::parse(url).map(Some)
    }
}

impl NamedStore {
    fn parse(url: &str) -> Result<Self, LocationError> {
        match url.split_once("://").map_or("", |(scheme, _)| scheme) {
            #[cfg(feature = "dynamodb")]
            "dynamodb" => DynamoSettings::parse(url, variable).map(Self::Dynamo).map_err(LocationError::new),
            #[cfg(feature = "mongodb")]
            "mongodb" | "mongodb+srv" => {
                MongoUrl::parse(url).map(|url| Self::Mongo(Box::new(url))).map_err(LocationError::new)
            }
            scheme => Err(LocationError::unknown(scheme)),
        }
    }

    #[allow(unused_variables, reason = "a build without these features has no store to open")]
    fn open(self, runtime: &Handle) -> Result<Arc<dyn ConfigStore>, LocationError> {
        match self {
            #[cfg(feature = "dynamodb")]
            Self::Dynamo(settings) => {
                let store = DynamoConfigStore::open(settings, variable, runtime);
                Ok(Arc::new(store.map_err(LocationError::new)?))
            }
            #[cfg(feature = "mongodb")]
            Self::Mongo(url) => {
                let options = MongoConfigOptions::default();
                Ok(Arc::new(MongoConfigStore::new(*url, runtime.clone(), options)))
            }
        }
    }
}

/// A variable of the environment.
#[cfg(feature = "dynamodb")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl LocationError {
    #[cfg(any(feature = "dynamodb", feature = "mongodb"))]
    fn new(problem: impl fmt::Display) -> Self {
        Self(problem.to_string().into())
    }

    fn unknown(scheme: &str) -> Self {
        let scheme: String =
            scheme.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '+').take(20).collect();
        let problem = match &*scheme {
            "redis" | "rediss" | "valkey" => {
                "the config store is on Redis if counters are there (hint: set --store, and leave config_store at auto)"
                    .to_owned()
            }
            "dynamodb" => Self::without_feature("dynamodb"),
            "mongodb" | "mongodb+srv" => Self::without_feature("mongodb"),
            _ => format!(
                "no config store has the scheme `{scheme}` (hint: auto, dynamodb://TABLE?region=REGION or mongodb://...)"
            ),
        };
        Self(problem.into())
    }

    fn without_feature(feature: &str) -> String {
        format!(
            "this server was built without {feature} (hint: build it with `cargo build --release -p tidegate-server \
             --features {feature}`)"
        )
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

    fn check(url: &str) -> Result<(), String> {
        let location: ConfigStoreLocation = url.parse().unwrap();
        assert!(url == AUTO || format!("{location:?}") == "Url(..)");
        location.check().map_err(|error| error.to_string())
    }

    #[test]
    fn debug_and_errors_hide_the_url() {
        let error = check("nosuch://ann:hunter2@127.0.0.1").unwrap_err();
        assert!(error.contains("`nosuch`") && !error.contains("hunter2"), "{error}");
        assert!(check("redis://127.0.0.1").unwrap_err().contains("set --store"));
        assert_eq!(check(AUTO), Ok(()));
    }

    #[test]
    fn urls_of_databases_need_their_features() {
        let urls = [
            ("dynamodb", cfg!(feature = "dynamodb"), "dynamodb://table?region=us-east-1"),
            ("mongodb", cfg!(feature = "mongodb"), "mongodb://ann:hunter2@127.0.0.1/db"),
        ];
        for (feature, is_on, url) in urls {
            let checked = check(url);
            let says_how = |error: &String| error.contains(&format!("--features {feature}"));
            assert_eq!(
                (checked.is_ok(), checked.as_ref().is_err_and(says_how)),
                (is_on, !is_on),
                "{checked:?}"
            );
        }
    }
}
