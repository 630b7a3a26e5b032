//! The settings of a store on etcd.

use std::path::PathBuf;
use std::time::Duration;

use super::{ClientCertificate, EtcdUrl, EtcdUrlError};

/// The address of an etcd, and how to talk to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EtcdSettings {
    /// The members. If one does not answer, the next one is asked.
    pub url: EtcdUrl,
    /// The timeout of an operation: an acquisition takes three round trips to etcd, two of which write to disk.
    pub timeout: Duration,
    /// The prefix of all key names, so that several installations can share one etcd.
    pub namespace: Box<str>,
    /// CA certificates to verify members with, as PEM. None means the system root certificates.
    pub ca_file: Option<PathBuf>,
    /// The certificate to show to members that require one.
    pub client_certificate: Option<ClientCertificate>,
}

impl EtcdSettings {
    /// The default timeout of an operation.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
    /// The default prefix of key names.
    pub const NAMESPACE_DEFAULT: &'static str = "tg";

    /// Settings with defaults for everything except the address.
    pub fn new(url: EtcdUrl) -> Self {
        Self {
            url,
            timeout: Self::TIMEOUT_DEFAULT,
            namespace: Self::NAMESPACE_DEFAULT.into(),
            ca_file: None,
            client_certificate: None,
        }
    }
}

impl From<EtcdUrl> for EtcdSettings {
    fn from(url: EtcdUrl) -> Self {
        Self::new(url)
    }
}

impl TryFrom<&str> for EtcdSettings {
    type Error = EtcdUrlError;

    fn try_from(url: &str) -> Result<Self, EtcdUrlError> {
        url.parse().map(Self::new)
    }
}
