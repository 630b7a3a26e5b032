//! The settings of a store on Redis.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::{ClientCertificate, EventHook, StoreRuntime, StoreTicks, StoreUrl, UrlError};

/// The address of the store, and how to talk to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedisSettings {
    /// The address: `redis://`, `rediss://`, `redis+sentinel://`, `redis-cluster://` or `redis+ring://`.
    pub url: StoreUrl,
    /// The timeout of a decision, including the wait in the queue.
    pub timeout: Duration,
    /// The prefix of all key names, so that several installations can share one Redis.
    pub namespace: Box<str>,
    /// Wait for this many replicas before a reply counts, up to a quarter of the timeout. A reply that fewer
    /// replicas have by then still counts, and is reported in
    /// [`ServersStats::replicas_short`](super::ServersStats::replicas_short).
    pub wait_replicas: Option<NonZeroU32>,
    /// CA certificates to verify servers with, as PEM. None means the system root certificates.
    pub ca_file: Option<PathBuf>,
    /// The certificate to show to servers that require one, as Redis does by default (`tls-auth-clients`).
    pub client_certificate: Option<ClientCertificate>,
    /// Called when a server goes down or comes back.
    pub on_event: Option<EventHook>,
    /// Which tokio runtime the tasks of the store run on.
    pub runtime: StoreRuntime,
    /// Which clock drives the periodic work of the store.
    pub ticks: StoreTicks,
}

impl RedisSettings {
    /// The default timeout of a decision.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_millis(10);
    /// The default prefix of key names.
    pub const NAMESPACE_DEFAULT: &'static str = "tg";

    /// Settings with defaults for everything except the address.
    pub fn new(url: StoreUrl) -> Self {
        Self {
            url,
            timeout: Self::TIMEOUT_DEFAULT,
            namespace: Self::NAMESPACE_DEFAULT.into(),
            wait_replicas: None,
            ca_file: None,
            client_certificate: None,
            on_event: None,
            runtime: StoreRuntime::default(),
            ticks: StoreTicks::default(),
        }
    }
}

impl From<StoreUrl> for RedisSettings {
    fn from(url: StoreUrl) -> Self {
        Self::new(url)
    }
}

impl TryFrom<&str> for RedisSettings {
    type Error = UrlError;

    fn try_from(url: &str) -> Result<Self, UrlError> {
        url.parse().map(Self::new)
    }
}

impl TryFrom<String> for RedisSettings {
    type Error = UrlError;

    fn try_from(url: String) -> Result<Self, UrlError> {
        url.as_str().try_into()
    }
}

impl TryFrom<&String> for RedisSettings {
    type Error = UrlError;

    fn try_from(url: &String) -> Result<Self, UrlError> {
        url.as_str().try_into()
    }
}
