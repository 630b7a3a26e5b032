//! The location of leases: where counters are, or in etcd.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidegate::etcd::{ClientCertificate, EtcdSettings, EtcdUrl};

use super::ServeArgs;

/// The value for leases where counters are.
const AUTO: &str = "auto";

/// Where leases are. A URL may contain a password, and clap prints a value that it rejects, so the URL is parsed later.
/// `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub enum LeaseStoreLocation {
    /// Where counters are.
    Auto,
    /// At this URL, as written.
    Url(Arc<str>),
}

impl FromStr for LeaseStoreLocation {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            AUTO => Self::Auto,
            url => Self::Url(url.into()),
        })
    }
}

impl fmt::Debug for LeaseStoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "Auto",
            Self::Url(_) => "Url(..)",
        })
    }
}

/// The settings of etcd, or `None` if leases are where counters are.
pub(super) fn etcd_settings(args: &ServeArgs) -> Result<Option<EtcdSettings>, String> {
    let LeaseStoreLocation::Url(text) = &args.lease_store else { return Ok(None) };
    let url: EtcdUrl = text.parse().map_err(|error| format!("lease_store: {error}"))?;
    let mut settings = EtcdSettings::new(url);
    settings.timeout = args.lease_store_timeout;
    settings.namespace = args.store_namespace.clone();
    settings.ca_file = args.lease_store_ca.clone();
    if let (Some(certificate), Some(key)) = (&args.lease_store_cert, &args.lease_store_key) {
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
        let location: LeaseStoreLocation = "etcd://tidegate:hunter2@127.0.0.1".parse().unwrap();
        assert_eq!(format!("{location:?}"), "Url(..)");
        assert_eq!("auto".parse(), Ok(LeaseStoreLocation::Auto));
    }
}
