//! The location of counters: in memory, or in the shared store of a fleet.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidegate::redis::{ClientCertificate, RedisSettings, StoreUrl};

use super::ServeArgs;

/// The value for counters in memory.
const MEMORY: &str = "memory";

/// Where counters are. A URL may contain a password, and clap prints a value that it rejects, so the URL is parsed
/// later. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreLocation {
    /// In this process.
    Memory,
    /// At this URL, as written.
    Url(Arc<str>),
}

impl FromStr for StoreLocation {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            MEMORY => Self::Memory,
            url => Self::Url(url.into()),
        })
    }
}

impl fmt::Debug for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "Memory",
            Self::Url(_) => "Url(..)",
        })
    }
}

/// The settings of the Redis store, or `None` if counters are in memory.
pub(super) fn redis_settings(args: &ServeArgs) -> Result<Option<RedisSettings>, String> {
    let StoreLocation::Url(text) = &args.store else { return Ok(None) };
    let url: StoreUrl = text.parse().map_err(|error| format!("store: {error}"))?;
    let mut settings = RedisSettings::new(url);
    settings.timeout = args.store_timeout;
    settings.namespace = args.store_namespace.clone();
    settings.wait_replicas = args.store_wait_replicas;
    settings.ca_file = args.store_ca.clone();
    if let (Some(certificate), Some(key)) = (&args.store_cert, &args.store_key) {
        let (certificate_file, key_file) = (certificate.clone(), key.clone());
        settings.client_certificate = Some(ClientCertificate { certificate_file, key_file });
    }
    Ok(Some(settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_url() {
        let location: StoreLocation = "redis://:hunter2@127.0.0.1".parse().unwrap();
        assert_eq!(format!("{location:?}"), "Url(..)");
        assert_eq!("memory".parse(), Ok(StoreLocation::Memory));
    }
}
